#include "ui/timeline/span_column.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <tuple>

namespace shardscope::timeline {
namespace {

using query::OpClass;

Span MakeSpan(int64_t start_ns, int64_t end_ns, OpClass op_class = OpClass::kForward) {
  return {start_ns, end_ns, 0, op_class, 0, false};
}

// Spans one after another, handed over slightly out of order as rows of several threads are.
std::vector<Span> RandomSpans(int count, std::mt19937* random) {
  constexpr std::array<OpClass, 4> kClasses = {OpClass::kForward, OpClass::kBackward,
                                               OpClass::kOptimizer, OpClass::kCopy};
  std::vector<Span> spans;
  int64_t time_ns = 5'000'000'000'000;
  for (int at = 0; at < count; ++at) {
    time_ns += static_cast<int64_t>((*random)() % 400'000);
    const auto length = static_cast<int64_t>((*random)() % 900'000);
    spans.push_back(MakeSpan(time_ns, time_ns + length, kClasses[(*random)() % 4]));
    time_ns += length;
  }
  for (size_t at = 2; at < spans.size(); at += 3) std::swap(spans[at], spans[at - 2]);
  return spans;
}

void ExpectSortedAndSearched(const SpanColumn& column, std::mt19937* random) {
  for (size_t at = 1; at < column.size(); ++at) {
    EXPECT_LE(column[at - 1].start_ns, column[at].start_ns);
  }
  for (int query = 0; query < 2'000; ++query) {
    const int64_t time_ns =
        column[0].start_ns - 1'000 + static_cast<int64_t>((*random)() % 4'000'000) * 90;
    size_t touching = column.size();
    size_t starting = column.size();
    for (size_t at = column.size(); at-- > 0;) {
      if (column[at].end_ns > time_ns) touching = at;
      if (column[at].start_ns >= time_ns) starting = at;
    }
    EXPECT_EQ(column.FirstTouching(time_ns), touching);
    EXPECT_EQ(column.FirstStartingAt(time_ns), starting);
  }
}

TEST(SpanColumnTest, StaysSortedAndFindsWhatALinearScanFinds) {
  std::mt19937 random(3);
  SpanColumn column;
  EXPECT_EQ(column.FirstTouching(0), 0U);
  EXPECT_EQ(column.FirstStartingAt(0), 0U);
  std::vector<Span> spans = RandomSpans(500, &random);
  // One that began before most others, and ends after them.
  spans.push_back(MakeSpan(spans[30].start_ns, spans.back().end_ns));
  for (const Span& span : spans) column.Insert(span);
  ExpectSortedAndSearched(column, &random);
}

// Spans of op runs are those that were inserted, though only their rows are held.
TEST(SpanColumnTest, OfOpRunsIsThatWithTimes) {
  std::mt19937 random(5);
  const auto op_runs = std::make_shared<query::RowList<query::OpRun>>();
  SpanColumn of_rows(op_runs);
  SpanColumn with_times;
  uint32_t row = 0;
  for (Span span : RandomSpans(500, &random)) {
    query::OpRun run;
    run.issued_ns = span.start_ns - static_cast<int64_t>(random() % 3'000'000);
    run.started_ns = span.start_ns;
    run.ended_ns = span.end_ns;
    op_runs->Append(run);
    span.row = row++;
    span.shade = static_cast<uint8_t>(random() % 255);
    span.instant = random() % 2 == 0;
    if (span.instant) span.start_ns = span.end_ns = run.issued_ns;
    of_rows.Insert(span);
    with_times.Insert(span);
  }
  ASSERT_EQ(of_rows.size(), with_times.size());
  for (size_t at = 0; at < of_rows.size(); ++at) {
    const Span a = of_rows[at];
    const Span b = with_times[at];
    EXPECT_EQ(std::tuple(a.start_ns, a.end_ns, a.row, a.op_class, a.shade, a.instant),
              std::tuple(b.start_ns, b.end_ns, b.row, b.op_class, b.shade, b.instant));
  }
  ExpectSortedAndSearched(of_rows, &random);
}

TEST(SpanColumnTest, NearestPrefersTheSpanThatContains) {
  SpanColumn column;
  column.Insert(MakeSpan(100, 200));
  column.Insert(MakeSpan(210, 300));
  EXPECT_EQ(column.Nearest(150, 0), 0U);
  EXPECT_EQ(column.Nearest(200, 0), 0U);  // touches the end
  EXPECT_EQ(column.Nearest(203, 5), 0U);
  EXPECT_EQ(column.Nearest(208, 5), 1U);
  EXPECT_EQ(column.Nearest(205, 2), 2U);  // too far from both
  EXPECT_EQ(column.Nearest(1'000, 50), 2U);
}

TEST(DensityPyramidTest, HowOftenItIsUpdatedChangesNothing) {
  std::mt19937 random(12);
  SpanColumn often;
  SpanColumn once;
  size_t count = 0;
  for (const Span& span : RandomSpans(20'000, &random)) {
    often.Insert(span);
    once.Insert(span);
    if (++count % 7 == 0) often.UpdateDensity();
  }
  often.UpdateDensity();
  once.UpdateDensity();
  const Range range{once[0].start_ns, once[once.size() - 1].end_ns};
  for (const int num_columns : {3, 100, 3'000}) {
    EXPECT_EQ(often.density().Columns(range, num_columns),
              once.density().Columns(range, num_columns));
  }
}

// Whatever the level, the busy time of all columns adds up, and each column is near the truth.
TEST(DensityPyramidTest, ColumnsMatchALinearScan) {
  std::mt19937 random(11);
  SpanColumn column;
  for (const Span& span : RandomSpans(4'000, &random)) column.Insert(span);
  column.UpdateDensity();
  const int64_t start_ns = column[0].start_ns;
  const int64_t end_ns = column[column.size() - 1].end_ns;
  for (const int num_columns : {10, 57, 200}) {
    const Range range{start_ns, end_ns};
    const std::vector<SlotBusy> columns = column.density().Columns(range, num_columns);
    const double column_ns = static_cast<double>(range.length_ns()) / num_columns;
    for (int at = 0; at < num_columns; ++at) {
      std::array<double, kNumSlots> expected{};
      const double from = static_cast<double>(start_ns) + column_ns * at;
      for (size_t span = 0; span < column.size(); ++span) {
        const double busy = std::min(static_cast<double>(column[span].end_ns), from + column_ns) -
                            std::max(static_cast<double>(column[span].start_ns), from);
        if (busy > 0) expected[SlotOf(column[span].op_class)] += busy;
      }
      for (size_t slot = 0; slot < kNumSlots; ++slot) {
        // Bins are at most half a column wide, so at most one bin's content is on the wrong side.
        EXPECT_NEAR(columns[static_cast<size_t>(at)][slot], expected[slot], column_ns * 0.5);
      }
    }
    for (size_t slot = 0; slot < kNumSlots; ++slot) {
      double total = 0;
      double expected = 0;
      for (const SlotBusy& busy : columns) total += static_cast<double>(busy[slot]);
      for (size_t span = 0; span < column.size(); ++span) {
        if (SlotOf(column[span].op_class) != slot) continue;
        expected += static_cast<double>(column[span].end_ns - column[span].start_ns);
      }
      EXPECT_NEAR(total, expected, 0.01 * expected);
    }
  }
}

// Lanes get the slots that they use; what came before stays what it was.
TEST(DensityPyramidTest, ASlotThatComesLaterChangesNothingOfTheOthers) {
  constexpr int64_t kMs = 1'000'000;
  DensityPyramid narrow;
  DensityPyramid wide;
  wide.Add(0, 0, kNumSlots - 1);  // without length: only the room
  for (int64_t at = 0; at < 500; ++at) {
    for (DensityPyramid* density : {&narrow, &wide}) density->Add(at * kMs, at * kMs + kMs / 2, 0);
  }
  const Range range{0, 1000 * kMs};
  EXPECT_EQ(narrow.Columns(range, 50), wide.Columns(range, 50));
  for (int64_t at = 500; at < 1000; ++at) {
    for (DensityPyramid* density : {&narrow, &wide}) {
      density->Add(at * kMs, at * kMs + kMs / 4, static_cast<size_t>(at) % kNumSlots);
    }
  }
  EXPECT_EQ(narrow.Columns(range, 50), wide.Columns(range, 50));
}

// A lane with few spans keeps coarser bins than one with many over the same time.
TEST(DensityPyramidTest, FewSpansHaveFewBins) {
  constexpr int64_t kSecond = 1'000'000'000;
  const auto finest_of = [](int64_t num_spans) {
    DensityPyramid density;
    for (int64_t at = 0; at < num_spans; ++at) {
      const int64_t start_ns = at * 16 * kSecond / num_spans;
      density.Add(start_ns, start_ns + 1000, 0);
    }
    return density.finest_ns();
  };
  EXPECT_GT(finest_of(100), finest_of(20'000));
  EXPECT_LE(finest_of(100), 16 * kSecond / (1 << 12));
}

TEST(DensityPyramidTest, LongRunsDropTheFinestLevel) {
  DensityPyramid density;
  density.Add(0, 1'000'000, 0);
  const int64_t finest_before = density.finest_ns();
  const int64_t day_ns = 86'400'000'000'000;
  density.Add(day_ns, day_ns + 3'600'000'000'000, 1);
  EXPECT_GT(density.finest_ns(), finest_before);
  const std::vector<SlotBusy> columns = density.Columns({0, 2 * day_ns}, 48);
  EXPECT_GT(columns[0][0], 0);
  EXPECT_NEAR(columns[24][1], 3.6e12, 3.6e12 * 0.02);  // the hour after the first day
  EXPECT_EQ(columns[40][1], 0);
}

}  // namespace
}  // namespace shardscope::timeline
