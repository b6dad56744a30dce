#include "ui/panels/steps/steps_chart.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "ui/panels/steps/step_words.h"

namespace shardscope::panels {
namespace {

std::vector<analysis::StepRow> Rows(int count) {
  std::vector<analysis::StepRow> rows(static_cast<size_t>(count));
  for (int step = 0; step < count; ++step) {
    analysis::StepRow& row = rows[static_cast<size_t>(step)];
    row.step = step;
    row.step_ns = 100 + step % 7;
    row.slowest_exposed_ns = 10 + step;
    row.exposed_ns = 5 + step;
    row.loss = 5.0 - 0.01 * step;
  }
  return rows;
}

TEST(StepsChart, EveryStepIsInOneBar) {
  for (const size_t most : {size_t{1}, size_t{7}, size_t{50}, size_t{1000}}) {
    const auto rows = Rows(100);
    const std::vector<StepBar> bars = MakeStepBars(rows, most);
    EXPECT_LE(bars.size(), most);
    size_t next = 0;
    for (const StepBar& bar : bars) {
      EXPECT_EQ(bar.first, next);
      next = bar.last + 1;
      for (size_t row = bar.first; row <= bar.last; ++row) {
        EXPECT_LE(rows[row].step_ns, rows[bar.slowest].step_ns);
      }
      EXPECT_EQ(bar.exposed_ns, rows[bar.slowest].exposed_ns);
      EXPECT_EQ(bar.loss, rows[bar.last].loss);
    }
    EXPECT_EQ(next, rows.size());
  }
  EXPECT_TRUE(MakeStepBars({}, 10).empty());
}

TEST(StepsChart, SaysWhereSomethingHappened) {
  auto rows = Rows(10);
  rows[5].events = {{0, 5, "change", "prefetch.forward", "1", "2"}};
  rows[9].events = {{0, 9, "skip", "scaler", "2", "1"}};
  rows[9].loss = std::nan("");
  const std::vector<StepBar> bars = MakeStepBars(rows, 5);
  ASSERT_EQ(bars.size(), 5u);
  EXPECT_TRUE(bars[2].has_change);
  EXPECT_FALSE(bars[2].has_incident);
  EXPECT_TRUE(bars[4].has_incident);
  EXPECT_EQ(bars[4].loss, rows[8].loss);  // the last one known
  EXPECT_FALSE(bars[0].has_change || bars[0].has_incident);
}

TEST(StepsChart, WarmUpDoesNotSetItsHeight) {
  auto rows = Rows(4);
  rows[0].step_ns = 9000;
  rows[0].is_warm_up = true;
  EXPECT_EQ(LongestStep(rows), 103);
  rows.resize(1);
  EXPECT_EQ(LongestStep(rows), 9000);
  EXPECT_EQ(LongestStep({}), 0);
}

TEST(StepWords, SayWhatHappened) {
  const auto words = [](ui::Language language, const query::Marker& event) {
    return EventWords(language, event);
  };
  EXPECT_EQ(words(ui::Language::kEnglish, {0, 1, "change", "prefetch.forward", "1", "2"}),
            "prefetch.forward 1 → 2");
  EXPECT_EQ(words(ui::Language::kEnglish, {0, 1, "checkpoint", "", "", "/runs/a/step-20"}),
            "checkpoint step-20");
  EXPECT_EQ(words(ui::Language::kChinese, {0, 1, "pause", "", "", ""}), "暂停");
  EXPECT_EQ(words(ui::Language::kEnglish, {0, 1, "new kind", "", "", "x\ny"}), "new kind x y");
  EXPECT_EQ(LossText(2.34567), "2.3457");
  EXPECT_EQ(LossText(std::nan("")), "–");
  for (const auto& [norm, text] : {std::pair(0.0917, "0.0917"),
                                   {0.917, "0.917"},
                                   {2.9, "2.90"},
                                   {17, "17.0"},
                                   {123.4, "123"},
                                   {999.7, "1.00e+03"},
                                   {1e-7, "1.00e-07"}}) {
    EXPECT_EQ(NormText(norm), text);
  }
}

}  // namespace
}  // namespace shardscope::panels
