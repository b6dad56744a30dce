// Evaluation's Schedules: of every strategy what its forwards need, and nothing else.
#include "engine/plan/evaluation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "engine/plan/memory.h"
#include "engine/plan/schedule_test_util.h"
#include "engine/plan/text.h"
#include "engine/plan/uniform_model.h"
#include "engine/plan/validate.h"

namespace shardscope::plan {
namespace {

// Of the toy model with three blocks and a root unit.
Schedule Evaluation(const Policy& policy) {
  Result<Schedule> schedule = BuildEvaluation(UniformModel(3, true), policy);
  EXPECT_TRUE(schedule.ok()) << schedule.message();
  return schedule.ok() ? *std::move(schedule) : Schedule();
}

// "AGr AG1": all collectives, in issue order.
std::string Collectives(const Schedule& schedule) {
  std::string text;
  for (const Op& op : schedule.programs.front().ops) {
    if (CategoryOf(op.kind) != Category::kCommunication) continue;
    text += (text.empty() ? "" : ", ") + OpName(schedule, op);
  }
  return text;
}

std::vector<Buffer> Persistent(const Program& program) {
  std::vector<Buffer> buffers;
  std::ranges::copy_if(program.buffers, std::back_inserter(buffers), &Buffer::persistent);
  return buffers;
}

// Of a policy that trains. Everything that holds of any evaluation.
void ExpectForwardsAlone(const ModelDescription& model, const Policy& policy) {
  const Result<Schedule> training = BuildSchedule(model, policy);
  ASSERT_TRUE(training.ok()) << training.message();
  SCOPED_TRACE(training->name);
  const Result<Schedule> evaluation = BuildEvaluation(model, policy);
  ASSERT_TRUE(evaluation.ok()) << evaluation.message();
  EXPECT_EQ(evaluation->name, training->name + " evaluation");
  EXPECT_TRUE(IsEvaluation(*evaluation));
  EXPECT_FALSE(IsEvaluation(*training));
  EXPECT_EQ(ParseSchedule(PrintSchedule(*evaluation)).value(), *evaluation);
  EXPECT_LE(PredictLargestPeak(*evaluation), PredictLargestPeak(*training));
  ASSERT_EQ(evaluation->programs.size(), training->programs.size());
  for (size_t index = 0; index < training->programs.size(); ++index) {
    const Program& trains = training->programs[index];
    const Program& evaluates = evaluation->programs[index];
    EXPECT_EQ(Persistent(evaluates), Persistent(trains));
    const auto forwards = [](const Program& program) {
      return std::ranges::count(program.ops, OpKind::kForward, &Op::kind);
    };
    EXPECT_EQ(forwards(evaluates), forwards(trains));
    for (const Op& op : evaluates.ops) {
      EXPECT_EQ(op.phase, Phase::kEvaluation);
      EXPECT_FALSE(op.kind == OpKind::kOptimizer || op.kind == OpKind::kGradNorm ||
                   op.kind == OpKind::kAccumulate || op.kind == OpKind::kCopyToHost ||
                   TraitsOf(op.kind).op_class == OpClass::kBackward ||
                   TraitsOf(op.kind).op_class == OpClass::kRecompute ||
                   (op.unit != kNone && TraitsOf(op.kind).reduces))
          << OpName(*evaluation, op);
      for (const BufferId id : op.writes) {
        EXPECT_FALSE(evaluates.buffers[static_cast<size_t>(id)].persistent)
            << OpName(*evaluation, op);
      }
    }
  }
}

TEST(EvaluationTest, GathersEachUnitOnceAndFreesItBehindItsForward) {
  for (const Preset preset : {Preset::kFsdp1, Preset::kFsdp2}) {
    for (const char* strategy : {"full", "grad_op"}) {
      Policy policy = TwoRanks(preset);
      policy.strategy = FindStrategy(strategy);
      const Schedule schedule = Evaluation(policy);
      EXPECT_EQ(Collectives(schedule),
                "E m0 root all_gather, E m0 block0 all_gather, E m0 block1 all_gather, "
                "E m0 block2 all_gather");
      const OpIndex reshard = IndexOf(schedule, "E m0 block1 reshard");
      EXPECT_EQ(reshard, IndexOf(schedule, "E m0 block1.mlp forward") + 1);
      EXPECT_EQ(IndexOf(schedule, "E m0 root reshard"), IndexOf(schedule, "E m0 head forward") + 1);
    }
  }
}

TEST(EvaluationTest, ReadsWholeParametersWithTheirPaddingForShardsOfState) {
  ModelDescription model = UniformModel(3, true);
  for (Unit& unit : model.units) {
    for (Parameter& parameter : unit.parameters) parameter.shape = {7, 5};  // rows of 3 ranks: 9
  }
  for (const char* strategy : {"zero1", "zero2"}) {
    Policy policy = TwoRanks(Preset::kFsdp2);
    policy.strategy = FindStrategy(strategy);
    policy.mesh = policy.strategy->MeshOf(3);
    ExpectForwardsAlone(model, policy);
  }
}

TEST(EvaluationTest, PrefetchesAsForwardDoes) {
  Policy policy = TwoRanks(Preset::kFsdp2);
  const Schedule none = Evaluation(policy);
  policy.forward_prefetch = 1;
  const Schedule ahead = Evaluation(policy);
  const auto is_ahead = [](const Schedule& schedule) {
    return IndexOf(schedule, "E m0 block1 all_gather") <
           IndexOf(schedule, "E m0 block0.attention forward");
  };
  EXPECT_FALSE(is_ahead(none));
  EXPECT_TRUE(is_ahead(ahead));
}

TEST(EvaluationTest, ActivationsAreOutputsThatTheirReaderFrees) {
  const Schedule schedule = Evaluation(TwoRanks(Preset::kFsdp2));
  const Program& program = schedule.programs.front();
  int live = 0;
  for (const Op& op : program.ops) {
    const auto activations = [&](const std::vector<BufferId>& ids) {
      return static_cast<int>(std::ranges::count_if(ids, [&](BufferId id) {
        return program.buffers[static_cast<size_t>(id)].kind == BufferKind::kActivation;
      }));
    };
    live += activations(op.allocates);
    EXPECT_LE(live, 2);
    live -= activations(op.frees);
  }
  for (const Buffer& buffer : program.buffers) {
    if (buffer.kind != BufferKind::kActivation) continue;
    EXPECT_EQ(buffer.bytes, schedule.segments[static_cast<size_t>(buffer.segment)].output_bytes);
  }
}

// Options that change what a step keeps from forward to backward.
TEST(EvaluationTest, EveryStrategyAndOptionEvaluates) {
  for (const Strategy& strategy : Strategies()) {
    for (const int micro_batches : {1, 4}) {
      for (const DType param : {DType::kFp32, DType::kBf16}) {
        Policy policy;
        policy.strategy = &strategy;
        policy.mesh = strategy.MeshOf(strategy.dimensions == 0 ? 1 : 4);
        if (strategy.replicates_shards()) policy.mesh = {{1, 2, 2, 1}};
        policy.units.stages = policy.mesh.size(MeshDimension::kPipeline);
        policy.units.tensor_ranks = policy.mesh.size(MeshDimension::kTensor);
        policy.micro_batches = micro_batches;
        policy.param_dtype = param;
        policy.budgets = {.prefetch_bucket_size = 100'000, .max_reuse_distance = 100'000};
        const ModelDescription model =
            UniformModel(4, false, policy.units.stages, policy.units.tensor_ranks);
        ExpectForwardsAlone(model, policy);
        if (policy.units.stages > 1 && strategy.overlaps_stages) {
          policy.pipeline = PipelineSchedule::k1F1B;
          ExpectForwardsAlone(model, policy);
          policy.pipeline = PipelineSchedule::kGpipe;
          ExpectForwardsAlone(model, policy);
        }
        if (!strategy.has_presets) continue;
        for (const Preset preset : {Preset::kFsdp1, Preset::kFsdp2, Preset::kDoubleBuffer}) {
          policy.preset = preset;
          if (preset == Preset::kDoubleBuffer && !strategy.reshards_after_forward) continue;
          ExpectForwardsAlone(model, policy);
          Policy limited = policy;
          limited.prefetch_limit = 2;
          limited.forward_prefetch = 2;
          limited.backward_depth = 2;
          limited.run_ahead = 1;
          ExpectForwardsAlone(model, limited);
          if (!strategy.shards_optimizer || preset == Preset::kDoubleBuffer) continue;
          Policy offloads = policy;
          offloads.offload = Offload::kOptimizer;
          ExpectForwardsAlone(model, offloads);
          if (!strategy.shards_parameters || !strategy.has_presets) continue;
          offloads.offload = Offload::kAll;
          ExpectForwardsAlone(model, offloads);
          if (preset != Preset::kFsdp2 || policy.mesh.size(MeshDimension::kShard) < 4 ||
              !strategy.reshards_after_forward) {
            continue;
          }
          Policy fewer = policy;
          fewer.post_forward_ranks = 2;
          ExpectForwardsAlone(model, fewer);
        }
      }
    }
  }
}

TEST(EvaluationTest, InterleavedStagesAndRanksThatShareTheSequence) {
  Policy policy;
  policy.mesh = {{2, 1, 2, 2}};
  policy.units = {.stages = 4, .tensor_ranks = 2, .sequence_parallel = true};
  policy.micro_batches = 4;
  policy.pipeline = PipelineSchedule::kInterleaved;
  const ModelDescription model = UniformModel(4, false, 4, 2, true);
  ExpectForwardsAlone(model, policy);
  policy.checkpointing.mode = Checkpointing::kEvery;
  ExpectForwardsAlone(model, policy);
}

}  // namespace
}  // namespace shardscope::plan
