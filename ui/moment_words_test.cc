#include "ui/moment_words.h"

#include <gtest/gtest.h>

#include <set>

#include "trace/analysis/collectives.h"
#include "trace/analysis/moment.h"
#include "trace/analysis/snapshot_test_util.h"
#include "trace/base/time.h"
#include "ui/text.h"

namespace shardscope::ui {
namespace {

// The catalogue shows a translator what the app says.
TEST(MomentWordsOf, TheCatalogueHasTheEnglishWords) {
  for (size_t at = 0; at < kMomentTexts.size(); ++at) {
    EXPECT_EQ(MomentWordsOf(Language::kEnglish).phrases[at],
              Tr(Language::kEnglish, kMomentTexts[at]));
    EXPECT_EQ(MomentWordsOf(Language::kChinese).phrases[at],
              Tr(Language::kChinese, kMomentTexts[at]));
  }
}

TEST(MomentWordsOf, SaysTheSameInChinese) {
  analysis::TestSnapshot test(1);
  const query::PlanOpId gather = test.Plan("all_gather", "forward", "block1");
  const query::PlanOpId forward = test.Plan("forward", "forward", "", "block0.mlp");
  test.Run(0, 0, forward, 0, 100);
  test.Run(0, 0, gather, 20, 70);
  test.Step(0, 0, 0, 100);
  const analysis::Moments moments(test.Build(), {0, 100});
  EXPECT_EQ(MomentSentence(moments.At(30).ranks[0], MomentWordsOf(Language::kChinese)),
            "rank 0 正在计算 block0.mlp 的前向，同时 block1 的 all-gather（已完成 20%）正在进行，"
            "被它掩盖");
}

// Of causes that need no name; where there is one, the report says more of it.
TEST(StallSentence, EnglishIsThatOfTheReport) {
  using query::BlockingKind;
  analysis::TestSnapshot test(1);
  const query::PlanOpId backward2 = test.Plan("backward", "backward", "", "block2");
  const query::PlanOpId gather = test.Plan("all_gather", "backward", "block1");
  const query::PlanOpId backward1 = test.Plan("backward", "backward", "", "block1");
  const query::PlanOpId scatter = test.Plan("reduce_scatter", "backward", "block1");
  const query::PlanOpId optimizer = test.Plan("optimizer", "optimizer", "block1");
  const auto run = [&test](int32_t step, query::PlanOpId op, int64_t from_ms,
                           int64_t to_ms) -> query::OpRun& {
    return test.Run(0, step, op, from_ms * kNsPerMs, to_ms * kNsPerMs);
  };
  const auto run_behind = [&run](int32_t step, query::PlanOpId op, int64_t from_ms, int64_t to_ms,
                                 query::PlanOpId blocker) {
    query::OpRun& row = run(step, op, from_ms, to_ms);
    row.blocking_plan_op = blocker;
    row.blocking_kind = BlockingKind::kEvent;
  };
  run(0, backward2, 0, 10);  // the gather is issued late
  run(0, gather, 12, 15);
  run_behind(0, backward1, 15, 25, gather);
  run(1, backward1, 100, 110);  // a tail
  run_behind(1, scatter, 110, 120, backward1);
  run_behind(1, optimizer, 120, 125, scatter);
  run(2, backward2, 200, 210);  // no slot
  run(2, backward1, 240, 250).slot_wait_ns = 30 * kNsPerMs;
  for (int32_t step = 0; step < 3; ++step) {
    test.Step(0, step, step * 100 * kNsPerMs, (step + 1) * 100 * kNsPerMs);
  }
  std::set<analysis::StallCause> causes;
  for (const analysis::Stall& stall : analysis::Stalls(*test.Build(), 0, 2)) {
    EXPECT_EQ(StallSentence(Language::kEnglish, stall.cause, stall.cause_object), stall.sentence);
    causes.insert(stall.cause);
  }
  EXPECT_EQ(causes, (std::set{analysis::StallCause::kIssuedLate, analysis::StallCause::kTail,
                              analysis::StallCause::kSlot}));
}

}  // namespace
}  // namespace shardscope::ui
