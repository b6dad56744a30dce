// The memory of whole schedules against the unit counts of PyTorch's FSDP tests.
#include "engine/plan/memory.h"

#include <gtest/gtest.h>

#include "engine/plan/test_support.h"

namespace shardscope::plan {
namespace {

// Elements of one block of the toy model, and of its root unit; two ranks divide all its rows.
constexpr int64_t kBlock = 64 + 192 * 64 + 64 * 64 + 64 + 256 * 64 + 64 * 256;
constexpr int64_t kRoot = 256 * 64 + 64 + 256 * 64;

TEST(Memory, Fsdp2ForwardHoldsTwoUnitsAndThreeWithPrefetch) {
  // Implicit: a unit's parameters and the output they were copied from, or the outputs of two
  // gathers. Explicit prefetch adds the next output (test_fully_shard_memory.py). The root stays.
  Policy policy = TwoRanks(Preset::kFsdp2);
  const auto peak = [&policy] {
    return PeakUntil(Build(policy), "F m0 head forward",
                     {MemoryCategory::kUnshardedParameter, MemoryCategory::kCommunicationBuffer});
  };
  EXPECT_EQ(peak(), (2 * kBlock + kRoot) * 4);
  policy.forward_prefetch = 1;
  EXPECT_EQ(peak(), (3 * kBlock + kRoot) * 4);
}

TEST(Memory, Fsdp1ForwardHoldsOneUnitMoreWithPrefetch) {
  Policy policy = TwoRanks(Preset::kFsdp1);
  const auto peak = [&policy] {
    return PeakUntil(Build(policy), "F m0 head forward", {MemoryCategory::kUnshardedParameter});
  };
  EXPECT_EQ(peak(), (kBlock + kRoot) * 4);
  policy.forward_prefetch = 1;
  EXPECT_EQ(peak(), (2 * kBlock + kRoot) * 4);
}

TEST(Memory, KeepingParametersHoldsAllOfThem) {
  Policy policy = TwoRanks(Preset::kFsdp1);
  policy.strategy = Strategy::kGradOp;
  const MemoryPeak peak = PredictPeak(Build(policy), 0);
  EXPECT_EQ(peak.by_category[static_cast<size_t>(MemoryCategory::kUnshardedParameter)],
            (3 * kBlock + kRoot) * 4);
}

TEST(Memory, BackwardOfFsdp2HoldsFourUnitBuffers) {
  // Parameters of i and i-1 (as a gather's output), gradient of i, reduce-scatter input of i+1.
  const Schedule schedule = Build(TwoRanks(Preset::kFsdp2));
  EXPECT_EQ(
      LiveAt(schedule, "B m0 block1.attention backward", {MemoryCategory::kUnshardedParameter}),
      (kBlock + kRoot) * 4);
  EXPECT_EQ(
      LiveAt(schedule, "B m0 block1.attention backward", {MemoryCategory::kCommunicationBuffer}),
      2 * kBlock * 4);
  EXPECT_EQ(LiveAt(schedule, "B m0 block1.attention backward", {MemoryCategory::kGradient}),
            (kBlock + kRoot) * 4);
}

TEST(Memory, PersistentShardsAreDividedByTheRanks) {
  const MemoryPeak peak = PredictPeak(Build(TwoRanks(Preset::kFsdp2)), 1);
  const int64_t all = 3 * kBlock + kRoot;
  EXPECT_EQ(peak.by_category[static_cast<size_t>(MemoryCategory::kParameterShard)], all / 2 * 4);
  EXPECT_EQ(peak.by_category[static_cast<size_t>(MemoryCategory::kGradientShard)], all / 2 * 4);
  EXPECT_EQ(peak.by_category[static_cast<size_t>(MemoryCategory::kOptimizer)], all / 2 * 8);
}

}  // namespace
}  // namespace shardscope::plan
