#include "ui/timeline/lane.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <stop_token>
#include <utility>
#include <vector>

#include "tests/lesson/lesson_snapshot.h"
#include "trace/analysis/snapshot_test_util.h"
#include "trace/analysis/steps/breakdown.h"
#include "ui/timeline/geometry.h"
#include "ui/timeline/lane_source.h"
#include "ui/timeline/lanes_test_util.h"

namespace shardscope::timeline {
namespace {

using query::OpClass;

TEST(LanesOfRanksTest, AreThoseOfTheCollectivesThatRanksRan) {
  for (const bool shards : {true, false}) {
    analysis::TestSnapshot made(1);
    const query::PlanOpId forward = made.Plan("forward", "forward", "root", "embedding");
    const query::PlanOpId collective =
        made.Plan(shards ? "all_gather" : "all_reduce", "backward", "root", "", {forward});
    made.Run(0, 0, forward, 0, 100);
    made.Run(0, 0, collective, 100, 200);
    RunIndex index;
    EXPECT_TRUE(index.Advance(*made.Build()));
    const RankLanes lanes = LanesOf(index.ranks().front());
    const auto has = [&lanes](LaneKind kind) {
      return std::ranges::count(lanes.lanes, kind, &LaneSource::kind) == 1;
    };
    EXPECT_EQ(has(LaneKind::kAllGather), shards);
    EXPECT_EQ(has(LaneKind::kReduceScatter), shards);
    EXPECT_EQ(has(LaneKind::kAllReduce), !shards);
  }
}

// Of a stage and the next one: what is received may have come before what is sent is known.
TEST(PairsTest, ASendKnowsWhereItIsReceived) {
  analysis::TestSnapshot made(2);
  const query::PlanOpId send = made.Plan("send", "forward", "", "block0");
  made.op(send).stream = "send_activation";
  const query::PlanOpId receive = made.Plan("receive", "forward", "", "block0");
  made.op(receive).stream = "receive_activation";
  for (const int64_t start_ns : {0, 100}) {
    made.Run(1, 0, receive, start_ns + 5, start_ns + 30);
    made.Run(0, 0, send, start_ns, start_ns + 25);
  }
  RunIndex index;
  const query::SnapshotPtr snapshot = made.Build();
  EXPECT_TRUE(index.Advance(*snapshot));
  for (const uint32_t row : {0U, 1U}) {
    const std::optional<query::Collective> sent =
        index.CollectiveOf(snapshot->ranks[0], index.ranks()[0], row);
    ASSERT_TRUE(sent.has_value());
    const OpPlace* receiver = index.ReceiverOf(*sent);
    ASSERT_NE(receiver, nullptr);
    EXPECT_EQ(receiver->rank, 1);
    EXPECT_EQ(receiver->row, row);
  }
}

class LessonTest : public testing::Test {
 protected:
  LessonTest() : snapshot_(analysis::MakeLessonSnapshot(2, 8, 4)) {
    EXPECT_TRUE(index_.Advance(*snapshot_));
    EXPECT_TRUE(index_.FindStalls(*snapshot_, {snapshot_->start_ns, snapshot_->end_ns}));
  }
  LaneDraw Draw(LaneKind kind, const Axis& axis) const {
    return Preprocess(index_, snapshot_->ranks[0], OpLane(index_.ranks()[0], kind), axis, false);
  }
  Range StepRange(int first, int last) const {
    const auto& steps = snapshot_->ranks[0].steps;
    return {steps[static_cast<size_t>(first)].start_ns, steps[static_cast<size_t>(last)].end_ns};
  }

  query::SnapshotPtr snapshot_;
  RunIndex index_;
};

// Every op of the lane is in exactly one box, at its place; folded boxes count theirs.
TEST_F(LessonTest, BoxesHoldEverySpanOfTheView) {
  for (const int last : {3, 4, 6}) {
    const Axis axis(StepRange(3, last), 100, 900);
    const LaneDraw draw = Draw(LaneKind::kCompute, axis);
    ASSERT_FALSE(draw.dense);
    size_t in_boxes = 0;
    for (const SpanBox& box : draw.boxes) {
      in_boxes += box.count;
      EXPECT_LE(box.x0, box.x1);
      const query::OpRun& run = snapshot_->ranks[0].op_runs[box.row];
      EXPECT_FLOAT_EQ(box.x0, axis.X(run.started_ns));
      if (box.count == 1) {
        EXPECT_FLOAT_EQ(box.x1, axis.X(run.ended_ns));
      }
    }
    size_t expected = 0;
    for (const query::OpRun& run : snapshot_->ranks[0].op_runs) {
      const query::PlanOp* op = snapshot_->FindPlanOp(run.plan_op);
      const bool drawn = op->op_class == OpClass::kForward || op->op_class == OpClass::kBackward ||
                         op->op_class == OpClass::kOptimizer || op->op_class == OpClass::kCopy;
      const query::Track* track = nullptr;
      for (const query::Track& candidate : snapshot_->tracks) {
        if (candidate.id == run.track) track = &candidate;
      }
      if (!drawn || track->role != query::TrackRole::kCompute) continue;
      if (run.ended_ns >= axis.range().start_ns && run.started_ns < axis.range().end_ns) ++expected;
    }
    EXPECT_EQ(in_boxes, expected);
  }
}

TEST_F(LessonTest, WaitEndsWhereTheLastRankArrives) {
  const Axis axis(StepRange(0, 7), 0, 100'000);  // wide, so that nothing folds
  const auto collectives = analysis::Collectives(*snapshot_, 0, 100);
  int waits = 0;
  for (const LaneKind kind : {LaneKind::kAllGather, LaneKind::kReduceScatter}) {
    for (const SpanBox& box : Draw(kind, axis).boxes) {
      const query::OpRun& run = snapshot_->ranks[0].op_runs[box.row];
      if (box.count > 1 || !index_.CollectiveOf(snapshot_->ranks[0], index_.ranks()[0], box.row)) {
        continue;
      }
      EXPECT_EQ(box.truth, query::Truth::kEmulated);
      for (const analysis::CollectiveRun& collective : collectives) {
        if (collective.rank != 0 || collective.op_run != run.id) continue;
        EXPECT_NEAR(box.wait_x1, axis.X(collective.last_arrival_ns), 0.51);
        if (collective.wait_ns > 0) ++waits;
      }
    }
  }
  EXPECT_GT(waits, 0);  // every seventh step rank 1 is slow
}

TEST_F(LessonTest, ExposedStripIsWhatTheReportCounts) {
  for (size_t step = 0; step < 8; ++step) {
    const auto at = static_cast<int>(step);
    const Axis axis(StepRange(at, at), 0, 50'000);
    double exposed_px = 0;
    for (const GapBox& gap : Draw(LaneKind::kExposed, axis).gaps) {
      exposed_px += static_cast<double>(std::min(gap.x1, axis.right())) -
                    static_cast<double>(std::max(gap.x0, axis.left()));
    }
    for (const analysis::StepBreakdown& row : analysis::Breakdowns(*snapshot_)) {
      if (row.rank != 0 || row.step != at) continue;
      EXPECT_NEAR(exposed_px * axis.ns_per_pixel(), static_cast<double>(row.time.exposed_ns),
                  1e-3 * static_cast<double>(row.step_ns));
    }
  }
}

TEST_F(LessonTest, StallsFillGapsOfTheComputeLane) {
  const Axis axis(StepRange(2, 3), 0, 5'000);
  const LaneDraw draw = Draw(LaneKind::kCompute, axis);
  ASSERT_FALSE(draw.gaps.empty());
  for (const GapBox& gap : draw.gaps) {
    const analysis::Stall& stall = *index_.ranks()[0].stalls[gap.stall];
    EXPECT_FLOAT_EQ(gap.x0, axis.X(stall.start_ns));
    for (const SpanBox& box : draw.boxes) {
      // No box of the lane begins inside a stall, but for the tolerance of a pixel.
      EXPECT_FALSE(box.x0 > gap.x0 + 1 && box.x0 < gap.x1 - 1);
    }
  }
}

TEST_F(LessonTest, HitTestFindsEveryWideBox) {
  const Layout layout = MakeLayout(LanesOfRanks(index_), {}, 1);
  const Axis axis(StepRange(4, 4), 50, 2'000);
  int hits = 0;
  for (const Lane& lane : layout.lanes) {
    const LaneKind kind = lane.source.kind;
    if (lane.rank != 0 || kind == LaneKind::kExposed || kind == LaneKind::kHost) continue;
    for (const SpanBox& box : Draw(kind, axis).boxes) {
      if (box.count > 1 || box.x1 - box.x0 < 8) continue;
      if (box.x0 < axis.left() || box.x1 > axis.right()) continue;
      const Hit hit = HitTest(layout, axis, (box.x0 + box.x1) / 2, lane.y + lane.height - 2);
      EXPECT_EQ(hit.kind, Hit::Kind::kSpan);
      EXPECT_EQ(hit.row, box.row);
      EXPECT_EQ(hit.rank, 0);
      ++hits;
    }
    for (const GapBox& gap : Draw(kind, axis).gaps) {
      if (gap.x1 - gap.x0 < 8 || gap.x0 < axis.left() || gap.x1 > axis.right()) continue;
      const Hit hit = HitTest(layout, axis, (gap.x0 + gap.x1) / 2, lane.y + 2);
      EXPECT_EQ(hit.kind, Hit::Kind::kStall);
      EXPECT_EQ(hit.stall, gap.stall);
    }
  }
  EXPECT_GT(hits, 10);
  EXPECT_EQ(HitTest(layout, axis, 0, 30).kind, Hit::Kind::kNothing);
  EXPECT_EQ(HitTest(layout, axis, 500, layout.height + 5).kind, Hit::Kind::kNothing);
}

// Feeding a run in pieces, as a live run comes, gives the same drawing as reading it at once.
TEST(RunIndexTest, PiecesGiveTheSameAsTheWhole) {
  const query::SnapshotPtr whole = analysis::MakeLessonSnapshot(2, 6, 3);
  RunIndex at_once;
  EXPECT_TRUE(at_once.Advance(*whole));

  RunIndex in_pieces;
  query::Snapshot part = *whole;
  part.state = query::TraceState::kLive;
  for (int piece = 1; piece <= 40; ++piece) {
    part.generation = static_cast<uint64_t>(piece);
    for (size_t rank = 0; rank < part.ranks.size(); ++rank) {
      const query::RankRows& rows = whole->ranks[rank];
      query::RankRows& cut = part.ranks[rank];
      cut = {rows.rank, {}, {}, {}, {}};
      // Collectives run ahead of op runs at times, as rows of different tables do.
      const size_t op_runs = rows.op_runs.size() * static_cast<size_t>(piece) / 40;
      const size_t ahead = std::min(rows.collectives.size(),
                                    rows.collectives.size() * static_cast<size_t>(piece) / 40 + 3);
      for (size_t at = 0; at < op_runs; ++at) cut.op_runs.Append(rows.op_runs[at]);
      for (size_t at = 0; at < ahead; ++at) cut.collectives.Append(rows.collectives[at]);
      for (const query::Step& step : rows.steps) {
        if (op_runs > 0 && step.end_ns <= cut.op_runs.back().ended_ns) cut.steps.Append(step);
      }
    }
    EXPECT_TRUE(in_pieces.Advance(part));
    EXPECT_TRUE(in_pieces.FindStalls(part, {whole->start_ns, whole->end_ns}));
  }
  part = *whole;
  part.generation = 41;
  EXPECT_TRUE(in_pieces.Advance(part));

  const Range all{whole->start_ns, whole->end_ns};
  EXPECT_TRUE(at_once.FindStalls(*whole, all));
  EXPECT_TRUE(in_pieces.FindStalls(part, all));
  EXPECT_FALSE(at_once.ranks()[0].stalls.empty());
  ASSERT_EQ(in_pieces.ranks().size(), at_once.ranks().size());
  const Axis axis({whole->start_ns, whole->end_ns}, 0, 50'000);
  for (size_t rank = 0; rank < at_once.ranks().size(); ++rank) {
    EXPECT_EQ(in_pieces.ranks()[rank].stalls.size(), at_once.ranks()[rank].stalls.size());
    for (const LaneKind kind : {LaneKind::kHost, LaneKind::kCompute, LaneKind::kAllGather,
                                LaneKind::kReduceScatter, LaneKind::kExposed}) {
      const auto draw = [&](const RunIndex& index) {
        return Preprocess(index, whole->ranks[rank], OpLane(index.ranks()[rank], kind), axis,
                          false);
      };
      const LaneDraw a = draw(at_once);
      const LaneDraw b = draw(in_pieces);
      ASSERT_EQ(a.boxes.size(), b.boxes.size());
      for (size_t at = 0; at < a.boxes.size(); ++at) {
        EXPECT_EQ(a.boxes[at].row, b.boxes[at].row);
        EXPECT_FLOAT_EQ(a.boxes[at].wait_x1, b.boxes[at].wait_x1);
      }
      EXPECT_EQ(a.gaps.size(), b.gaps.size());
    }
  }
}

// Of hundreds of steps in view: they are passed over by 64 where none is long.
TEST(RunIndexTest, StallsOfShortStepsAreNotLookedFor) {
  query::Snapshot run = *analysis::MakeLessonSnapshot(2, 210, 70);
  const auto length_of = [](const query::Step& step) { return step.end_ns - step.start_ns; };
  const query::RowList<query::Step> steps = std::exchange(run.ranks[1].steps, {});
  const int64_t least_ns = (length_of(steps[20]) + length_of(steps[200])) / 2;
  ASSERT_GT(least_ns, length_of(steps[200]));
  for (query::Step step : steps) {
    if (step.step == 190) step.start_ns = step.end_ns - least_ns;
    run.ranks[1].steps.Append(step);
  }
  std::set<int32_t> long_steps;
  for (const query::RankRows& rows : run.ranks) {
    for (const query::Step& step : rows.steps) {
      if (length_of(step) >= least_ns) long_steps.insert(step.step);
    }
  }
  EXPECT_LT(long_steps.size(), 100U);
  EXPECT_TRUE(long_steps.contains(190));

  const auto stalls_of = [&](int64_t least) {
    RunIndex index;
    EXPECT_TRUE(index.Advance(run));
    EXPECT_TRUE(index.FindStalls(run, {run.start_ns, run.end_ns}, least));
    std::vector<std::pair<int32_t, int64_t>> stalls;
    for (const analysis::Stall* stall : index.ranks()[0].stalls) {
      if (long_steps.contains(stall->step)) stalls.emplace_back(stall->step, stall->start_ns);
      EXPECT_TRUE(least == 0 || long_steps.contains(stall->step)) << stall->step;
    }
    return stalls;
  };
  const auto found = stalls_of(least_ns);
  EXPECT_EQ(found, stalls_of(0));
  EXPECT_TRUE(std::ranges::any_of(found, [](const auto& stall) { return stall.first == 190; }));
}

TEST(RunIndexTest, RanksSideBySideGiveTheSameAsOneAfterTheOther) {
  const query::SnapshotPtr snapshot = analysis::MakeLessonSnapshot(4, 6, 3);
  RunIndex one;
  EXPECT_TRUE(one.Advance(*snapshot));
  RunIndex all;
  EXPECT_TRUE(all.AdvanceAll(*snapshot, {}));
  EXPECT_NE(all.version(), one.version());     // what was drawn of one is not of the other
  EXPECT_TRUE(all.AdvanceAll(*snapshot, {}));  // nothing is new
  EXPECT_EQ(all.NewestNs(), one.NewestNs());
  ASSERT_EQ(all.ranks().size(), 4u);
  for (size_t at = 0; at < 4; ++at) {
    const RankIndex& a = all.ranks()[at];
    const RankIndex& b = one.ranks()[at];
    for (size_t kind = 0; kind < kNumColumns; ++kind) {
      EXPECT_EQ(a.columns[kind].size(), b.columns[kind].size());
    }
    EXPECT_EQ(a.collectives, b.collectives);
    EXPECT_EQ(a.memory.size(), b.memory.size());
    for (const query::Collective& collective : snapshot->ranks[at].collectives) {
      ASSERT_NE(all.ArrivalOf(collective), nullptr);
      EXPECT_EQ(all.ArrivalOf(collective)->last_rank, one.ArrivalOf(collective)->last_rank);
      EXPECT_EQ(all.ArrivalOf(collective)->num_ranks, 4);
    }
  }
  std::stop_source stop;
  stop.request_stop();
  EXPECT_FALSE(RunIndex().AdvanceAll(*snapshot, stop.get_token()));
}

TEST(RunIndexTest, RowBudgetSpreadsALargeTraceOverFrames) {
  const query::SnapshotPtr snapshot = analysis::MakeLessonSnapshot(2, 6, 3);
  RunIndex index;
  int calls = 1;
  while (!index.Advance(*snapshot, 100)) ++calls;
  EXPECT_GT(calls, 3);
  RunIndex at_once;
  at_once.Advance(*snapshot);
  EXPECT_EQ(index.ranks()[1].column(LaneKind::kCompute).size(),
            at_once.ranks()[1].column(LaneKind::kCompute).size());
}

TEST(RunIndexTest, StallsAreFoundWhereOneLooks) {
  const query::SnapshotPtr snapshot = analysis::MakeLessonSnapshot(2, 100, 50);
  RunIndex index;
  index.Advance(*snapshot);
  const auto& steps = snapshot->ranks[1].steps;
  // A few steps at a time until all in view were looked at.
  const Range near{steps[20].start_ns, steps[40].end_ns};
  int calls = 1;
  while (!index.FindStalls(*snapshot, near, 0, 4)) ++calls;
  EXPECT_GE(calls, 20 / 4);
  std::vector<int64_t> expected;
  for (const analysis::Stall& stall : analysis::Stalls(*snapshot, 20, 40)) {
    if (stall.rank == 1) expected.push_back(stall.start_ns);
  }
  ASSERT_FALSE(expected.empty());
  for (const int64_t start_ns : expected) {
    const analysis::Stall* found = RunIndex::StallAt(index.ranks()[1], start_ns);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->start_ns, start_ns);
  }
  const uint64_t version = index.version();
  EXPECT_TRUE(index.FindStalls(*snapshot, near, 0, 0));  // known: nothing to do, nothing changes
  EXPECT_EQ(index.version(), version);
  const Range after{steps[60].start_ns, steps[70].end_ns};
  const int64_t longest_ns = steps[0].end_ns - steps[0].start_ns + snapshot->end_ns;
  EXPECT_TRUE(index.FindStalls(*snapshot, after, longest_ns, 0));  // too narrow to see any
  EXPECT_TRUE(index.ranks()[1].stalls.empty());
}

// While every frame brings new rows, as of a live run on a slow renderer, the newest step has its
// turn.
TEST(RunIndexTest, StallsOfTheNewestStepAreFoundWhileRowsPourIn) {
  const query::SnapshotPtr whole = analysis::MakeLessonSnapshot(2, 12, 99);
  query::Snapshot live = *whole;
  live.state = query::TraceState::kLive;
  RunIndex index;
  index.Advance(live);
  const auto& steps = whole->ranks[0].steps;
  const Range all{whole->start_ns, whole->end_ns};
  const std::vector<analysis::Stall> newest =
      analysis::Stalls(live, steps.back().step, steps.back().step);
  ASSERT_FALSE(newest.empty());
  index.FindStalls(live, all, 0, 2);  // the one that may run, and the newest that ended
  EXPECT_NE(RunIndex::StallAt(*index.Find(newest[0].rank), newest[0].start_ns), nullptr);
  for (int frame = 1; frame < 30; ++frame) {
    ++live.generation;
    index.Advance(live);
    index.FindStalls(live, all, 0, 1);
  }
  for (const analysis::Stall& stall : analysis::Stalls(live, 0, steps.back().step)) {
    EXPECT_NE(RunIndex::StallAt(*index.Find(stall.rank), stall.start_ns), nullptr)
        << "step " << stall.step;
  }
}

// However coarse the view is, and however many narrow spans stand beside it.
TEST(LaneTest, AGapOfFourPixelsIsHatched) {
  const query::SnapshotPtr snapshot = analysis::MakeLessonSnapshot(2, 100, 99);
  RunIndex index;
  index.Advance(*snapshot);
  const auto& steps = snapshot->ranks[0].steps;
  int dense = 0;
  int hatched = 0;
  for (const size_t last : {size_t{3}, size_t{5}, size_t{8}, size_t{20}, size_t{60}, size_t{99}}) {
    for (const float width : {400.0F, 900.0F, 1500.0F}) {
      const Axis axis({steps[0].start_ns, steps[last].end_ns}, 100, width);
      const auto least_ns = static_cast<int64_t>(axis.ns_per_pixel() * double{kMinStall});
      EXPECT_TRUE(index.FindStalls(*snapshot, axis.range(), least_ns));
      const RankIndex& rank = *index.Find(0);
      const LaneDraw draw =
          Preprocess(index, snapshot->ranks[0], OpLane(rank, LaneKind::kCompute), axis, false);
      dense += draw.dense ? 1 : 0;
      for (const analysis::Stall& stall : analysis::Stalls(*snapshot, 0, static_cast<int>(last))) {
        if (stall.rank != 0 || axis.X(stall.end_ns) - axis.X(stall.start_ns) < kMinStall) continue;
        const bool found = std::any_of(draw.gaps.begin(), draw.gaps.end(), [&](const GapBox& gap) {
          return gap.x0 == axis.X(stall.start_ns) && gap.x1 == axis.X(stall.end_ns);
        });
        EXPECT_TRUE(found) << "step " << stall.step << " of " << last + 1 << ", width " << width;
        hatched += draw.dense && found ? 1 : 0;
      }
    }
  }
  EXPECT_GT(dense, 3);
  EXPECT_GT(hatched, 0);
}

// A long run seen whole: density, bounded by the width, and back to boxes only a notch closer.
TEST(LaneTest, DenseViewsAreBoundedByTheirWidth) {
  const query::SnapshotPtr snapshot = analysis::MakeLessonSnapshot(1, 400, 200);
  RunIndex index;
  index.Advance(*snapshot);
  const RankIndex& rank = index.ranks()[0];
  const Axis axis({snapshot->start_ns, snapshot->end_ns}, 0, 800);
  for (const LaneKind kind : {LaneKind::kCompute, LaneKind::kAllGather, LaneKind::kFolded}) {
    const LaneDraw draw = Preprocess(index, snapshot->ranks[0], OpLane(rank, kind), axis, false);
    ASSERT_TRUE(draw.dense);
    EXPECT_TRUE(draw.boxes.empty());
    EXPECT_GT(draw.runs.size(), 0U);
    EXPECT_LE(draw.runs.size(), 800U);
    float last = 0;
    for (const DensityRun& run : draw.runs) {
      EXPECT_GE(run.x0, last);
      EXPECT_GE(run.level, 1);
      EXPECT_LE(run.level, kDensityLevels);
      last = run.x1;
    }
  }
  const SpanColumn& column = rank.column(LaneKind::kCompute);
  const auto visible_range = [&](double spans) {
    const double share = spans / static_cast<double>(column.size());
    return Range{snapshot->start_ns,
                 snapshot->start_ns +
                     static_cast<int64_t>(
                         share * static_cast<double>(snapshot->end_ns - snapshot->start_ns))};
  };
  const Axis between(visible_range(800 / (kMinRectangle * 1.12)), 0, 800);
  EXPECT_FALSE(DrawDense(column, between, false));
  EXPECT_TRUE(DrawDense(column, between, true));
}

}  // namespace
}  // namespace shardscope::timeline
