// The sharded trainer against the unsharded reference, and schedules against one another.
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "engine/plan/strategy_test_util.h"
#include "engine/runtime/ranks/job_test_util.h"

namespace shardscope::runtime {
namespace {

using plan::BackwardPrefetch;
using plan::FindStrategy;
using plan::PipelineSchedule;
using plan::Preset;
using plan::Strategy;

struct ReferenceCase {
  int ranks;
  int64_t micro_batches;
  Preset preset;
  const Strategy* strategy;
  int replicas = 1;
  PipelineSchedule pipeline = PipelineSchedule::kOneByOne;
  int chunks = 1;
  int stages = 0;
  int tensor = 0;
  int post_forward_ranks = 0;
  bool sequence = false;
  bool llama = false;
  bool tied = false;
};

ReferenceCase WithSequence(ReferenceCase tested) {
  tested.sequence = true;
  return tested;
}

ReferenceCase WithLlama(ReferenceCase tested) {
  tested.llama = true;
  return tested;
}

// Head and embedding share their matrix.
ReferenceCase WithTied(ReferenceCase tested) {
  tested.tied = true;
  return WithLlama(tested);
}

class ReferenceTest : public testing::TestWithParam<ReferenceCase> {
 protected:
  static TestRun MakeRun() {
    TestRun run;
    run.training.num_ranks = GetParam().ranks;
    run.training.micro_batches = GetParam().micro_batches;
    run.policy.preset = GetParam().preset;
    SetStrategy(*GetParam().strategy, &run.policy);
    run.replicas = GetParam().replicas;
    run.policy.pipeline = GetParam().pipeline;
    run.chunks = GetParam().chunks;
    run.stages = GetParam().stages;
    run.tensor = GetParam().tensor;
    run.policy.post_forward_ranks = GetParam().post_forward_ranks;
    const int stages = PolicyOf(run).units.stages;
    const int64_t tensor_ranks = PolicyOf(run).units.tensor_ranks;
    if (run.model.heads % tensor_ranks != 0) run.model.heads = tensor_ranks == 2 ? 4 : tensor_ranks;
    if (tensor_ranks == 8) run.model.dim = 48;  // an even number of channels a head
    run.policy.units.sequence_parallel = GetParam().sequence;
    if (GetParam().sequence && tensor_ranks == 3) run.model.seq = 18;
    if (stages > 1) run.model.layers = stages + 1;  // of which the first has two
    if (GetParam().llama) MakeLlama(&run, GetParam().tied);
    return run;
  }
};

TEST_P(ReferenceTest, Fp64WeightsAreEqualAfterFiveSteps) {
  TestRun run = MakeRun();
  run.model.dtype = plan::DType::kFp64;
  const TestResult sharded = Train(run);
  const TestResult reference = TrainReference(run);
  ASSERT_EQ(sharded.losses.size(), reference.losses.size());
  EXPECT_LE(LargestDifference(sharded.parameters, reference.parameters), 2e-12);
  for (size_t step = 0; step < reference.losses.size(); ++step) {
    EXPECT_NEAR(sharded.losses[step], reference.losses[step], 1e-12 * reference.losses[step]);
    EXPECT_NEAR(sharded.norms[step], reference.norms[step], 1e-12 * reference.norms[step]);
  }
  EXPECT_LT(reference.losses.back(), reference.losses.front());
}

// The loss and the gradient are the mean over what counts in all ranks and micro-batches together.
TEST_P(ReferenceTest, Fp64WeightsAreEqualWhereTheLossLeavesTokensOut) {
  TestRun run = MakeRun();
  run.model.dtype = plan::DType::kFp64;
  run.training.steps = 3;
  run.corpus = MaskedCorpus();
  const TestResult sharded = Train(run);
  const TestResult reference = TrainReference(run);
  ASSERT_EQ(sharded.losses.size(), reference.losses.size());
  EXPECT_LE(LargestDifference(sharded.parameters, reference.parameters), 1e-10);
  for (size_t step = 0; step < reference.losses.size(); ++step) {
    EXPECT_NEAR(sharded.losses[step], reference.losses[step], 1e-10 * reference.losses[step]);
    EXPECT_NEAR(sharded.norms[step], reference.norms[step], 1e-10 * reference.norms[step]);
  }
  run.corpus = nullptr;
  EXPECT_GT(std::abs(TrainReference(run).losses[0] - reference.losses[0]), 1e-6);
}

// However many ranks share the held-out data, whose last batch is not full, and of which some does
// not count; and the training is the same bits as without.
TEST_P(ReferenceTest, Fp64EvaluationsAreTheReferencesLossAndChangeNothing) {
  constexpr int64_t kSamples = 13;
  TestRun run = MakeRun();
  run.model.dtype = plan::DType::kFp64;
  run.training.steps = 2;
  const TestResult without = Train(run);
  run.held_out = HeldOutOf(MaskedCorpus(), run, kSamples);
  const TestResult with = Train(run);
  EXPECT_TRUE(SameBits(with, without));
  std::vector<int64_t> samples;
  for (int64_t index = 0; index < kSamples; ++index) {
    model::AppendSample(*MaskedCorpus(), index, run.model.seq, &samples);
  }
  const double expected =
      model::ReferenceLoss(
          run.model, model::InitialParameters(run.model, plan::DType::kFp64, run.training.seed),
          at::tensor(samples, at::kLong).view({kSamples, run.model.seq + 1}))
          .item<double>();
  ASSERT_EQ(with.evaluations.size(), 2U);
  EXPECT_NEAR(with.evaluations[0], expected, 1e-10 * expected);
  EXPECT_GT(std::abs(with.evaluations[1] - expected), 1e-6);  // after a step
}

TEST_P(ReferenceTest, Fp32LossesAreEqualOverTwentySteps) {
  TestRun run = MakeRun();
  run.training.steps = 20;
  const TestResult sharded = Train(run);
  const TestResult reference = TrainReference(run);
  ASSERT_EQ(sharded.losses.size(), reference.losses.size());
  for (size_t step = 0; step < reference.losses.size(); ++step) {
    EXPECT_NEAR(sharded.losses[step], reference.losses[step], 1e-5 * reference.losses[step])
        << "step " << step;
  }
}

std::string CaseName(const testing::TestParamInfo<ReferenceCase>& tested) {
  static constexpr const char* kPresets[] = {"fsdp2_", "fsdp1_", "double_buffer_"};
  return std::string(kPresets[static_cast<size_t>(tested.param.preset)]) +
         std::string(tested.param.strategy->name) + "_ranks" + std::to_string(tested.param.ranks) +
         "_replicas" + std::to_string(tested.param.replicas) + "_micro" +
         std::to_string(tested.param.micro_batches) + "_order" +
         std::to_string(static_cast<int>(tested.param.pipeline)) + "_stages" +
         std::to_string(tested.param.stages) + "_tensor" + std::to_string(tested.param.tensor) +
         "_to" + std::to_string(tested.param.post_forward_ranks) +
         (tested.param.sequence ? "_sequence" : "") + (tested.param.llama ? "_llama" : "") +
         (tested.param.tied ? "_tied" : "");
}

// dim 24 and 72 rows do not divide by 5 or 7, 256 rows not by 3, 5 or 7.
const ReferenceCase kCases[] = {
    {1, 1, Preset::kFsdp2, FindStrategy("full")},
    {2, 3, Preset::kFsdp2, FindStrategy("full")},
    {3, 1, Preset::kFsdp2, FindStrategy("full")},
    {4, 3, Preset::kFsdp2, FindStrategy("grad_op")},
    {1, 3, Preset::kFsdp1, FindStrategy("full")},
    {3, 3, Preset::kFsdp1, FindStrategy("full")},
    {4, 1, Preset::kFsdp1, FindStrategy("grad_op")},
    {5, 1, Preset::kFsdp1, FindStrategy("full")},
    {7, 1, Preset::kFsdp2, FindStrategy("full")},
    {3, 3, Preset::kFsdp2, FindStrategy("no_shard")},
    {2, 1, Preset::kFsdp1, FindStrategy("no_shard")},
    {4, 1, Preset::kFsdp2, FindStrategy("hybrid"), 2},
    {4, 3, Preset::kFsdp2, FindStrategy("hybrid_grad_op"), 2},
    {4, 3, Preset::kFsdp1, FindStrategy("hybrid"), 2},
    {6, 1, Preset::kFsdp1, FindStrategy("hybrid_grad_op"), 2},
    {6, 3, Preset::kFsdp2, FindStrategy("hybrid"), 3},
    {2, 1, Preset::kFsdp2, FindStrategy("hybrid"), 2},  // shards of one rank
    // Among fewer ranks from forward to backward.
    {4, 3, Preset::kFsdp2, FindStrategy("full"), 1, PipelineSchedule::kOneByOne, 1, 0, 0, 2},
    {6, 1, Preset::kFsdp2, FindStrategy("full"), 1, PipelineSchedule::kOneByOne, 1, 0, 0, 3},
    {8, 1, Preset::kFsdp2, FindStrategy("hybrid"), 2, PipelineSchedule::kOneByOne, 1, 0, 0, 2},
    {8, 2, Preset::kFsdp2, FindStrategy("full"), 1, PipelineSchedule::kOneByOne, 1, 0, 2, 2},
    {1, 1, Preset::kDoubleBuffer, FindStrategy("full")},
    {2, 3, Preset::kDoubleBuffer, FindStrategy("full")},
    {5, 1, Preset::kDoubleBuffer, FindStrategy("full")},
    {4, 2, Preset::kDoubleBuffer, FindStrategy("hybrid"), 2},
    {4, 1, Preset::kDoubleBuffer, FindStrategy("full"), 1, PipelineSchedule::kOneByOne, 1, 0, 2},
    {1, 3, Preset::kFsdp2, FindStrategy("single")},
    {1, 1, Preset::kFsdp2, FindStrategy("ddp")},
    {2, 1, Preset::kFsdp2, FindStrategy("ddp")},
    {4, 3, Preset::kFsdp2, FindStrategy("ddp")},
    {1, 3, Preset::kFsdp2, FindStrategy("zero1")},
    {2, 1, Preset::kFsdp2, FindStrategy("zero1")},
    {3, 3, Preset::kFsdp2, FindStrategy("zero1")},
    {1, 1, Preset::kFsdp2, FindStrategy("zero2")},
    {2, 3, Preset::kFsdp2, FindStrategy("zero2")},
    {5, 1, Preset::kFsdp2, FindStrategy("zero2")},
    {1, 2, Preset::kFsdp2, FindStrategy("model_parallel")},
    {2, 1, Preset::kFsdp2, FindStrategy("model_parallel")},
    {3, 3, Preset::kFsdp2, FindStrategy("model_parallel")},
    {2, 3, Preset::kFsdp2, FindStrategy("pipeline"), 1, PipelineSchedule::kGpipe},
    {4, 4, Preset::kFsdp2, FindStrategy("pipeline"), 1, PipelineSchedule::kGpipe},
    {1, 3, Preset::kFsdp2, FindStrategy("pipeline"), 1, PipelineSchedule::k1F1B},
    {2, 4, Preset::kFsdp2, FindStrategy("pipeline"), 1, PipelineSchedule::k1F1B},
    {3, 2, Preset::kFsdp2, FindStrategy("pipeline"), 1, PipelineSchedule::k1F1B},
    {2, 2, Preset::kFsdp2, FindStrategy("pipeline"), 1, PipelineSchedule::kInterleaved, 2},
    {3, 6, Preset::kFsdp2, FindStrategy("pipeline"), 1, PipelineSchedule::kInterleaved, 2},
    // Composed: each stage has several ranks.
    {4, 2, Preset::kFsdp2, FindStrategy("full"), 1, PipelineSchedule::k1F1B, 1, 2},
    {4, 3, Preset::kFsdp1, FindStrategy("full"), 1, PipelineSchedule::kGpipe, 1, 2},
    {4, 3, Preset::kFsdp2, FindStrategy("grad_op"), 1, PipelineSchedule::k1F1B, 1, 2},
    {6, 2, Preset::kFsdp1, FindStrategy("grad_op"), 1, PipelineSchedule::k1F1B, 1, 3},
    {4, 2, Preset::kFsdp2, FindStrategy("grad_op"), 1, PipelineSchedule::kInterleaved, 2, 2},
    {8, 2, Preset::kFsdp2, FindStrategy("hybrid"), 2, PipelineSchedule::k1F1B, 1, 2},
    {4, 3, Preset::kFsdp2, FindStrategy("ddp"), 1, PipelineSchedule::k1F1B, 1, 2},
    {4, 2, Preset::kFsdp2, FindStrategy("zero1"), 1, PipelineSchedule::kGpipe, 1, 2},
    {1, 2, Preset::kFsdp2, FindStrategy("data_parallel")},
    {2, 1, Preset::kFsdp2, FindStrategy("data_parallel")},
    {3, 3, Preset::kFsdp2, FindStrategy("data_parallel")},
    {4, 2, Preset::kFsdp2, FindStrategy("data_parallel")},
    {1, 1, Preset::kFsdp2, FindStrategy("tensor")},
    {2, 1, Preset::kFsdp2, FindStrategy("tensor")},
    {3, 2, Preset::kFsdp2, FindStrategy("tensor")},
    {4, 3, Preset::kFsdp2, FindStrategy("tensor")},
    // Each layer by several ranks.
    {4, 1, Preset::kFsdp2, FindStrategy("full"), 1, PipelineSchedule::kOneByOne, 1, 0, 2},
    {6, 3, Preset::kFsdp1, FindStrategy("full"), 1, PipelineSchedule::kOneByOne, 1, 0, 2},
    {6, 2, Preset::kFsdp2, FindStrategy("grad_op"), 1, PipelineSchedule::kOneByOne, 1, 0, 3},
    {4, 2, Preset::kFsdp2, FindStrategy("ddp"), 1, PipelineSchedule::kOneByOne, 1, 0, 2},
    {8, 1, Preset::kFsdp2, FindStrategy("hybrid"), 2, PipelineSchedule::kOneByOne, 1, 0, 2},
    {4, 3, Preset::kFsdp2, FindStrategy("pipeline"), 1, PipelineSchedule::k1F1B, 1, 2, 2},
    {8, 2, Preset::kFsdp2, FindStrategy("full"), 1, PipelineSchedule::k1F1B, 1, 2, 2},
    {8, 3, Preset::kFsdp1, FindStrategy("grad_op"), 1, PipelineSchedule::kGpipe, 1, 2, 2},
    // Between the shared parts of layers each rank has a part of the sequence.
    WithSequence({1, 1, Preset::kFsdp2, FindStrategy("tensor")}),
    WithSequence({2, 1, Preset::kFsdp2, FindStrategy("tensor")}),
    WithSequence({3, 2, Preset::kFsdp2, FindStrategy("tensor")}),
    WithSequence({4, 3, Preset::kFsdp2, FindStrategy("tensor")}),
    WithSequence({8, 1, Preset::kFsdp2, FindStrategy("tensor")}),
    WithSequence(
        {4, 1, Preset::kFsdp2, FindStrategy("full"), 1, PipelineSchedule::kOneByOne, 1, 0, 2}),
    WithSequence(
        {6, 3, Preset::kFsdp1, FindStrategy("full"), 1, PipelineSchedule::kOneByOne, 1, 0, 2}),
    WithSequence(
        {6, 2, Preset::kFsdp2, FindStrategy("grad_op"), 1, PipelineSchedule::kOneByOne, 1, 0, 3}),
    WithSequence(
        {4, 2, Preset::kFsdp2, FindStrategy("ddp"), 1, PipelineSchedule::kOneByOne, 1, 0, 2}),
    WithSequence(
        {8, 1, Preset::kFsdp2, FindStrategy("hybrid"), 2, PipelineSchedule::kOneByOne, 1, 0, 2}),
    WithSequence(
        {4, 3, Preset::kFsdp2, FindStrategy("pipeline"), 1, PipelineSchedule::k1F1B, 1, 2, 2}),
    WithSequence({4, 4, Preset::kFsdp2, FindStrategy("pipeline"), 1, PipelineSchedule::kInterleaved,
                  2, 2, 2}),
    WithSequence({8, 2, Preset::kFsdp2, FindStrategy("full"), 1, PipelineSchedule::k1F1B, 1, 2, 2}),
    WithSequence(
        {8, 3, Preset::kFsdp1, FindStrategy("grad_op"), 1, PipelineSchedule::kGpipe, 1, 2, 2}),
    {1, 1, Preset::kFsdp2, FindStrategy("zero3")},
    {2, 3, Preset::kFsdp2, FindStrategy("zero3")},
    {5, 1, Preset::kFsdp2, FindStrategy("zero3")},
    WithLlama({1, 1, Preset::kFsdp2, FindStrategy("single")}),
    WithLlama({3, 2, Preset::kFsdp2, FindStrategy("full")}),
    WithLlama({2, 1, Preset::kFsdp1, FindStrategy("grad_op")}),
    WithLlama({2, 2, Preset::kDoubleBuffer, FindStrategy("full")}),
    WithLlama({3, 2, Preset::kFsdp2, FindStrategy("ddp")}),
    WithLlama({3, 1, Preset::kFsdp2, FindStrategy("zero2")}),
    WithLlama({2, 1, Preset::kFsdp2, FindStrategy("zero3")}),
    WithLlama({4, 2, Preset::kFsdp2, FindStrategy("hybrid"), 2}),
    WithLlama({2, 4, Preset::kFsdp2, FindStrategy("pipeline"), 1, PipelineSchedule::k1F1B}),
    WithLlama({3, 1, Preset::kFsdp2, FindStrategy("tensor")}),
    WithSequence(WithLlama({2, 2, Preset::kFsdp2, FindStrategy("tensor")})),
    WithSequence(WithLlama(
        {4, 1, Preset::kFsdp2, FindStrategy("full"), 1, PipelineSchedule::kOneByOne, 1, 0, 2})),
    WithTied({1, 2, Preset::kFsdp2, FindStrategy("single")}),
    WithTied({3, 2, Preset::kFsdp2, FindStrategy("full")}),
    WithTied({2, 1, Preset::kFsdp1, FindStrategy("full")}),
    WithTied({2, 2, Preset::kFsdp2, FindStrategy("no_shard")}),
    WithTied({3, 2, Preset::kFsdp2, FindStrategy("ddp")}),
    WithTied({2, 1, Preset::kFsdp2, FindStrategy("zero1")}),
    WithTied({3, 2, Preset::kFsdp2, FindStrategy("zero2")}),
    WithTied({2, 2, Preset::kFsdp2, FindStrategy("zero3")}),
    WithTied({4, 1, Preset::kFsdp2, FindStrategy("hybrid"), 2}),
    WithTied({2, 1, Preset::kFsdp2, FindStrategy("data_parallel")}),
    WithSequence(WithTied({2, 1, Preset::kFsdp2, FindStrategy("tensor")})),
};
INSTANTIATE_TEST_SUITE_P(All, ReferenceTest, testing::ValuesIn(kCases), CaseName);

TEST(MoreRanksThanRowsTest, MatchesTheReference) {
  TestRun run;
  run.model = {.layers = 1, .dim = 8, .heads = 2, .seq = 8, .dtype = plan::DType::kFp64};
  run.training.num_ranks = 11;  // norm weights have 8 rows: three ranks own none
  run.training.batch = 1;
  for (const Preset preset : {Preset::kFsdp1, Preset::kFsdp2}) {
    run.policy.preset = preset;
    EXPECT_LE(LargestDifference(Train(run).parameters, TrainReference(run).parameters), 1e-12);
  }
}

// Same arithmetic in the same order: the same bits.
TEST(BitsTest, SchedulesThatOnlyMoveOpsAgree) {
  TestRun run;
  run.training.num_ranks = 3;
  run.training.micro_batches = 2;
  run.training.steps = 3;
  const TestResult expected = Train(run);
  std::vector<plan::Policy> policies;
  for (const Preset preset : {Preset::kFsdp1, Preset::kFsdp2}) {
    for (const auto backward :
         {BackwardPrefetch::kPre, BackwardPrefetch::kPost, BackwardPrefetch::kNone}) {
      plan::Policy policy;
      policy.preset = preset;
      policy.backward_prefetch = backward;
      policies.push_back(policy);
      policy.backward_depth = 3;
      policy.forward_prefetch = 2;
      policies.push_back(policy);
      policy.prefetch_limit = 2;
      policies.push_back(policy);
      policy.run_ahead = 0;
      policies.push_back(policy);
    }
    plan::Policy keeps;
    keeps.preset = preset;
    keeps.strategy = FindStrategy("grad_op");
    keeps.reshard_after_forward = false;
    policies.push_back(keeps);
  }
  for (const bool overlaps : {true, false}) {
    for (const int64_t elements : {1, 7000, 20'000}) {
      plan::Policy& policy = policies.emplace_back();
      policy.strategy = FindStrategy("zero3");
      policy.budgets = {.prefetch_bucket_size = elements, .max_reuse_distance = elements};
      policy.overlap_comm = overlaps;
    }
  }
  for (const plan::Policy& policy : policies) {
    run.policy = policy;
    EXPECT_TRUE(SameBits(Train(run), expected))
        << plan::BuildSchedule(DescriptionOf(run), PolicyOf(run))->name;
  }
}

TEST(BitsTest, GroupingIntoUnitsDoesNotMatter) {
  TestRun run;
  run.training.steps = 3;
  run.training.clip = 0;  // the norm adds up by unit, so its last bits depend on the grouping
  const model::ParameterMap expected = Train(run).parameters;
  for (const plan::UnitPolicy& units :
       {plan::UnitPolicy{.blocks = 2, .root = true}, plan::UnitPolicy{.modules = true},
        plan::UnitPolicy{.least_elements = 3000}, plan::UnitPolicy{.names = {"block1.mlp"}}}) {
    run.units = units;
    EXPECT_EQ(LargestDifference(Train(run).parameters, expected), 0);
  }
}

std::vector<plan::Policy> EveryPresetAndStrategy(int forward_prefetch) {
  std::vector<plan::Policy> policies;
  for (const Preset preset : {Preset::kFsdp1, Preset::kFsdp2}) {
    for (const Strategy* strategy :
         {FindStrategy("full"), FindStrategy("grad_op"), FindStrategy("no_shard"),
          FindStrategy("ddp"), FindStrategy("zero1"), FindStrategy("zero2"), FindStrategy("zero3"),
          FindStrategy("pipeline"), FindStrategy("tensor"), FindStrategy("data_parallel")}) {
      plan::Policy& policy = policies.emplace_back();
      policy.preset = preset;
      SetStrategy(*strategy, &policy);
      policy.forward_prefetch = forward_prefetch;
    }
  }
  plan::Policy& of_parts = policies.emplace_back();
  of_parts.strategy = FindStrategy("tensor");
  of_parts.reshard_after_forward = false;
  of_parts.units.sequence_parallel = true;
  of_parts.tensor_async = true;
  return policies;
}

TEST(PoisonTest, NothingReadsFreedOrUnwrittenMemory) {
  TestRun run;
  run.model.layers = 3;  // a stage for each rank
  run.model.seq = 18;    // a part for each
  run.training.num_ranks = 3;
  run.training.micro_batches = 2;
  for (const plan::Policy& policy : EveryPresetAndStrategy(2)) {
    run.policy = policy;
    run.poison = false;
    const TestResult expected = Train(run);
    run.poison = true;
    EXPECT_TRUE(SameBits(Train(run), expected));
  }
}

// A part that waits, and the same gathered twice among different ranks.
TEST(BitsTest, ReshardToFewerRanksAgrees) {
  TestRun run;
  run.training.num_ranks = 4;
  run.training.micro_batches = 2;
  run.training.steps = 3;
  const TestResult expected = Train(run);
  run.policy.post_forward_ranks = 2;
  run.jitter = run.poison = true;
  for (const plan::DType type : {plan::DType::kFp32, plan::DType::kBf16}) {
    run.model.dtype = type;
    TestRun all = run;
    all.policy.post_forward_ranks = 0;
    EXPECT_TRUE(SameBits(Train(run), Train(all)));
  }
  run.model.dtype = plan::DType::kFp32;
  EXPECT_TRUE(SameBits(Train(run), expected));
}

// Units of different sizes in the same memory, and nothing is taken for them while steps run.
TEST(BitsTest, DoubleBufferAgrees) {
  TestRun run;
  run.model.layers = 3;
  run.training.micro_batches = 2;
  run.training.steps = 3;
  for (const plan::DType type : {plan::DType::kFp32, plan::DType::kBf16}) {
    run.model.dtype = type;
    run.policy.preset = Preset::kFsdp1;
    run.jitter = false;
    const TestResult expected = Train(run);
    run.policy.preset = Preset::kDoubleBuffer;
    run.jitter = true;
    EXPECT_TRUE(SameBits(Train(run), expected));
  }
}

// Weights' gradients are made later, of the same values.
TEST(BitsTest, AsyncTensorRanksAgree) {
  TestRun run;
  run.model.heads = 4;
  run.training.micro_batches = 2;
  run.training.steps = 3;
  run.training.num_ranks = 4;
  for (const char* strategy : {"tensor", "full", "ddp", "pipeline"}) {
    for (const bool has_parts : {false, true}) {
      run.policy = {};
      SetStrategy(strategy, &run.policy);
      run.policy.units.sequence_parallel = has_parts;
      run.tensor = 2;
      if (run.policy.strategy->name == "tensor") run.tensor = 4;
      run.stages = run.policy.strategy->name == "pipeline" ? 2 : 0;
      const TestResult expected = Train(run);
      run.policy.tensor_async = true;
      run.jitter = true;
      EXPECT_TRUE(SameBits(Train(run), expected)) << strategy << (has_parts ? " sequence" : "");
      run.jitter = false;
    }
  }
}

// What is recomputed is what forward has made, wherever ranks lie and whatever they share.
TEST(BitsTest, RecomputedActivationsAgree) {
  TestRun run;
  run.model = {.layers = 4, .dim = 24, .heads = 4, .seq = 16};
  run.training.num_ranks = 4;
  run.training.micro_batches = 2;
  run.training.steps = 2;
  std::vector<plan::Policy> policies = EveryPresetAndStrategy(1);
  policies.emplace_back().preset = Preset::kDoubleBuffer;
  policies.emplace_back().strategy = FindStrategy("hybrid");
  plan::Policy& deep = policies.emplace_back();
  deep.backward_depth = 3;
  deep.units.modules = true;
  for (const plan::Policy& policy : policies) {
    run.policy = policy;
    run.units = policy.units;
    run.jitter = run.poison = false;
    const TestResult expected = Train(run);
    run.jitter = run.poison = true;
    for (const plan::ActivationCheckpointing& checkpointing :
         {plan::ActivationCheckpointing{.mode = plan::Checkpointing::kEvery},
          {.mode = plan::Checkpointing::kBlocks, .blocks = {0, 1, 3}},
          {.mode = plan::Checkpointing::kProducts}}) {
      run.policy.checkpointing = checkpointing;
      EXPECT_TRUE(SameBits(Train(run), expected))
          << plan::BuildSchedule(DescriptionOf(run), PolicyOf(run))->name;
    }
  }
}

TEST(BitsTest, RecomputedActivationsOfComposedRanksAgree) {
  TestRun run;
  run.model = {.layers = 4, .dim = 24, .heads = 4, .seq = 16};
  run.training.num_ranks = 4;
  run.training.micro_batches = 4;
  run.training.steps = 2;
  for (const auto order : {PipelineSchedule::kGpipe, PipelineSchedule::k1F1B}) {
    for (const int tensor : {1, 2}) {
      for (const plan::DType type : {plan::DType::kBf16, plan::DType::kFp64}) {
        run.model.dtype = type;
        run.policy = {};
        run.policy.strategy = FindStrategy("full");
        run.policy.pipeline = order;
        run.policy.units.sequence_parallel = run.policy.tensor_async = tensor > 1;
        run.stages = 2;
        run.tensor = tensor;
        run.jitter = false;
        const TestResult expected = Train(run);
        run.jitter = true;
        for (const auto mode : {plan::Checkpointing::kEvery, plan::Checkpointing::kProducts}) {
          run.policy.checkpointing.mode = mode;
          EXPECT_TRUE(SameBits(Train(run), expected));
        }
      }
    }
  }
}

TEST(RecomputeTest, Fp64WeightsAreThoseOfTheReference) {
  for (const char* strategy : {"full", "ddp", "zero2", "hybrid", "pipeline", "tensor"}) {
    for (const auto mode : {plan::Checkpointing::kEvery, plan::Checkpointing::kProducts}) {
      TestRun run;
      run.model = {.layers = 3, .dim = 24, .heads = 4, .seq = 16, .dtype = plan::DType::kFp64};
      SetStrategy(strategy, &run.policy);
      run.policy.checkpointing.mode = mode;
      run.training.num_ranks = 2 + 2 * static_cast<int>(run.policy.strategy->replicates_shards());
      EXPECT_LE(LargestDifference(Train(run).parameters, TrainReference(run).parameters), 1e-10)
          << strategy;
      MakeLlama(&run, /*tied=*/PolicyOf(run).units.stages == 1);
      EXPECT_LE(LargestDifference(Train(run).parameters, TrainReference(run).parameters), 1e-10)
          << strategy << ", llama";
    }
  }
}

// With a rest, and with one block that is larger than the vocabulary; of ranks that have a part of
// the sequence, too; where the loss leaves tokens out.
TEST(LogitsBlockTest, Fp64WeightsAreThoseOfTheReference) {
  for (const char* strategy : {"full", "ddp", "zero2", "zero3", "hybrid", "pipeline", "tensor"}) {
    TestRun run;
    run.model = {.layers = 3, .dim = 24, .heads = 4, .seq = 16, .dtype = plan::DType::kFp64};
    SetStrategy(strategy, &run.policy);
    run.policy.units.sequence_parallel = PolicyOf(run).units.tensor_ranks > 1;
    run.training.num_ranks = 2 + 2 * static_cast<int>(run.policy.strategy->replicates_shards());
    run.training.micro_batches = 2;
    run.corpus = MaskedCorpus();
    run.model.logits_block = 100;
    EXPECT_LE(LargestDifference(Train(run).parameters, TrainReference(run).parameters), 1e-10)
        << strategy;
    MakeLlama(&run, /*tied=*/PolicyOf(run).units.stages == 1);
    run.model.logits_block = 1000;
    EXPECT_LE(LargestDifference(Train(run).parameters, TrainReference(run).parameters), 1e-10)
        << strategy << ", llama";
  }
}

// All orders of a pipeline do the same arithmetic, as one rank alone would.
TEST(BitsTest, OrdersOfStagesAgree) {
  TestRun run;
  run.model.layers = 4;
  run.training.steps = 3;
  run.training.micro_batches = 4;
  run.training.clip = 0;  // the norm adds up by stage
  run.training.num_ranks = 1;
  run.policy.strategy = FindStrategy("single");
  const TestResult expected = Train(run);
  run.training.num_ranks = 2;
  for (const auto order : {PipelineSchedule::kOneByOne, PipelineSchedule::kGpipe,
                           PipelineSchedule::k1F1B, PipelineSchedule::kInterleaved}) {
    const bool overlaps = order != PipelineSchedule::kOneByOne;
    run.policy.strategy = FindStrategy(overlaps ? "pipeline" : "model_parallel");
    run.policy.pipeline = order;
    run.chunks = order == PipelineSchedule::kInterleaved ? 2 : 1;
    const TestResult result = Train(run);
    EXPECT_EQ(LargestDifference(result.parameters, expected.parameters), 0);
    EXPECT_EQ(result.losses, expected.losses);
  }
}

// Every knob that moves ops, turned away from the default of each preset.
std::vector<plan::Policy> EveryKnob() {
  std::vector<plan::Policy> policies;
  for (const Preset preset : {Preset::kFsdp1, Preset::kFsdp2}) {
    plan::Policy base;
    base.preset = preset;
    for (const auto backward : {BackwardPrefetch::kPost, BackwardPrefetch::kNone}) {
      plan::Policy& policy = policies.emplace_back(base);
      policy.backward_prefetch = backward;
    }
    plan::Policy& deep = policies.emplace_back(base);
    deep.backward_depth = 3;
    deep.forward_prefetch = 3;
    plan::Policy& limited = policies.emplace_back(deep);
    limited.prefetch_limit = 1;
    plan::Policy& waits = policies.emplace_back(base);
    waits.backward_prefetch = BackwardPrefetch::kPost;
    waits.backward_depth = 2;
    waits.run_ahead = 0;
  }
  return policies;
}

// A missing dependency would show as another result once ops come at other times.
TEST(JitterTest, DelaysChangeNothing) {
  TestRun run;
  run.model.layers = 3;  // a stage for each rank
  run.model.seq = 18;    // a part for each
  run.training.num_ranks = 3;
  run.training.steps = 3;
  std::vector<plan::Policy> policies = EveryPresetAndStrategy(1);
  for (const plan::Policy& policy : EveryKnob()) policies.push_back(policy);
  for (const plan::Policy& policy : policies) {
    run.policy = policy;
    run.jitter = run.poison = false;
    const TestResult expected = Train(run);
    run.jitter = run.poison = true;
    EXPECT_TRUE(SameBits(Train(run), expected))
        << plan::BuildSchedule(DescriptionOf(run), PolicyOf(run))->name;
  }
}

TEST(PrecisionTest, Bf16ComputeLearnsAndStaysNearTheReference) {
  TestRun run;
  run.model.dtype = plan::DType::kBf16;
  run.training.steps = 30;
  const TestResult reference = TrainReference(run);
  for (const Preset preset : {Preset::kFsdp1, Preset::kFsdp2}) {
    for (const plan::DType reduce : {plan::DType::kFp32, plan::DType::kBf16}) {
      run.policy.preset = preset;
      run.policy.reduce_dtype = reduce;
      const TestResult sharded = Train(run);
      EXPECT_LT(sharded.losses.back(), sharded.losses.front() - 0.5);
      EXPECT_NEAR(sharded.losses.back(), reference.losses.back(), 0.05 * reference.losses.back());
    }
  }
}

}  // namespace
}  // namespace shardscope::runtime
