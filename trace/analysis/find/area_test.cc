#include "trace/analysis/find/area.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>
#include <set>

#include "tests/lesson/lesson_snapshot.h"
#include "trace/analysis/snapshot_test_util.h"
#include "trace/base/time.h"

namespace shardscope::analysis {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Two ranks, one step.
//
//   rank 0   AG 0-20   copy 15-30   F 25-60   AG 50-80      idle from 80 on
//   rank 1   AG 0-40                    F 40-70
class AreaTest : public testing::Test {
 protected:
  AreaTest() : test_(2) {
    gather_ = test_.Plan("all_gather", "forward", "block0");
    copy_ = test_.Plan("copy_out", "forward", "block0", "", {gather_});
    forward_ = test_.Plan("forward", "forward", "", "block0.mlp", {copy_});
    next_ = test_.Plan("all_gather", "forward", "block1");
    reshard_ = test_.Plan("reshard", "forward", "block0");
    test_.Run(0, 0, gather_, 0, 20);
    test_.Run(0, 0, copy_, 15, 30);
    test_.Run(0, 0, forward_, 25, 60);
    test_.Run(0, 0, next_, 50, 80);
    test_.Run(1, 0, gather_, 0, 40);
    test_.Run(1, 0, forward_, 40, 70);
    test_.Step(0, 0, 0, 100);
    test_.Step(1, 0, 0, 90);
  }

  Area Measure(int64_t start_ns, int64_t end_ns, std::vector<int32_t> ranks = {}) {
    return MeasureArea(*test_.Build(), {{start_ns, end_ns}, std::move(ranks)});
  }

  // On rank 0.
  void AddWork(const std::string& name, const Interval& time, query::SpanCategory category,
               query::GpuTimes times = query::GpuTimes::kMeasured) {
    query::GpuWork work;
    test_.snapshot().names.Append(name);
    work.name = static_cast<int32_t>(test_.snapshot().names.size()) - 1;
    work.start_ns = time.start_ns;
    work.end_ns = time.end_ns;
    work.category = category;
    work.times = times;
    test_.snapshot().ranks[0].gpu_work.Append(work);
  }

  TestSnapshot test_;
  query::PlanOpId gather_, copy_, forward_, next_, reshard_;
};

std::vector<std::string> NamesOf(const Area& area) {
  std::vector<std::string> names;
  for (const AreaName& row : area.names) names.push_back(row.name);
  return names;
}

TEST_F(AreaTest, AWholeStepHasTheTimesOfItsBreakdown) {
  const query::SnapshotPtr snapshot = test_.Build();
  const std::vector<StepBreakdown> steps = Breakdowns(*snapshot);
  ASSERT_EQ(steps.size(), 2u);
  for (const StepBreakdown& step : steps) {
    const Area area = MeasureArea(*snapshot, {{step.start_ns, step.end_ns}, {step.rank}});
    ASSERT_EQ(area.ranks.size(), 1u);
    const AreaRank& rank = area.ranks.front();
    EXPECT_EQ(area.length_ns(), step.step_ns);
    EXPECT_EQ(rank.compute.union_ns, step.time.compute_ns);
    EXPECT_EQ(rank.communication.union_ns, step.time.communication_ns);
    EXPECT_EQ(rank.copy.union_ns, step.time.copy_ns);
    EXPECT_EQ(rank.overlap_ns, step.time.overlap_ns);
    EXPECT_EQ(rank.exposed_ns, step.time.exposed_ns);
    EXPECT_EQ(rank.exposed_copy_ns, step.time.exposed_copy_ns);
    EXPECT_EQ(rank.idle_ns, step.time.idle_ns);
  }
}

TEST_F(AreaTest, SpansAreCutAtTheBorders) {
  const Area area = Measure(10, 55);
  ASSERT_EQ(area.ranks.size(), 2u);
  const AreaRank& rank = area.ranks[0];
  EXPECT_EQ(rank.compute.union_ns, 30);        // F 25-55
  EXPECT_EQ(rank.communication.union_ns, 15);  // AG 10-20, 50-55
  EXPECT_EQ(rank.communication.sum_ns, 15);
  EXPECT_EQ(rank.copy.union_ns, 15);
  EXPECT_EQ(rank.exposed_ns, 10);
  EXPECT_EQ(rank.exposed_copy_ns, 5);  // 20-25
  EXPECT_EQ(rank.idle_ns, 0);
  EXPECT_EQ(rank.count, 4);
  EXPECT_EQ(area.ranks[1].count, 2);
  EXPECT_THAT(NamesOf(area), ElementsAre("F m0 block0.mlp forward", "F m0 block0 all_gather",
                                         "F m0 block0 copy_out", "F m0 block1 all_gather"));
  const AreaName& gather = area.names[1];
  EXPECT_EQ(gather.kind, "all_gather");
  EXPECT_EQ(gather.what, AreaKind::kOp);
  EXPECT_EQ(gather.count, 2);
  EXPECT_EQ(gather.sum_ns, 10 + 30);
  EXPECT_EQ(gather.longest_ns, 30);
  EXPECT_DOUBLE_EQ(gather.duration_ns.p50, 20);
  EXPECT_DOUBLE_EQ(gather.duration_ns.p95, 29);
}

TEST_F(AreaTest, BordersAreHalfOpen) {
  test_.Run(0, 0, forward_, 80, 80);
  test_.Run(0, 0, forward_, 90, 90);
  EXPECT_EQ(Measure(80, 90).ranks[0].count, 1);  // not what ended at 80, nor what begins at 90
  EXPECT_EQ(Measure(81, 90).ranks[0].count, 0);
  EXPECT_EQ(Measure(79, 91).ranks[0].count, 3);
}

TEST_F(AreaTest, OpsThatTakeNoTimeOfAStepDoNotCount) {
  test_.Run(0, 0, reshard_, 82, 88);
  const Area area = Measure(80, 90);
  EXPECT_EQ(area.ranks[0].idle_ns, 10);
  EXPECT_EQ(area.ranks[0].count, 0);
  EXPECT_THAT(area.names, IsEmpty());
  EXPECT_THAT(area.histogram, IsEmpty());
}

TEST_F(AreaTest, OnlyTheRanksThatAreAskedFor) {
  const Area area = Measure(0, 100, {1});
  ASSERT_EQ(area.ranks.size(), 1u);
  EXPECT_EQ(area.ranks[0].rank, 1);
  EXPECT_THAT(NamesOf(area), ElementsAre("F m0 block0 all_gather", "F m0 block0.mlp forward"));
}

TEST_F(AreaTest, DurationsAreCountedInBucketsOf1And2And5) {
  // 20 and 40, 15, 35 and 30, 30.
  EXPECT_THAT(Measure(0, 100).histogram, ElementsAre(AreaBucket{10, 20, 1}, AreaBucket{20, 50, 5}));
  test_.Run(0, 0, forward_, 85, 85);
  test_.Run(0, 0, forward_, 86, 87);
  test_.Run(0, 0, forward_, 88, 93);
  EXPECT_THAT(Measure(81, 100).histogram, ElementsAre(AreaBucket{0, 1, 1}, AreaBucket{1, 2, 1},
                                                      AreaBucket{2, 5, 0}, AreaBucket{5, 10, 1}));
}

TEST_F(AreaTest, WorkOfAGpuCountsWhereARankHasNoOps) {
  test_ = TestSnapshot(1);
  AddWork("gemm", {0, 10}, query::SpanCategory::kCompute);
  AddWork("ncclKernel", {5, 25}, query::SpanCategory::kCommunication);
  AddWork("lost", {30, 30}, query::SpanCategory::kCompute, query::GpuTimes::kLost);
  const AreaRank rank = Measure(0, 40).ranks.at(0);
  EXPECT_EQ(rank.compute.union_ns, 10);
  EXPECT_EQ(rank.exposed_ns, 15);
  EXPECT_EQ(rank.idle_ns, 15);
  EXPECT_EQ(rank.count, 2);
}

TEST_F(AreaTest, WorkOfAGpuIsListedBesideOpsAndCountsOnce) {
  const AreaRank without = Measure(0, 100).ranks[0];
  AddWork("gemm", {25, 60}, query::SpanCategory::kCompute);
  query::Span range;
  range.name = 0;
  range.start_ns = 90;
  range.end_ns = 130;
  test_.snapshot().ranks[0].spans.Append(range);
  const Area area = Measure(0, 100);
  EXPECT_EQ(area.ranks[0].compute.sum_ns, without.compute.sum_ns);
  EXPECT_EQ(area.ranks[0].idle_ns, without.idle_ns);
  EXPECT_EQ(area.ranks[0].count, without.count);
  std::map<AreaKind, int64_t> sums;
  for (const AreaName& row : area.names) {
    if (row.name == "gemm") sums[row.what] += row.sum_ns;
  }
  EXPECT_EQ(sums, (std::map<AreaKind, int64_t>{{AreaKind::kWork, 35}, {AreaKind::kRange, 10}}));
}

TEST_F(AreaTest, IsCompleteWhereNoNewerRowsCanChangeIt) {
  EXPECT_TRUE(Measure(0, 100).complete);
  test_.snapshot().state = query::TraceState::kLive;
  EXPECT_FALSE(Measure(0, 100).complete);
  test_.Step(0, 1, 100, 150);
  EXPECT_FALSE(Measure(0, 100).complete);  // rank 1 may still be in it
  EXPECT_TRUE(Measure(0, 100, {0}).complete);
  EXPECT_FALSE(Measure(0, 101, {0}).complete);
  test_.Step(1, 1, 100, 140);
  EXPECT_TRUE(Measure(0, 100).complete);
}

TEST_F(AreaTest, StopsWhenItIsNoLongerWanted) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(MeasureArea(*test_.Build(), {{0, 100}, {}}, {.stop = stop.get_token()}).stopped);
}

struct Part {
  size_t op;  // 0 and 4 compute, 1 is communication, 2 a copy, 3 takes no time
  int64_t start_ns;
  int64_t end_ns;
};

// Nanosecond by nanosecond.
AreaRank CountEvery(const std::vector<Part>& parts, const Interval& time) {
  AreaRank counted;
  for (int64_t now = time.start_ns; now < time.end_ns; ++now) {
    int64_t computes = 0, communicates = 0, copies = 0;
    for (const Part& part : parts) {
      if (part.start_ns > now || part.end_ns <= now) continue;
      computes += part.op == 0 || part.op == 4 ? 1 : 0;
      communicates += part.op == 1 ? 1 : 0;
      copies += part.op == 2 ? 1 : 0;
    }
    counted.compute.sum_ns += computes;
    counted.communication.sum_ns += communicates;
    counted.copy.sum_ns += copies;
    counted.compute.union_ns += computes > 0 ? 1 : 0;
    counted.communication.union_ns += communicates > 0 ? 1 : 0;
    counted.copy.union_ns += copies > 0 ? 1 : 0;
    counted.overlap_ns += computes > 0 && communicates > 0 ? 1 : 0;
    if (computes > 0) continue;
    (communicates > 0 ? counted.exposed_ns
     : copies > 0     ? counted.exposed_copy_ns
                      : counted.idle_ns) += 1;
  }
  return counted;
}

void ExpectSame(const AreaTime& a, const AreaTime& b) {
  EXPECT_EQ(a.union_ns, b.union_ns);
  EXPECT_EQ(a.sum_ns, b.sum_ns);
}

void ExpectSame(const AreaRank& a, const AreaRank& b) {
  ExpectSame(a.compute, b.compute);
  ExpectSame(a.communication, b.communication);
  ExpectSame(a.copy, b.copy);
  EXPECT_EQ(a.overlap_ns, b.overlap_ns);
  EXPECT_EQ(a.exposed_ns, b.exposed_ns);
  EXPECT_EQ(a.exposed_copy_ns, b.exposed_copy_ns);
  EXPECT_EQ(a.idle_ns, b.idle_ns);
}

TEST(Area, AgreesWithCountingEveryNanosecond) {
  std::mt19937 random(11);
  const auto between = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int round = 0; round < 40; ++round) {
    TestSnapshot test(1);
    const std::vector<query::PlanOpId> ops = {
        test.Plan("forward", "forward", "", "block0"), test.Plan("all_gather", "forward", "block0"),
        test.Plan("copy_out", "forward", "block0"), test.Plan("reshard", "forward", "block0"),
        test.Plan("optimizer", "optimizer", "block0")};
    std::vector<Part> parts;
    for (int64_t i = between(0, 30); i > 0; --i) {
      const int64_t start_ns = between(0, 300);
      parts.push_back({static_cast<size_t>(between(0, 4)), start_ns, start_ns + between(0, 60)});
      test.Run(0, static_cast<int32_t>(between(-1, 2)), ops[parts.back().op], start_ns,
               parts.back().end_ns);
    }
    const int64_t start_ns = between(0, 200);
    const Area area = MeasureArea(*test.Build(), {{start_ns, start_ns + between(1, 200)}, {}});
    const AreaRank& rank = area.ranks.at(0);
    ExpectSame(rank, CountEvery(parts, area.query.time));
    EXPECT_EQ(rank.compute.union_ns + rank.exposed_ns + rank.exposed_copy_ns + rank.idle_ns,
              area.length_ns());
    int64_t in_table = 0, in_histogram = 0;
    for (const AreaName& row : area.names) in_table += row.sum_ns;
    for (const AreaBucket& bucket : area.histogram) in_histogram += bucket.count;
    EXPECT_EQ(in_table, rank.compute.sum_ns + rank.communication.sum_ns + rank.copy.sum_ns);
    EXPECT_EQ(in_histogram, rank.count);
  }
}

// What runs on a rank all of the time from `from_ns` to `to_ns`: idle, exposed communication, or
// neither.
struct Running {
  bool is_idle = true;
  bool is_exposed = false;
};
Running RunningIn(const query::Snapshot& snapshot, const query::RankRows& rows, int64_t from_ns,
                  int64_t to_ns) {
  bool computes = false, communicates = false, copies = false;
  for (const query::OpRun& run : rows.op_runs) {
    if (run.started_ns > from_ns || run.ended_ns < to_ns) continue;
    const query::PlanOp& op = *snapshot.FindPlanOp(run.plan_op);
    if (op.op_class == query::OpClass::kBookkeeping) continue;
    computes |= query::IsCompute(op.op_class);
    communicates |= query::IsCommunication(op.op_class);
    copies |= op.category == query::Category::kCopy;
  }
  return {!computes && !communicates && !copies, communicates && !computes};
}

// Of each cause idle and exposed time in `time`, from border to border; of none the idle time.
using CauseSums = std::map<std::optional<StallCause>, std::pair<int64_t, int64_t>>;
CauseSums SumsOf(const query::Snapshot& snapshot, const query::RankRows& rows,
                 const std::vector<Stall>& stalls, const Interval& time) {
  std::set<int64_t> borders = {time.start_ns, time.end_ns};
  for (const query::OpRun& run : rows.op_runs) borders.insert({run.started_ns, run.ended_ns});
  for (const Stall& stall : stalls) borders.insert({stall.start_ns, stall.end_ns});
  CauseSums sums;
  for (auto from = borders.begin(); std::next(from) != borders.end(); ++from) {
    const int64_t to = *std::next(from);
    if (*from < time.start_ns || to > time.end_ns) continue;
    const Running running = RunningIn(snapshot, rows, *from, to);
    const auto stall = std::find_if(stalls.begin(), stalls.end(), [&](const Stall& one) {
      return one.rank == rows.rank && one.start_ns <= *from && one.end_ns >= to;
    });
    std::optional<StallCause> cause;
    if (stall != stalls.end()) cause = stall->cause;
    if (running.is_idle) sums[cause].first += to - *from;
    if (running.is_exposed && cause) sums[cause].second += to - *from;
  }
  return sums;
}

TEST(Area, CausesAreThoseOfStallsAndExplainNoMoreThanThereIs) {
  const query::SnapshotPtr snapshot = MakeLessonSnapshot(2, 12, 6);
  const std::vector<Stall> stalls = Stalls(*snapshot, 0, 11);
  ASSERT_FALSE(stalls.empty());
  // It begins in the middle of a stall.
  const Stall& first = stalls[stalls.size() / 8];
  const Interval time{first.start_ns + first.stall_ns / 3,
                      first.start_ns + (snapshot->end_ns - snapshot->start_ns) / 3};
  const Area area = MeasureArea(*snapshot, {time, {}});
  int64_t idle = 0;
  for (const AreaRank& rank : area.ranks) {
    CauseSums sums = SumsOf(*snapshot, *snapshot->FindRank(rank.rank), stalls, time);
    EXPECT_EQ(rank.unexplained_ns(), sums[std::nullopt].first);
    sums.erase(std::nullopt);
    ASSERT_EQ(rank.causes.size(), sums.size());
    for (const AreaCause& cause : rank.causes) {
      EXPECT_EQ(std::pair(cause.idle_ns, cause.exposed_ns), sums[cause.cause]);
      idle += cause.idle_ns;
    }
  }
  EXPECT_GT(idle, 0);
  EXPECT_TRUE(area.has_causes);
  const Area quick = MeasureArea(*snapshot, {time, {}}, {.most_ops_for_causes = 10});
  EXPECT_FALSE(quick.has_causes);
  EXPECT_EQ(quick.ranks[0].idle_ns, area.ranks[0].idle_ns);
  EXPECT_TRUE(quick.ranks[0].causes.empty());
  for (const AreaCause& cause : SumOfCauses(area.ranks)) idle -= cause.idle_ns;
  EXPECT_EQ(idle, 0);
}

// Also where no op is in the area, and where the step is not finished yet.
TEST(Area, WithinAStallIsThatStall) {
  for (const bool is_finished : {true, false}) {
    SCOPED_TRACE(is_finished);
    TestSnapshot test(1);
    const query::PlanOpId first = test.Plan("forward", "forward", "", "embedding");
    const query::PlanOpId gather = test.Plan("all_gather", "forward", "block0");
    const query::PlanOpId next = test.Plan("forward", "forward", "", "block0", {gather});
    test.Run(0, 0, first, 0, 10 * kNsPerMs);
    test.Run(0, 0, gather, 60 * kNsPerMs, 80 * kNsPerMs);
    query::OpRun& waited = test.Run(0, 0, next, 80 * kNsPerMs, 100 * kNsPerMs);
    waited.blocking_plan_op = gather;
    waited.blocking_kind = query::BlockingKind::kEvent;
    if (is_finished) test.Step(0, 0, 0, 100 * kNsPerMs);
    const Area area = MeasureArea(*test.Build(), {{20 * kNsPerMs, 50 * kNsPerMs}, {}});
    EXPECT_EQ(area.ranks.front().idle_ns, 30 * kNsPerMs);
    EXPECT_EQ(area.ranks.front().unexplained_ns(), 0);
  }
}

TEST(ParseArea, TakesTimesOrAStep) {
  EXPECT_EQ(ParseArea("12.5s:13.1s").value(),
            (AreaText{std::nullopt, {12'500'000'000, 13'100'000'000}}));
  EXPECT_EQ(ParseArea("0:20us").value(), (AreaText{std::nullopt, {0, 20'000}}));
  EXPECT_EQ(ParseArea("7").value(), (AreaText{7, {}}));
  for (const char* text :
       {"", ":", "1s", "1s:", ":1s", "2s:1s", "1s:1s", "-1", "1:2", "x:y", "-1s:1s"}) {
    EXPECT_FALSE(ParseArea(text).ok()) << text;
  }
}

TEST_F(AreaTest, IsFoundInTheRun) {
  test_.Run(0, 1, forward_, 1'000'000, 1'000'100);
  const query::SnapshotPtr snapshot = test_.Build();
  EXPECT_EQ(ResolveArea(*snapshot, {0, {}}, {}).value(), (AreaQuery{{0, 100}, {}}));
  EXPECT_EQ(ResolveArea(*snapshot, {0, {}}, {1}).value(), (AreaQuery{{0, 90}, {1}}));
  // What lies behind the run is cut off.
  EXPECT_EQ(ResolveArea(*snapshot, {std::nullopt, {50, 1'000'000'000}}, {}).value().time,
            (Interval{50, 1'000'100}));
  EXPECT_THAT(ResolveArea(*snapshot, {std::nullopt, {2'000'000'000, 3'000'000'000}}, {}).message(),
              HasSubstr("this trace has 1.00 ms"));
  EXPECT_THAT(ResolveArea(*snapshot, {7, {}}, {}).message(), HasSubstr("the steps 0 to 0"));
  EXPECT_THAT(ResolveArea(*snapshot, {0, {}}, {5}).message(), HasSubstr("no rank 5"));
}

TEST_F(AreaTest, TimesCountFromTheStartOfTheRun) {
  test_ = TestSnapshot(1);
  const query::PlanOpId forward = test_.Plan("forward", "forward", "", "block0");
  test_.Run(0, 0, forward, 1'000, 3'000);
  EXPECT_EQ(ResolveArea(*test_.Build(), {std::nullopt, {500, 1'500}}, {}).value().time,
            (Interval{1'500, 2'500}));
}

}  // namespace
}  // namespace shardscope::analysis
