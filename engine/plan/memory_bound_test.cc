// The bound of a step's memory against all orders in which small programs can run, and against the
// orders of real ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "engine/plan/checks/happens_before.h"
#include "engine/plan/memory.h"
#include "engine/plan/schedule_test_util.h"

namespace shardscope::plan {
namespace {

// A host, two streams, a few buffers of random sizes, waits at random.
Schedule RandomSchedule(std::mt19937* random) {
  const auto below = [random](int end) { return static_cast<int32_t>((*random)() % end); };
  Schedule schedule;
  schedule.streams = {{"host", StreamRole::kHost}, {"a"}, {"b"}};
  Program program;
  std::vector<BufferId> live;
  for (OpIndex index = 0; index < 7; ++index) {
    Op op;
    op.kind = OpKind::kForward;
    op.stream = below(5) == 0 ? 0 : 1 + below(2);
    if (index > 0 && below(3) == 0) {
      op.dependencies.push_back(
          {below(3) == 0 ? DependencyKind::kHost : DependencyKind::kEvent, below(index)});
    }
    if (below(3) > 0) {
      Buffer buffer;
      buffer.bytes = 1 + below(9);
      live.push_back(static_cast<BufferId>(program.buffers.size()));
      op.allocates = {live.back()};
      program.buffers.push_back(buffer);
    }
    if (!live.empty() && below(2) == 0) {
      op.frees = {live[static_cast<size_t>(below(static_cast<int>(live.size())))]};
      std::erase(live, op.frees.front());
    }
    program.ops.push_back(std::move(op));
  }
  schedule.programs = {std::move(program)};
  schedule.program_of_rank = {0};
  return schedule;
}

// Every moment that a program can come to, by trying what may start or end next.
class EveryOrder {
 public:
  EveryOrder(const Schedule& schedule, const Unlisted& unlisted)
      : program_(schedule.programs.front()),
        unlisted_(unlisted),
        order_(program_, static_cast<int>(schedule.streams.size())) {}

  int64_t Peak() {
    Visit(0, 0, 0);
    return peak_;
  }

 private:
  void Visit(uint32_t started, uint32_t ended, int64_t live) {
    if (!visited_.insert({started, ended}).second) return;
    peak_ = std::max(peak_, live);
    for (OpIndex index = 0; index < static_cast<OpIndex>(program_.ops.size()); ++index) {
      const uint32_t bit = 1U << static_cast<uint32_t>(index);
      const Op& op = program_.ops[static_cast<size_t>(index)];
      const int64_t temporary = unlisted_.temporary_bytes(op);
      if ((started & bit) == 0 && MayStart(index, ended)) {
        Visit(started | bit, ended, live + BytesOf(op.allocates) + temporary);
      } else if ((started & bit) != 0 && (ended & bit) == 0) {
        Visit(started, ended | bit, live - BytesOf(op.frees) - temporary);
      }
    }
  }
  bool MayStart(OpIndex index, uint32_t ended) const {
    for (OpIndex before = 0; before < index; ++before) {
      if (order_.Ordered(before, index) && (ended >> static_cast<uint32_t>(before) & 1U) == 0) {
        return false;
      }
    }
    return true;
  }
  int64_t BytesOf(const std::vector<BufferId>& ids) const {
    int64_t bytes = 0;
    for (const BufferId id : ids) bytes += program_.buffers[static_cast<size_t>(id)].bytes;
    return bytes;
  }

  const Program& program_;
  const Unlisted& unlisted_;
  const HappensBefore order_;
  std::set<std::pair<uint32_t, uint32_t>> visited_;
  int64_t peak_ = 0;
};

TEST(MemoryBound, IsThePeakOfTheWorstOrder) {
  std::mt19937 random(7);
  const Unlisted unlisted = {.temporary_bytes = [](const Op& op) { return 3 * op.stream; }};
  for (int round = 0; round < 1000; ++round) {
    const Schedule schedule = RandomSchedule(&random);
    const int64_t peak = EveryOrder(schedule, unlisted).Peak();
    EXPECT_EQ(BoundPeaks(schedule, unlisted).front(), peak) << "round " << round;
    EXPECT_EQ(HeaviestMoment(schedule, 0, unlisted).total, peak) << "round " << round;
  }
}

TEST(MemoryBound, CountsWhatLiesBesideBuffers) {
  std::mt19937 random(8);
  Schedule schedule = RandomSchedule(&random);
  const int64_t bytes = BoundPeaks(schedule, {}).front();
  const Unlisted unlisted = {.beside_bytes = [](const Buffer& buffer) { return buffer.bytes; }};
  EXPECT_EQ(BoundPeaks(schedule, unlisted).front(), 2 * bytes);
}

// Host order, one op after the other, is one of the orders.
TEST(MemoryBound, IsNeverBelowTheIssueLedgerAndSeldomFarAbove) {
  for (const Preset preset : {Preset::kFsdp1, Preset::kFsdp2}) {
    for (const Strategy* strategy :
         {FindStrategy("full"), FindStrategy("grad_op"), FindStrategy("no_shard"),
          FindStrategy("hybrid"), FindStrategy("ddp"), FindStrategy("zero1"), FindStrategy("zero2"),
          FindStrategy("zero3")}) {
      for (const int run_ahead : {-1, 0, 2}) {
        Policy policy = TwoRanks(preset);
        policy.strategy = strategy;
        policy.mesh = strategy->MeshOf(2);
        policy.run_ahead = run_ahead;
        policy.micro_batches = 2;
        const Schedule schedule = Build(policy);
        const int64_t predicted = PredictPeak(schedule, 0).total;
        const int64_t bound = BoundPeaks(schedule, {}).front();
        EXPECT_GE(bound, predicted) << schedule.name;
        EXPECT_LE(bound, 2 * predicted) << schedule.name;
      }
    }
  }
}

// At most, in any order, of all gradients.
int64_t GradientsHeld(const Schedule& schedule) {
  Unlisted only_gradients;
  only_gradients.beside_bytes = [](const Buffer& buffer) {
    return buffer.kind == BufferKind::kGradient ? 0 : -buffer.bytes;
  };
  return BoundPeaks(schedule, only_gradients).front();
}

int64_t GradientsOf(const Schedule& schedule) {
  int64_t gradients = 0;
  for (const Buffer& buffer : schedule.programs.front().buffers) {
    if (buffer.kind == BufferKind::kGradient) gradients += buffer.bytes;
  }
  return gradients;
}

// FSDP2's compute waits for the reduce-scatter before; FSDP1's runs on, and each gradient is held
// until the link has taken it.
TEST(MemoryBound, KnowsThatFsdp1MayHoldEveryGradient) {
  const Schedule schedule = Build(TwoRanks(Preset::kFsdp1));
  EXPECT_EQ(GradientsHeld(schedule), GradientsOf(schedule));
  EXPECT_LT(GradientsHeld(Build(TwoRanks(Preset::kFsdp2))), GradientsOf(schedule));
}

// Two buckets, one of which is reduced.
TEST(MemoryBound, KnowsThatZero2HoldsTheGradientsOfTwoBuckets) {
  Policy policy = TwoRanks(Preset::kFsdp2);
  policy.strategy = FindStrategy("zero2");
  const Schedule schedule = Build(policy, /*root_unit=*/false);
  std::vector<int64_t> buckets;
  for (const Buffer& buffer : schedule.programs.front().buffers) {
    if (buffer.kind == BufferKind::kGradient) buckets.push_back(buffer.bytes);
  }
  EXPECT_EQ(buckets.size(), schedule.units.size());
  EXPECT_EQ(GradientsHeld(schedule), 2 * *std::ranges::max_element(buckets));
  policy.overlap_comm = false;
  EXPECT_EQ(GradientsHeld(Build(policy, /*root_unit=*/false)), *std::ranges::max_element(buckets));
}

}  // namespace
}  // namespace shardscope::plan
