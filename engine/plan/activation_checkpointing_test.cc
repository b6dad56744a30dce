#include "engine/plan/activation_checkpointing.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>

#include "engine/plan/memory.h"
#include "engine/plan/schedule_test_util.h"
#include "engine/plan/text.h"
#include "engine/plan/uniform_model.h"
#include "trace/base/units.h"

namespace shardscope::plan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kOutput = 128 * 64 * 4;  // bytes of a segment's output in the uniform model
constexpr int64_t kAttention = 6 * kOutput;
constexpr int64_t kMlp = 10 * kOutput;

Policy With(Checkpointing mode, Preset preset = Preset::kFsdp2) {
  Policy policy = TwoRanks(preset);
  policy.checkpointing.mode = mode;
  return policy;
}

std::vector<int64_t> ActivationsOf(const Schedule& schedule, BufferKind kind) {
  std::vector<int64_t> bytes;
  for (const Buffer& buffer : schedule.programs.front().buffers) {
    if (buffer.kind == kind) bytes.push_back(buffer.bytes);
  }
  return bytes;
}

int64_t PeakOfActivations(const Schedule& schedule) {
  return PredictPeak(schedule, 0).by_category[static_cast<size_t>(MemoryCategory::kActivation)];
}

// One block: everything that happens between its gather and its reduce-scatter.
TEST(Recompute, StandsBehindTheGatherAndInFrontOfTheBackward) {
  const Schedule schedule = Build(With(Checkpointing::kEvery));
  EXPECT_THAT(
      OpsBetween(schedule, "B m0 block1 copy_out", "B m0 block1.attention backward"),
      ElementsAre(HasSubstr("B m0 block1 copy_out"), HasSubstr("block1 release"),
                  HasSubstr("block1 wait"), HasSubstr("B m0 block0 copy_in"),
                  HasSubstr("B m0 block0 all_gather"), HasSubstr("B m0 block1.attention recompute"),
                  HasSubstr("B m0 block1.mlp recompute"), HasSubstr("B m0 block1.mlp backward"),
                  HasSubstr("B m0 block1.attention backward")));
}

// No collective more, and none elsewhere in its communicator's queue.
TEST(Recompute, AddsNoCollective) {
  for (const Preset preset : {Preset::kFsdp1, Preset::kFsdp2}) {
    for (const auto backward : {BackwardPrefetch::kPre, BackwardPrefetch::kPost}) {
      for (const auto mode : {Checkpointing::kEvery, Checkpointing::kProducts}) {
        Policy policy = With(mode, preset);
        policy.backward_prefetch = backward;
        Policy without = policy;
        without.checkpointing = {};
        EXPECT_EQ(CollectiveQueue(Build(policy)), CollectiveQueue(Build(without)));
      }
    }
  }
}

TEST(Recompute, KeepsTheInputOfEachBlock) {
  const Schedule schedule = Build(With(Checkpointing::kEvery));
  EXPECT_THAT(
      ActivationsOf(schedule, BufferKind::kActivation),
      ElementsAre(kOutput, kOutput, kOutput, kOutput, kOutput, kOutput, kOutput, 10 * kOutput));
  // Backward has block2 first. Only the MLP needs what attention has put out.
  EXPECT_THAT(ActivationsOf(schedule, BufferKind::kRecomputed),
              ElementsAre(kAttention, kMlp - kOutput, kAttention, kMlp - kOutput, kAttention,
                          kMlp - kOutput));
  // The embedding's output and those of three blocks, the head's, and at the head's backward its
  // gradient; or at the first block's end all of it with the gradient at its output.
  EXPECT_EQ(PeakOfActivations(schedule),
            std::max(4 * kOutput + 10 * kOutput + kOutput,
                     3 * kOutput + kAttention + kMlp - kOutput + 2 * kOutput));
}

TEST(Recompute, FreesWhatIsBetweenSegmentsInForward) {
  const Schedule schedule = Build(With(Checkpointing::kEvery));
  EXPECT_EQ(LiveAt(schedule, "F m0 head forward", {MemoryCategory::kActivation}),
            4 * kOutput + 10 * kOutput);
}

TEST(Recompute, OfProductsMakesNormsAndActivationFunctions) {
  const Schedule schedule = Build(With(Checkpointing::kProducts));
  EXPECT_THAT(ActivationsOf(schedule, BufferKind::kActivation),
              ElementsAre(kOutput, 5 * kOutput, 5 * kOutput, 5 * kOutput, 5 * kOutput, 5 * kOutput,
                          5 * kOutput, 10 * kOutput));
  EXPECT_THAT(ActivationsOf(schedule, BufferKind::kRecomputed),
              ElementsAre(5 * kOutput, kOutput, 5 * kOutput, kOutput, 5 * kOutput, kOutput));
}

TEST(Recompute, OfEverySecondBlockBeginsWithTheSecond) {
  Policy policy = With(Checkpointing::kEvery);
  policy.checkpointing.every = 2;
  EXPECT_THAT(
      ActivationsOf(Build(policy), BufferKind::kActivation),
      ElementsAre(kOutput, kAttention, kMlp, kOutput, kOutput, kAttention, kMlp, 10 * kOutput));
}

// A stage does not wait for its gradient before it makes what it needs for it.
TEST(Recompute, GoesOnWhileAStageWaitsForItsGradient) {
  Policy policy;
  policy.strategy = FindStrategy("pipeline");
  policy.pipeline = PipelineSchedule::k1F1B;
  policy.mesh = policy.strategy->MeshOf(2);
  policy.units.stages = 2;
  policy.micro_batches = 2;
  policy.checkpointing.mode = Checkpointing::kEvery;
  const Schedule schedule = Build(policy);
  const Program& first = schedule.programs.front();
  const auto predecessors = AllPredecessors(first);
  int found = 0;
  bool is_first = true;  // of a stage's backward
  for (OpIndex index = 0; index < static_cast<OpIndex>(first.ops.size()); ++index) {
    const Op& op = first.ops[static_cast<size_t>(index)];
    const bool waits = std::ranges::any_of(predecessors[static_cast<size_t>(index)], [&](auto at) {
      return first.ops[static_cast<size_t>(at)].kind == OpKind::kReceive;
    });
    if (op.kind == OpKind::kForward) is_first = true;
    if (op.kind == OpKind::kRecompute) {
      EXPECT_FALSE(waits);
      ++found;
    } else if (op.kind == OpKind::kBackward && std::exchange(is_first, false)) {
      EXPECT_TRUE(waits);
    }
  }
  EXPECT_GT(found, 0);
}

TEST(Recompute, ReadsBackWhatItPrints) {
  for (const auto mode : {Checkpointing::kEvery, Checkpointing::kProducts}) {
    const Schedule schedule = Build(With(mode));
    const Result<Schedule> read = ParseSchedule(PrintSchedule(schedule));
    ASSERT_TRUE(read.ok()) << read.message();
    EXPECT_EQ(*read, schedule);
  }
}

TEST(Budget, TakesAsFewBlocksAsFit) {
  std::array<int64_t, 4> peaks{};  // by blocks that are recomputed, the first ones
  for (int count = 0; count <= 3; ++count) {
    Policy policy = With(Checkpointing::kBlocks);
    for (int32_t block = 0; block < count; ++block) policy.checkpointing.blocks.push_back(block);
    peaks[static_cast<size_t>(count)] = PredictLargestPeak(Build(policy));
  }
  EXPECT_GT(peaks[0], peaks[1]);
  EXPECT_GT(peaks[1], peaks[2]);
  // What the last block would keep is there anyway when its backward begins.
  EXPECT_EQ(peaks[2], peaks[3]);
  for (int count = 0; count <= 2; ++count) {
    Policy policy = With(Checkpointing::kBudget);
    policy.checkpointing.budget_bytes = peaks[static_cast<size_t>(count)];
    const Result<std::vector<int32_t>> blocks =
        BlocksToRecompute(UniformModel(3, true), policy, {});
    ASSERT_TRUE(blocks.ok()) << blocks.message();
    std::vector<int32_t> expected;
    for (int32_t block = 0; block < count; ++block) expected.push_back(block);
    EXPECT_EQ(*blocks, expected);
    EXPECT_LE(PredictLargestPeak(Build(policy)), policy.checkpointing.budget_bytes);
  }
  Policy policy = With(Checkpointing::kBudget);
  policy.checkpointing.budget_bytes = peaks[3] - 1;
  EXPECT_THAT(BuildSchedule(UniformModel(3, true), policy).message(),
              HasSubstr("with every block recomputed a rank still needs " + FormatBytes(peaks[3]) +
                        ", more than the budget of " + FormatBytes(peaks[3] - 1) + ": "));
}

// Noise does not count, twice the time does.
TEST(Budget, KeepsTheBlocksThatTakeLongest) {
  const ModelDescription model = UniformModel(3, true);
  const auto blocks_for = [&](std::vector<int32_t> fitting, const std::vector<double>& costs) {
    Policy policy = With(Checkpointing::kBlocks);
    policy.checkpointing.blocks = std::move(fitting);
    const int64_t bytes = PredictLargestPeak(Build(policy));
    policy.checkpointing = {.mode = Checkpointing::kBudget, .budget_bytes = bytes};
    return *BlocksToRecompute(model, policy, costs);
  };
  std::vector<double> costs(model.segments.size(), 1);
  costs[1] = 1.05;  // of block 0
  EXPECT_THAT(blocks_for({0, 1}, costs), ElementsAre(0, 1));
  costs[2] = 2.5;
  EXPECT_THAT(blocks_for({1}, costs), ElementsAre(1));
}

TEST(Budget, ServesTheStageThatNeedsIt) {
  Policy policy;
  policy.strategy = FindStrategy("pipeline");
  policy.pipeline = PipelineSchedule::k1F1B;
  policy.mesh = policy.strategy->MeshOf(2);
  policy.units.stages = 2;
  policy.micro_batches = 4;
  const ModelDescription model = UniformModel(4, false, 2);
  const std::vector<int64_t> before = PredictPeaks(*BuildSchedule(model, policy));
  policy.checkpointing = {.mode = Checkpointing::kBudget, .budget_bytes = before[0] - 1};
  const std::vector<int32_t> blocks = *BlocksToRecompute(model, policy, {});
  // The first stage has more micro-batches in flight; the second fits as it is.
  ASSERT_LT(before[1], before[0]);
  EXPECT_FALSE(blocks.empty());
  EXPECT_LT(blocks.back(), 2);
}

}  // namespace
}  // namespace shardscope::plan
