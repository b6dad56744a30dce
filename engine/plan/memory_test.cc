// The memory of whole schedules against the unit counts of PyTorch's FSDP tests.
#include "engine/plan/memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "engine/plan/schedule_test_util.h"
#include "engine/plan/state.h"
#include "engine/plan/uniform_model.h"

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

// 4 bytes of a gradient and 8 of Adam's moments an element, over two ranks, wherever they lie.
TEST(Memory, WhatIsFrozenSparesItsGradientAndState) {
  ModelDescription model = UniformModel(3, true);
  EXPECT_EQ(SparedByFrozen(model, TwoRanks(Preset::kFsdp2)).optimizer_bytes, 0);
  for (Parameter& parameter : model.units[1].parameters) parameter.is_frozen = true;
  for (const Offload offload : {Offload::kNone, Offload::kOptimizer, Offload::kAll}) {
    Policy policy = TwoRanks(Preset::kFsdp2);
    policy.offload = offload;
    const SparedState spared = SparedByFrozen(model, policy);
    EXPECT_EQ(spared.gradient_bytes, 4 * kBlock / 2);
    EXPECT_EQ(spared.optimizer_bytes, 8 * kBlock / 2);
  }
  Policy zero = TwoRanks(Preset::kFsdp2);
  zero.strategy = FindStrategy("zero1");
  EXPECT_EQ(SparedByFrozen(model, zero).gradient_bytes, 4 * kBlock) << "it is whole";
  EXPECT_EQ(SparedByFrozen(model, zero).optimizer_bytes, 8 * kBlock / 2);
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
  policy.strategy = FindStrategy("grad_op");
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

// However late a stream comes to a release, the next copy-in comes behind it.
TEST(Memory, Fsdp2FreesAnOutputOnTheStreamThatTakesTheNextOne) {
  const Schedule schedule = Build(TwoRanks(Preset::kFsdp2));
  const Program& program = schedule.programs.front();
  int num_freed = 0;
  for (const Op& op : program.ops) {
    for (const BufferId id : op.frees) {
      if (program.buffers[static_cast<size_t>(id)].kind != BufferKind::kAllGatherOutput) continue;
      EXPECT_EQ(schedule.streams[static_cast<size_t>(op.stream)].role, StreamRole::kCopy)
          << OpName(schedule, op);
      ++num_freed;
    }
  }
  EXPECT_GT(num_freed, 0);
}

// Between its forward and its backward a unit's part among k ranks stays: 1/k of it.
TEST(Memory, ReshardToFewerRanksKeepsTheirPartOfEachUnit) {
  Policy policy;
  policy.mesh = MeshOf(MeshDimension::kShard, 4);
  policy.post_forward_ranks = 2;
  const auto live = [&](const char* op) {
    return LiveAt(Build(policy), op, {MemoryCategory::kUnshardedParameter});
  };
  EXPECT_EQ(live("F m0 head forward"), (3 * kBlock / 2 + kRoot) * 4);
  // Its own block is whole, and the one before waits.
  EXPECT_EQ(live("B m0 block1.attention backward"), (kBlock + kBlock / 2 + kRoot) * 4);
}

// Shards, two slots each for parameters and gradients as large as the largest units, and nothing
// that comes and goes but activations.
TEST(Memory, DoubleBufferTakesFourSlots) {
  const Schedule schedule = Build(TwoRanks(Preset::kDoubleBuffer), false);
  const MemoryPeak peak = PredictPeak(schedule, 0);
  const auto of = [&](MemoryCategory category) {
    return peak.by_category[static_cast<size_t>(category)];
  };
  EXPECT_EQ(of(MemoryCategory::kUnshardedParameter), 2 * kBlock * 4);
  EXPECT_EQ(of(MemoryCategory::kGradient), 2 * kBlock * 4);
  EXPECT_EQ(of(MemoryCategory::kCommunicationBuffer), 0);
  EXPECT_EQ(of(MemoryCategory::kParameterShard), (3 * kBlock + kRoot) * 4 / 2);
}

// record_stream on the gradient comes after the reduction was issued, whoever reads it.
TEST(Memory, Fsdp1HoldsAGradientUntilItIsReducedAlsoWhereACastHasReadIt) {
  Policy policy = TwoRanks(Preset::kFsdp1);
  for (const DType param : {DType::kFp32, DType::kBf16}) {
    policy.param_dtype = param;
    EXPECT_EQ(LiveAt(Build(policy), "B m0 block1 reduce_scatter", {MemoryCategory::kGradient}),
              (kBlock + kRoot) * BytesOf(param));
  }
}

TEST(Memory, PersistentShardsAreDividedByTheRanks) {
  const MemoryPeak peak = PredictPeak(Build(TwoRanks(Preset::kFsdp2)), 1);
  const int64_t all = 3 * kBlock + kRoot;
  EXPECT_EQ(peak.by_category[static_cast<size_t>(MemoryCategory::kParameterShard)], all / 2 * 4);
  EXPECT_EQ(peak.by_category[static_cast<size_t>(MemoryCategory::kGradientShard)], all / 2 * 4);
  EXPECT_EQ(peak.by_category[static_cast<size_t>(MemoryCategory::kOptimizer)], all / 2 * 8);
}

// Units of random sizes, one or two segments each; the first may be a root that spans the others.
ModelDescription RandomModel(std::mt19937* random) {
  ModelDescription model;
  const bool root = (*random)() % 2 == 0;
  const auto num_units = static_cast<int32_t>(2 + (*random)() % 6);
  for (int32_t unit = 0; unit < num_units; ++unit) {
    const std::string name = "u" + std::to_string(unit);
    const auto rows = static_cast<int64_t>(1 + (*random)() % 40);
    model.units.push_back({name, root && unit == 0, {{name + ".weight", {rows, 8}}}});
    model.segments.push_back({name + ".a", {unit}, 64, 64});
    if ((*random)() % 2 == 0) model.segments.push_back({name + ".b", {unit}, 64, 64});
  }
  model.segments.push_back({"end", {root ? 0 : num_units - 1}, 64, 64});
  return model;
}

// What the formulas of the peaks are made of, in bytes of the param and of the reduce dtype.
struct UnitSizes {
  int64_t all = 0;
  int64_t largest = 0;  // root included: its all-gather has an output as well
  int64_t root = 0;
};
UnitSizes SizesOf(const ModelDescription& model, int num_ranks) {
  UnitSizes sizes;
  for (const Unit& unit : model.units) {
    const int64_t elements = PaddedShardElements(unit, num_ranks) * num_ranks;
    sizes.all += elements;
    sizes.largest = std::max(sizes.largest, elements);
    if (unit.is_root) sizes.root += elements;
  }
  return sizes;
}

// Peaks while units are gathered one ahead at most, as PyTorch's presets do it; the formulas are
// those that FSDP1's limiter, FSDP2's event waits and Megatron's unit counts give.
TEST(Memory, NeverPassesTheBoundsOfThePresets) {
  std::mt19937 random(11);
  const Categories transient = {MemoryCategory::kUnshardedParameter,
                                MemoryCategory::kCommunicationBuffer};
  Categories with_gradient = transient;
  with_gradient.push_back(MemoryCategory::kGradient);
  for (int round = 0; round < 400; ++round) {
    const ModelDescription model = RandomModel(&random);
    Policy policy;
    policy.preset = random() % 2 == 0 ? Preset::kFsdp1 : Preset::kFsdp2;
    policy.strategy = random() % 3 == 0 ? FindStrategy("grad_op") : FindStrategy("full");
    policy.reshard_after_forward = policy.strategy->reshards_after_forward && random() % 3 != 0;
    policy.backward_prefetch = static_cast<BackwardPrefetch>(random() % 3);
    policy.forward_prefetch = static_cast<int>(random() % 2);
    policy.prefetch_limit = static_cast<int>(random() % 3);
    policy.mesh = MeshOf(MeshDimension::kShard, static_cast<int>(2 + random() % 3));
    policy.micro_batches = static_cast<int>(1 + random() % 2);
    if (random() % 3 == 0) policy.param_dtype = DType::kBf16;
    const Result<Schedule> schedule = BuildSchedule(model, policy);
    ASSERT_TRUE(schedule.ok()) << schedule.message();
    SCOPED_TRACE(schedule->name + ", round " + std::to_string(round));

    const UnitSizes sizes = SizesOf(model, policy.mesh.num_ranks());
    const int64_t p = BytesOf(policy.param_dtype);
    const int64_t r = BytesOf(policy.reduce_dtype);
    const bool is_fsdp1 = policy.preset == Preset::kFsdp1;
    const bool pre = policy.backward_prefetch == BackwardPrefetch::kPre;
    const int64_t kept =
        policy.reshard_after_forward ? p * sizes.root : p * (sizes.all - sizes.largest);
    // FSDP1's low-precision shard while it is gathered, which the formulas leave out.
    const int64_t cast = is_fsdp1 && p != r ? p * sizes.largest / policy.mesh.num_ranks() : 0;
    const int64_t forward_units = is_fsdp1 ? 2 : 2 + policy.forward_prefetch;
    EXPECT_LE(PeakUntil(*schedule, "F m0 end forward", transient),
              forward_units * p * sizes.largest + kept + cast);
    // Parameters of i and i-1, gradient of i, and what the reduction of i+1 still holds.
    const int64_t backward =
        is_fsdp1 ? (pre ? 5 : 4) * p + (r != p ? r : 0) : (pre ? 3 : 2) * p + r;
    const std::string last = OpName(*schedule, schedule->programs.front().ops.back());
    EXPECT_LE(PeakUntil(*schedule, last, with_gradient),
              std::max(backward, forward_units * p) * sizes.largest + kept + p * sizes.root + cast);
  }
}

}  // namespace
}  // namespace shardscope::plan
