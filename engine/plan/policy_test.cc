// The schedules that BuildSchedule() makes, against lists written by hand from PyTorch's behaviour
// (FSDP1 _runtime_utils.py, FSDP2 _fsdp_param_group.py) for a root unit and three blocks.
#include "engine/plan/policy.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

#include "engine/plan/schedule_test_util.h"
#include "engine/plan/state.h"
#include "engine/plan/strategy_test_util.h"
#include "engine/plan/uniform_model.h"
#include "engine/plan/validate.h"

namespace shardscope::plan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string Queue(const Policy& policy, bool root_unit = true) {
  return CollectiveQueue(Build(policy, root_unit));
}

Policy WithBackward(Preset preset, BackwardPrefetch mode, int depth = 1) {
  Policy policy = TwoRanks(preset);
  policy.backward_prefetch = mode;
  policy.backward_depth = depth;
  return policy;
}

class BothPresets : public testing::TestWithParam<Preset> {};
INSTANTIATE_TEST_SUITE_P(Presets, BothPresets, testing::Values(Preset::kFsdp1, Preset::kFsdp2),
                         [](const auto& preset) {
                           return preset.param == Preset::kFsdp1 ? "fsdp1" : "fsdp2";
                         });

// The communicator's queue: AR at the end is the gradient norm.

TEST_P(BothPresets, BackwardPre) {
  EXPECT_EQ(Queue(WithBackward(GetParam(), BackwardPrefetch::kPre)),
            "AGr AG1 AG2 AG3 | AG3 AG2 RS3 AG1 RS2 RS1 RSr | AR");
}

TEST_P(BothPresets, BackwardPostHasTheQueueOfPre) {
  EXPECT_EQ(Queue(WithBackward(GetParam(), BackwardPrefetch::kPost)),
            "AGr AG1 AG2 AG3 | AG3 AG2 RS3 AG1 RS2 RS1 RSr | AR");
}

TEST_P(BothPresets, BackwardNone) {
  EXPECT_EQ(Queue(WithBackward(GetParam(), BackwardPrefetch::kNone)),
            "AGr AG1 AG2 AG3 | AG3 RS3 AG2 RS2 AG1 RS1 RSr | AR");
}

TEST_P(BothPresets, BackwardPreDepth2) {
  EXPECT_EQ(Queue(WithBackward(GetParam(), BackwardPrefetch::kPre, 2)),
            "AGr AG1 AG2 AG3 | AG3 AG2 AG1 RS3 RS2 RS1 RSr | AR");
}

TEST_P(BothPresets, BackwardPostDepth2) {
  EXPECT_EQ(Queue(WithBackward(GetParam(), BackwardPrefetch::kPost, 2)),
            "AGr AG1 AG2 AG3 | AG3 AG2 AG1 RS3 RS2 RS1 RSr | AR");
}

TEST_P(BothPresets, TwoCommunicatorsPartGathersFromReductions) {
  Policy policy = TwoRanks(GetParam());
  const Schedule one = Build(policy);
  policy.num_communicators = 2;
  const Schedule two = Build(policy);
  EXPECT_EQ(one.communicators.size(), 1U);
  EXPECT_EQ(two.communicators.size(), 2U);
  EXPECT_EQ(CollectiveQueue(one), CollectiveQueue(two));
  for (const Op& op : two.programs.front().ops) {
    if (CategoryOf(op.kind) != Category::kCommunication) continue;
    EXPECT_EQ(op.communicator, op.kind == OpKind::kAllGather ? 0 : 1) << OpName(two, op);
  }
}

TEST_P(BothPresets, GradOpGathersInForwardOnly) {
  Policy policy = TwoRanks(GetParam());
  policy.strategy = FindStrategy("grad_op");
  EXPECT_EQ(Queue(policy), "AGr AG1 AG2 AG3 | RS3 RS2 RS1 RSr | AR");
}

TEST_P(BothPresets, ReshardOffIsGradOp) {
  Policy keep = TwoRanks(GetParam());
  keep.reshard_after_forward = false;
  Policy grad_op = TwoRanks(GetParam());
  grad_op.strategy = FindStrategy("grad_op");
  EXPECT_EQ(Build(keep), Build(grad_op));
}

TEST_P(BothPresets, NoShardReducesGradientsOnly) {
  Policy policy = TwoRanks(GetParam());
  policy.strategy = FindStrategy("no_shard");
  policy.mesh = policy.strategy->MeshOf(2);
  EXPECT_EQ(Queue(policy), "| AR3 AR2 AR1 ARr | ");
}

// Bytes that a rank sends in a step, over those of the parameters (fsdp-semantics, the ring volumes
// of ZeRO, arXiv 1910.02054, section 7). The embedding and the head are units of their own, so that
// nothing but the last unit's second gather could be spared, and is not.
TEST(Traffic, OfEveryStrategyIsThatOfItsFormula) {
  struct Formula {
    const char* strategy;
    int64_t of_step;         // times payload * (N-1)/N
    int64_t of_micro_batch;  // the same, for each
  };
  const ModelDescription model = UniformModel(3, /*root_unit=*/false);
  int64_t elements = 0;
  for (const Unit& unit : model.units) elements += UnitElements(unit);
  for (const Formula& formula : {Formula{"single", 0, 0},
                                 {"data_parallel", 0, 2},
                                 {"ddp", 2, 0},
                                 {"no_shard", 0, 2},
                                 {"zero1", 2, 0},
                                 {"zero2", 1, 1},
                                 {"grad_op", 0, 2},
                                 {"full", 0, 3},
                                 {"zero3", 0, 3}}) {
    for (const int ranks : {1, 2, 4}) {
      for (const int micro_batches : {1, 3}) {
        Policy policy;
        SetStrategy(formula.strategy, &policy);
        if (ranks > 1 && policy.strategy->dimensions == 0) continue;
        policy.mesh = policy.strategy->MeshOf(ranks);
        policy.micro_batches = micro_batches;
        const Result<Schedule> schedule = BuildSchedule(model, policy);
        ASSERT_TRUE(schedule.ok()) << schedule.message();
        int64_t sent = 0;
        for (const Op& op : schedule->programs.front().ops) {
          if (op.unit != kNone) sent += op.wire_bytes;
        }
        const int64_t passes = formula.of_step + formula.of_micro_batch * micro_batches;
        EXPECT_EQ(sent, passes * 4 * elements * (ranks - 1) / ranks)
            << schedule->name << ", " << ranks << " ranks, " << micro_batches << " micro-batches";
      }
    }
  }
}

// Each all-reduce between ranks that share a layer's work, or an all-gather and a reduce-scatter
// where they share the sequence too: four times a block 2 (T-1)/T of an activation. Then what is
// whole on each of them is added up once a step.
TEST(Traffic, OfTensorRanksIsTheSameWithPartsOfTheSequence) {
  constexpr int kBlocks = 3;
  for (const int ranks : {2, 4}) {
    for (const int micro_batches : {1, 3}) {
      for (const bool has_parts : {false, true}) {
        const ModelDescription model = UniformModel(kBlocks, false, 1, ranks, has_parts);
        Policy policy;
        policy.strategy = FindStrategy("tensor");
        policy.mesh = policy.strategy->MeshOf(ranks);
        policy.micro_batches = micro_batches;
        policy.units.sequence_parallel = has_parts;
        const Result<Schedule> schedule = BuildSchedule(model, policy);
        ASSERT_TRUE(schedule.ok()) << schedule.message();
        int64_t of_layers = 0;
        int64_t of_gradients = 0;
        for (const Op& op : schedule->programs.front().ops) {
          (op.unit == kNone ? of_layers : of_gradients) += op.payload_bytes > 8 ? op.wire_bytes : 0;
        }
        const int64_t activation = model.segments.front().output_bytes * (has_parts ? ranks : 1);
        EXPECT_EQ(of_layers, 4 * kBlocks * micro_batches * 2 * activation * (ranks - 1) / ranks);
        int64_t whole = 0;
        for (const Unit& unit : model.units) whole += 4 * WholeShardElements(unit, 1);
        EXPECT_EQ(of_gradients, has_parts ? 2 * whole * (ranks - 1) / ranks : 0);
      }
    }
  }
}

// Stages pass on what a rank has of the sequence.
TEST(Traffic, OfStagesIsThatOfPartsOfTheSequence) {
  std::map<bool, int64_t> sent;
  for (const bool has_parts : {false, true}) {
    const ModelDescription model = UniformModel(4, false, 2, 2, has_parts);
    Policy policy;
    policy.strategy = FindStrategy("pipeline");
    policy.pipeline = PipelineSchedule::k1F1B;
    policy.mesh = {{2, 1, 1, 2}};
    policy.units.stages = 2;
    policy.units.sequence_parallel = has_parts;
    policy.micro_batches = 2;
    const Result<Schedule> schedule = BuildSchedule(model, policy);
    ASSERT_TRUE(schedule.ok()) << schedule.message();
    for (const Op& op : schedule->programs.front().ops) {
      if (op.kind == OpKind::kSend) sent[has_parts] += op.wire_bytes;
    }
  }
  EXPECT_GT(sent[true], 0);
  EXPECT_EQ(sent[false], 2 * sent[true]);
}

// The gradient of the weight behind a norm is made while ranks add up: issued after that, and not
// waiting for it, whereas the norm's backward waits.
TEST(TensorAsync, MakesWeightsGradientsUnderTheSum) {
  for (const bool has_parts : {false, true}) {
    Policy policy;
    policy.strategy = FindStrategy("tensor");
    policy.mesh = policy.strategy->MeshOf(2);
    policy.units.sequence_parallel = has_parts;
    policy.tensor_async = true;
    const Result<Schedule> schedule =
        BuildSchedule(UniformModel(2, false, 1, 2, has_parts), policy);
    ASSERT_TRUE(schedule.ok()) << schedule.message();
    const Program& program = schedule->programs.front();
    int found = 0;
    for (OpIndex index = 2; index < static_cast<OpIndex>(program.ops.size()); ++index) {
      const auto op = [&](OpIndex at) -> const Op& { return program.ops[static_cast<size_t>(at)]; };
      if (op(index).kind != OpKind::kWeightBackward) continue;
      ++found;
      EXPECT_EQ(op(index - 2).kind, OpKind::kBackward);
      EXPECT_EQ(op(index - 1).kind, has_parts ? OpKind::kReduceScatter : OpKind::kAllReduce);
      EXPECT_EQ(AllPredecessors(program)[static_cast<size_t>(index)],
                std::vector<OpIndex>{index - 2});
      EXPECT_EQ(op(index + 1).kind, OpKind::kNormBackward);
      EXPECT_THAT(AllPredecessors(program)[static_cast<size_t>(index) + 1],
                  ElementsAre(index - 1, index));
    }
    EXPECT_EQ(found, 4);  // attention and MLP of each block
  }
}

TEST(Policy, SequenceParallelismGoesWithItsModel) {
  Policy policy;
  policy.strategy = FindStrategy("tensor");
  policy.mesh = policy.strategy->MeshOf(2);
  policy.units.sequence_parallel = true;
  const Result<Schedule> without = BuildSchedule(UniformModel(1, false, 1, 2), policy);
  EXPECT_THAT(without.message(), HasSubstr("lacks the bytes of its norm"));
  policy.units.sequence_parallel = false;
  const Result<Schedule> with = BuildSchedule(UniformModel(1, false, 1, 2, true), policy);
  EXPECT_THAT(with.message(), HasSubstr("has the bytes of its norm"));
}

// What ranks keep, in bytes an element, of a model that divides by them.
TEST(State, TakesWhatTheFormulasSay) {
  struct Formula {
    const char* strategy;
    bool mixes;     // bf16 beside fp32 masters
    double whole;   // on every rank
    double shared;  // among them
  };
  const ModelDescription model = UniformModel(3, /*root_unit=*/false);
  int64_t elements = 0;
  for (const Unit& unit : model.units) elements += UnitElements(unit);
  for (const Formula& formula : {Formula{"ddp", false, 16, 0},
                                 {"zero1", false, 8, 8},
                                 {"zero2", false, 4, 12},
                                 {"full", false, 0, 16},
                                 {"zero3", false, 0, 16},
                                 {"ddp", true, 16, 0},
                                 {"zero1", true, 4, 16},
                                 {"zero2", true, 2, 16},
                                 {"full", true, 0, 16},
                                 {"zero3", true, 0, 16}}) {
    Policy policy;
    policy.strategy = FindStrategy(formula.strategy);
    policy.mesh = policy.strategy->MeshOf(4);
    if (formula.mixes) policy.param_dtype = DType::kBf16;
    int64_t bytes = 0;
    for (const Buffer& buffer : StateBuffers(model, policy, 0)) bytes += buffer.bytes;
    EXPECT_EQ(static_cast<double>(bytes),
              (formula.whole + formula.shared / 4) * static_cast<double>(elements))
        << formula.strategy << (formula.mixes ? " bf16" : "");
  }
}

TEST(Ddp, BucketsAreReducedInTheOrderInWhichTheyFill) {
  Policy policy = TwoRanks(Preset::kFsdp2);
  policy.strategy = FindStrategy("ddp");
  policy.mesh = policy.strategy->MeshOf(2);
  policy.micro_batches = 2;
  EXPECT_EQ(Queue(policy), "| | | AR3 AR2 AR1 ARr | ");
}

TEST(Zero, GathersAfterEachUpdateAndReducesByItsStage) {
  Policy policy = TwoRanks(Preset::kFsdp2);
  policy.strategy = FindStrategy("zero1");
  policy.mesh = policy.strategy->MeshOf(2);
  EXPECT_THAT(
      OpsBetween(Build(policy), "B m0 wait", "O wait"),
      ElementsAre("B m0 wait <- all of reduction", "O grad_norm", "O all_reduce <- O grad_norm",
                  "O root optimizer <- O all_reduce", "O root all_gather <- O root optimizer",
                  "O block0 optimizer", "O block0 all_gather <- O block0 optimizer",
                  "O block1 optimizer", "O block1 all_gather <- O block1 optimizer",
                  "O block2 optimizer", "O block2 all_gather <- O block2 optimizer",
                  "O wait <- all of all_gather"));
}

// Elements: embedding 16384, a block 49280, head 16448.
Policy Zero3(const ElementBudgets& budgets) {
  Policy policy = TwoRanks(Preset::kFsdp2);
  policy.strategy = FindStrategy("zero3");
  policy.budgets = budgets;
  return policy;
}
constexpr StreamIndex kComputeOps = 1;
constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

TEST(Zero3, WithoutBudgetsGathersEachUnitWhenItIsUsed) {
  EXPECT_EQ(Queue(Zero3({}), false),
            "AGe AG1 AG2 AG3 AGh | AGh RSh AG3 RS3 AG2 RS2 AG1 RS1 AGe RSe | AR");
  EXPECT_EQ(Queue(Zero3({})), "AGr AG1 AG2 AG3 | AG3 RS3 AG2 RS2 AG1 RS1 RSr | AR");
}

TEST(Zero3, GathersAheadAsFarAsTheBudgetReaches) {
  const Schedule one = Build(Zero3({.prefetch_bucket_size = 50'000}), false);
  EXPECT_EQ(ForwardOrder(one), "AGe AG1 Fe AG2 F1 F1 AG3 F2 F2 AGh F3 F3 Fh");
  EXPECT_EQ(BackwardOrder(one), "AGh AG3 Bh RSh AG2 B3 B3 RS3 AG1 B2 B2 RS2 AGe B1 B1 RS1 Be RSe");
  const Schedule two = Build(Zero3({.prefetch_bucket_size = 49'280 + 16'448}), false);
  EXPECT_EQ(ForwardOrder(two), "AGe AG1 Fe AG2 F1 F1 AG3 AGh F2 F2 F3 F3 Fh");
  EXPECT_EQ(ForwardOrder(Build(Zero3({.prefetch_bucket_size = 49'280 + 16'447}), false)),
            ForwardOrder(one));
}

TEST(Zero3, GathersNothingAheadAboveTheLiveParameters) {
  const Schedule schedule = Build(
      Zero3({.prefetch_bucket_size = kUnlimited, .max_live_parameters = 49'280 + 16'448}), false);
  EXPECT_EQ(ForwardOrder(schedule), "AGe AG1 Fe F1 F1 AG2 F2 F2 AG3 AGh F3 F3 Fh");
}

TEST(Zero3, KeepsUnitsThatAreUsedAgainSoon) {
  EXPECT_EQ(Queue(Zero3({.max_reuse_distance = 1}), false),
            "AGe AG1 AG2 AG3 AGh | RSh AG3 RS3 AG2 RS2 AG1 RS1 AGe RSe | AR");
  EXPECT_EQ(Queue(Zero3({.max_reuse_distance = 2 * 16'448}), false),
            "AGe AG1 AG2 AG3 AGh | RSh AG3 RS3 AG2 RS2 AG1 RS1 AGe RSe | AR");
  EXPECT_EQ(Queue(Zero3({.max_reuse_distance = 2 * 16'448 + 1}), false),
            "AGe AG1 AG2 AG3 AGh | RSh RS3 AG2 RS2 AG1 RS1 AGe RSe | AR");
}

// What is kept is passed over; what its forward is still to free is not gathered twice.
TEST(Zero3, GathersAcrossTheTurn) {
  const Schedule schedule =
      Build(Zero3({.prefetch_bucket_size = 50'000, .max_reuse_distance = 1}), false);
  EXPECT_THAT(OpsBetween(schedule, "F m0 block2.mlp forward", "B m0 block2.mlp backward"),
              ElementsAre("F m0 block2.mlp forward", "F m0 block2 reshard",
                          "F m0 head wait <- F m0 head all_gather", "B m0 block2 all_gather",
                          "F m0 head forward", "B m0 head backward", "B m0 head reshard",
                          "B m0 head reduce_scatter <- all of compute", "B m0 head release",
                          "B m0 block2 wait <- B m0 block2 all_gather", "B m0 block1 all_gather",
                          "B m0 block2.mlp backward"));
}

// The norms of UniformModel(3, false) as a unit of their own.
ModelDescription SmallApart() {
  ModelDescription model = UniformModel(3, /*root_unit=*/false);
  Unit small{.name = "persistent"};
  for (Unit& unit : model.units) {
    std::erase_if(unit.parameters, [&](const Parameter& parameter) {
      const bool is_small = parameter.shape.size() == 1;
      if (is_small) small.parameters.push_back(parameter);
      return is_small;
    });
  }
  for (size_t segment = 1; segment < model.segments.size(); ++segment) {
    model.segments[segment].units.push_back(static_cast<int32_t>(model.units.size()));
  }
  model.units.push_back(std::move(small));
  return model;
}

TEST(Zero3, GathersSmallParametersAfterTheirUpdateOnly) {
  Policy policy = Zero3({});
  policy.units.persistence_threshold = 65;
  const ModelDescription model = SmallApart();
  const Result<Schedule> schedule = BuildSchedule(model, policy);
  ASSERT_TRUE(schedule.ok()) << schedule.message();
  EXPECT_EQ(CollectiveQueue(*schedule),
            "AGe AG1 AG2 AG3 AGh | AGh RSh AG3 RS3 AG2 RS2 AG1 RSp RS1 AGe RSe | AR AGp");
  int64_t bytes = 0;
  int64_t split = 0;
  for (const Buffer& buffer : StateBuffers(model, policy, 0)) bytes += buffer.bytes;
  for (const Unit& unit : model.units) split += unit.name == "persistent" ? 0 : UnitElements(unit);
  const int64_t small = 7 * 64;
  EXPECT_EQ(bytes, 16 * split / 2 + 4 * small + 12 * small / 2);
  policy.units.persistence_threshold = 64;
  EXPECT_EQ(StateBuffers(model, policy, 0), StateBuffers(model, Zero3({}), 0));
}

TEST(Zero3, WithoutOverlapComputeWaitsForEachCollective) {
  for (const char* strategy : {"zero1", "zero2", "zero3"}) {
    Policy policy = Zero3({.prefetch_bucket_size = kUnlimited});
    policy.strategy = FindStrategy(strategy);
    policy.overlap_comm = false;
    const Schedule schedule = Build(policy);
    const Program& program = schedule.programs.front();
    for (OpIndex index = 0; index < std::ssize(program.ops); ++index) {
      const Op& op = program.ops[static_cast<size_t>(index)];
      if (!IsCollective(op.kind) || op.unit == kNone) continue;
      const auto next = std::find_if(program.ops.begin() + index, program.ops.end(),
                                     [](const Op& o) { return o.stream == kComputeOps; });
      ASSERT_EQ(next->dependencies.size(), 1U) << schedule.name << ": " << OpName(schedule, op);
      const OpIndex last = ResolveDependency(
          program, static_cast<OpIndex>(next - program.ops.begin()), next->dependencies.front());
      EXPECT_GE(last, index);  // it, or what frees its input
      EXPECT_EQ(program.ops[static_cast<size_t>(last)].stream, op.stream);
    }
  }
}

// Two replicas of two shards.
Policy Hybrid(Preset preset, const char* strategy) {
  Policy policy = TwoRanks(preset);
  SetStrategy(strategy, &policy);
  policy.mesh = {{1, 2, 2, 1}};
  return policy;
}

TEST_P(BothPresets, HybridAllReducesEachShardOverTheReplicas) {
  EXPECT_EQ(Queue(Hybrid(GetParam(), "hybrid")),
            "AGr AG1 AG2 AG3 | AG3 AG2 RS3 AR3 AG1 RS2 AR2 RS1 AR1 RSr ARr | AR");
  EXPECT_EQ(Queue(Hybrid(GetParam(), "hybrid_grad_op")),
            "AGr AG1 AG2 AG3 | RS3 AR3 RS2 AR2 RS1 AR1 RSr ARr | AR");
}

TEST_P(BothPresets, HybridSendsWhatItsGroupsNeed) {
  const Schedule schedule = Build(Hybrid(GetParam(), "hybrid"));
  ASSERT_EQ(schedule.communicators.size(), 2U);
  const auto replicate = static_cast<CommunicatorIndex>(1);
  EXPECT_EQ(schedule.communicators[1].name, "replicate");
  for (const Op& op : schedule.programs.front().ops) {
    if (!IsCollective(op.kind) || op.unit == kNone) continue;
    const Unit& unit = schedule.units[static_cast<size_t>(op.unit)];
    const int64_t shard = PaddedShardElements(unit, 2) * BytesOf(op.dtype);
    const bool among_replicas = op.kind == OpKind::kAllReduce;
    EXPECT_EQ(op.communicator == replicate, among_replicas);
    EXPECT_EQ(op.payload_bytes, among_replicas ? shard : 2 * shard);
    EXPECT_EQ(op.wire_bytes, shard);  // N = 2 each way
  }
}

TEST_P(BothPresets, EveryMicroBatchGathersAndReduces) {
  Policy policy = TwoRanks(GetParam());
  policy.micro_batches = 2;
  const std::string once = "AGr AG1 AG2 AG3 | AG3 AG2 RS3 AG1 RS2 RS1 RSr | ";
  EXPECT_EQ(Queue(policy), once + once + "AR");
  policy.strategy = FindStrategy("grad_op");
  const std::string kept = "AGr AG1 AG2 AG3 | RS3 RS2 RS1 RSr | ";
  EXPECT_EQ(Queue(policy), kept + kept + "AR");
}

TEST_P(BothPresets, WithoutRootUnitTheLastUnitIsGatheredTwice) {
  EXPECT_EQ(Queue(WithBackward(GetParam(), BackwardPrefetch::kPre), false),
            "AGe AG1 AG2 AG3 AGh | AGh AG3 RSh AG2 RS3 AG1 RS2 AGe RS1 RSe | AR");
  EXPECT_EQ(Queue(WithBackward(GetParam(), BackwardPrefetch::kNone), false),
            "AGe AG1 AG2 AG3 AGh | AGh RSh AG3 RS3 AG2 RS2 AG1 RS1 AGe RSe | AR");
}

// Host order of gathers, compute and reductions: what the communicator's queue cannot show.

TEST_P(BothPresets, PreIssuesTheNextGatherBeforeBackward) {
  EXPECT_EQ(BackwardOrder(Build(WithBackward(GetParam(), BackwardPrefetch::kPre))),
            "AG3 Br AG2 B3 B3 RS3 AG1 B2 B2 RS2 B1 B1 RS1 Br RSr");
}

TEST_P(BothPresets, PostIssuesTheNextGatherAfterBackward) {
  EXPECT_EQ(BackwardOrder(Build(WithBackward(GetParam(), BackwardPrefetch::kPost))),
            "Br AG3 B3 B3 AG2 RS3 B2 B2 AG1 RS2 B1 B1 RS1 Br RSr");
}

TEST_P(BothPresets, NoneIssuesEachGatherAtItsOwnUnit) {
  EXPECT_EQ(BackwardOrder(Build(WithBackward(GetParam(), BackwardPrefetch::kNone))),
            "Br AG3 B3 B3 RS3 AG2 B2 B2 RS2 AG1 B1 B1 RS1 Br RSr");
}

TEST_P(BothPresets, PreDepth2IsTwoUnitsAhead) {
  EXPECT_EQ(BackwardOrder(Build(WithBackward(GetParam(), BackwardPrefetch::kPre, 2))),
            "AG3 AG2 Br AG1 B3 B3 RS3 B2 B2 RS2 B1 B1 RS1 Br RSr");
}

TEST_P(BothPresets, ForwardPrefetchMovesGathersOnly) {
  Policy policy = TwoRanks(GetParam());
  EXPECT_EQ(ForwardOrder(Build(policy)), "AGr Fr AG1 F1 F1 AG2 F2 F2 AG3 F3 F3 Fr");
  policy.forward_prefetch = 1;
  EXPECT_EQ(ForwardOrder(Build(policy)), "AGr AG1 Fr AG2 F1 F1 AG3 F2 F2 F3 F3 Fr");
  policy.forward_prefetch = 2;
  EXPECT_EQ(ForwardOrder(Build(policy)), "AGr AG1 AG2 Fr AG3 F1 F1 F2 F2 F3 F3 Fr");
  policy.forward_prefetch = 3;
  EXPECT_EQ(ForwardOrder(Build(policy)), "AGr AG1 AG2 AG3 Fr F1 F1 F2 F2 F3 F3 Fr");
}

TEST_P(BothPresets, PrefetchDoesNotCrossMicroBatches) {
  Policy policy = TwoRanks(GetParam());
  policy.forward_prefetch = 1;
  policy.micro_batches = 2;
  const std::string once = "AGr AG1 Fr AG2 F1 F1 AG3 F2 F2 F3 F3 Fr";
  EXPECT_EQ(ForwardOrder(Build(policy)), once + " " + once);
}

// Whole op lists, waits included, of one unit.

TEST(Fsdp2, UnitInForward) {
  const Schedule schedule = Build(TwoRanks(Preset::kFsdp2));
  EXPECT_THAT(OpsBetween(schedule, "F m0 block0.mlp forward", "F m0 block1.mlp forward"),
              ElementsAre("F m0 block0.mlp forward", "F m0 block0 reshard", "F m0 block1 copy_in",
                          "F m0 block1 all_gather <- F m0 block1 copy_in",
                          "F m0 block0 release <- F m0 block0 copy_out",
                          "F m0 block0 wait <- F m0 block0 copy_out",
                          "F m0 block1 copy_out <- F m0 block1 all_gather",
                          "F m0 block1.attention forward", "F m0 block1.mlp forward"));
}

TEST(Fsdp2, UnitInBackward) {
  const Schedule schedule = Build(TwoRanks(Preset::kFsdp2));
  EXPECT_THAT(
      OpsBetween(schedule, "B m0 block2 reduce_scatter", "B m0 block1 reduce_scatter"),
      ElementsAre("B m0 block2 reduce_scatter <- all of compute",
                  "B m0 block1 copy_out <- B m0 block1 all_gather",
                  "B m0 block1 release <- B m0 block1 copy_out",
                  "B m0 block1 wait <- B m0 block1 copy_out", "B m0 block0 copy_in",
                  "B m0 block0 all_gather <- B m0 block0 copy_in", "B m0 block1.mlp backward",
                  "B m0 block1.attention backward", "B m0 block1 reshard",
                  "B m0 block2 release <- B m0 block2 reduce_scatter", "B m0 block1 copy_in",
                  "B m0 block1 reduce_scatter <- all of compute"));
}

TEST(Fsdp2, TailAndOptimizer) {
  const Schedule schedule = Build(TwoRanks(Preset::kFsdp2));
  EXPECT_THAT(OpsBetween(schedule, "B m0 embedding backward", "O block0 optimizer"),
              ElementsAre("B m0 embedding backward", "B m0 root reshard",
                          "B m0 block0 release <- B m0 block0 reduce_scatter", "B m0 root copy_in",
                          "B m0 root reduce_scatter <- all of compute",
                          "B m0 root release <- B m0 root reduce_scatter", "O grad_norm",
                          "O all_reduce <- O grad_norm", "O root optimizer <- O all_reduce",
                          "O block0 optimizer"));
}

TEST(Fsdp2, RootPreForwardWaitsForCompute) {
  const Schedule schedule = Build(TwoRanks(Preset::kFsdp2));
  EXPECT_THAT(OpsBetween(schedule, "control", "F m0 root copy_out"),
              ElementsAre("control", "F m0 load_batch", "F m0 root copy_in <- all of compute",
                          "F m0 root all_gather <- all of compute, F m0 root copy_in",
                          "F m0 root copy_out <- F m0 root all_gather"));
}

TEST(Fsdp1, UnitInForward) {
  const Schedule schedule = Build(TwoRanks(Preset::kFsdp1));
  EXPECT_THAT(OpsBetween(schedule, "F m0 block0.mlp forward", "F m0 block1.mlp forward"),
              ElementsAre("F m0 block0.mlp forward", "F m0 block0 reshard",
                          "F m0 block1 all_gather", "F m0 block1 wait <- all of unshard",
                          "F m0 block1.attention forward", "F m0 block1.mlp forward"));
}

TEST(Fsdp1, UnitInForwardWithCast) {
  Policy policy = TwoRanks(Preset::kFsdp1);
  policy.param_dtype = DType::kBf16;
  EXPECT_THAT(OpsBetween(Build(policy), "F m0 block0 reshard", "F m0 block1 wait"),
              ElementsAre("F m0 block0 reshard", "F m0 block1 cast",
                          "F m0 block1 all_gather <- all of pre_unshard",
                          "F m0 block1 wait <- all of unshard"));
}

TEST(Fsdp1, UnitInBackward) {
  const Schedule schedule = Build(TwoRanks(Preset::kFsdp1));
  EXPECT_THAT(OpsBetween(schedule, "B m0 block2 release", "B m0 block1 release"),
              ElementsAre("B m0 block2 release", "B m0 block1 wait <- all of unshard",
                          "B m0 block0 all_gather", "B m0 block1.mlp backward",
                          "B m0 block1.attention backward", "B m0 block1 reshard",
                          "B m0 block1 reduce_scatter <- all of compute", "B m0 block1 release"));
}

TEST(Fsdp1, PostPrefetchStandsBetweenReshardAndReduceScatter) {
  const Schedule schedule = Build(WithBackward(Preset::kFsdp1, BackwardPrefetch::kPost));
  EXPECT_THAT(OpsBetween(schedule, "B m0 block2 reshard", "B m0 block2 release"),
              ElementsAre("B m0 block2 reshard", "B m0 block1 all_gather",
                          "B m0 block2 reduce_scatter <- all of compute", "B m0 block2 release"));
}

TEST(Fsdp1, TailAndOptimizer) {
  const Schedule schedule = Build(TwoRanks(Preset::kFsdp1));
  EXPECT_THAT(OpsBetween(schedule, "B m0 root reshard", "O block0 optimizer"),
              ElementsAre("B m0 root reshard", "B m0 root reduce_scatter <- all of compute",
                          "B m0 root release", "B m0 wait <- all of post_backward", "O grad_norm",
                          "O all_reduce <- O grad_norm", "O root optimizer <- O all_reduce",
                          "O block0 optimizer"));
}

// The first gradient of a step becomes the shard; what comes later is added, what is narrower cast.
TEST(Accumulate, OnlyWhereThereIsSomethingToAddOrToCast) {
  for (const Preset preset : {Preset::kFsdp1, Preset::kFsdp2}) {
    Policy policy = TwoRanks(preset);
    policy.micro_batches = 2;
    const Schedule added = Build(policy);
    for (const Op& op : added.programs.front().ops) {
      if (op.kind == OpKind::kReduceScatter) {
        EXPECT_EQ(op.allocates.empty(), op.micro_batch == 0);
      } else if (op.kind == OpKind::kAccumulate) {
        EXPECT_EQ(op.micro_batch, 1);
      }
    }
    EXPECT_THAT(OpsBetween(added, "B m1 block0 accumulate", "B m1 block0 accumulate"),
                ::testing::SizeIs(1));
    policy.micro_batches = 1;
    policy.reduce_dtype = DType::kBf16;
    EXPECT_THAT(OpsBetween(Build(policy), "B m0 block0 accumulate", "B m0 block0 accumulate"),
                ::testing::SizeIs(1));
  }
}

TEST(NoShard, UnitInBackward) {
  Policy policy = TwoRanks(Preset::kFsdp2);
  policy.strategy = FindStrategy("no_shard");
  policy.mesh = policy.strategy->MeshOf(2);
  EXPECT_THAT(OpsBetween(Build(policy), "B m0 block0.attention backward", "O root optimizer"),
              ElementsAre("B m0 block0.attention backward",
                          "B m0 block0 all_reduce <- all of compute", "B m0 block0 accumulate",
                          "B m0 embedding backward", "B m0 root all_reduce <- all of compute",
                          "B m0 root accumulate", "B m0 wait <- all of all_reduce", "O grad_norm",
                          "O root optimizer <- O grad_norm"));
}

TEST(NoShard, ACastRunsWhereThePresetsFrameworkPutsIt) {
  Policy policy = TwoRanks(Preset::kFsdp1);
  policy.strategy = FindStrategy("no_shard");
  policy.mesh = policy.strategy->MeshOf(2);
  policy.param_dtype = DType::kBf16;
  EXPECT_THAT(OpsBetween(Build(policy), "B m0 block0 copy_in", "B m0 block0 accumulate"),
              ElementsAre("B m0 block0 copy_in <- all of compute", "B m0 block0 all_reduce",
                          "B m0 block0 release", "B m0 block0 accumulate"));
  policy.preset = Preset::kFsdp2;
  EXPECT_THAT(OpsBetween(Build(policy), "B m0 block0 copy_in", "B m0 block0 accumulate"),
              ElementsAre("B m0 block0 copy_in", "B m0 block0 all_reduce <- all of compute",
                          "B m0 block0 accumulate"));
}

// A stream wait includes what a deeper prefetch put there; an event wait does not.
TEST(StreamWait, Fsdp1WaitsForThePrefetchToo) {
  const auto last_awaited = [](Preset preset, const std::string& op) {
    const Schedule schedule = Build(WithBackward(preset, BackwardPrefetch::kPre, 2));
    const Program& program = schedule.ProgramOf(0);
    const OpIndex index = IndexOf(schedule, op);
    const Dependency& wait = program.ops[static_cast<size_t>(index)].dependencies.front();
    const OpIndex awaited = ResolveDependency(program, index, wait);
    return OpName(schedule, program.ops[static_cast<size_t>(awaited)]);
  };
  EXPECT_EQ(last_awaited(Preset::kFsdp1, "B m0 block2 wait"), "B m0 block1 all_gather");
  EXPECT_EQ(last_awaited(Preset::kFsdp2, "B m0 block2 copy_out"), "B m0 block2 all_gather");
}

// Knobs of the host.

TEST(RateLimit, Fsdp1WaitsForTheSecondLastReshard) {
  Policy policy = TwoRanks(Preset::kFsdp1);
  policy.prefetch_limit = 2;
  // Free events queue up as 1, 2, 3 in forward. AG3 of forward finds two and takes 1. AG3 of
  // backward finds 2 and 3 and takes 2. AG2 finds only 3. AG1 finds 3 and backward's 3, and
  // takes 3.
  EXPECT_THAT(HostWaits(Build(policy)),
              ElementsAre("F m0 block2 all_gather <= F m0 block0 reshard",
                          "B m0 block2 all_gather <= F m0 block1 reshard",
                          "B m0 block0 all_gather <= F m0 block2 reshard"));
}

// PyTorch's _unshard() casts on its pre_unshard stream first and asks the limiter then.
TEST(RateLimit, Fsdp1CastsItsShardBeforeItWaits) {
  Policy policy = TwoRanks(Preset::kFsdp1);
  policy.prefetch_limit = 2;
  const std::vector<std::string> without_cast = HostWaits(Build(policy));
  policy.param_dtype = DType::kBf16;
  EXPECT_EQ(HostWaits(Build(policy)), without_cast);
}

TEST(RateLimit, Fsdp2WaitsBeforeTheCopyIn) {
  Policy policy = WithBackward(Preset::kFsdp2, BackwardPrefetch::kNone);
  policy.prefetch_limit = 1;
  EXPECT_THAT(HostWaits(Build(policy)), ElementsAre("F m0 block1 copy_in <= F m0 block0 reshard",
                                                    "F m0 block2 copy_in <= F m0 block1 reshard",
                                                    "B m0 block2 copy_in <= F m0 block2 reshard",
                                                    "B m0 block1 copy_in <= B m0 block2 reshard",
                                                    "B m0 block0 copy_in <= B m0 block1 reshard"));
}

TEST(RunAhead, ZeroWaitsForEveryComputeOp) {
  Policy policy = TwoRanks(Preset::kFsdp1);
  policy.strategy = FindStrategy("grad_op");
  policy.run_ahead = 0;
  const std::vector<std::string> waits = HostWaits(Build(policy));
  ASSERT_EQ(waits.size(), 16u);  // 8 segments, forward and backward
  EXPECT_EQ(waits.front(), "F m0 block0 all_gather <= F m0 embedding forward");
  EXPECT_EQ(waits.back(), "B m0 root reshard <= B m0 embedding backward");
}

TEST(RunAhead, TwoWaitsForTheThirdLastComputeOp) {
  Policy policy = TwoRanks(Preset::kFsdp2);
  policy.run_ahead = 2;
  const std::vector<std::string> waits = HostWaits(Build(policy));
  ASSERT_EQ(waits.size(), 14u);
  EXPECT_EQ(waits[0], "F m0 block0 reshard <= F m0 embedding forward");
  EXPECT_EQ(waits[1], "F m0 block1.mlp forward <= F m0 block0.attention forward");
}

// Bytes.

TEST(Bytes, PayloadIsPaddedAndWireIsWhatARingSends) {
  Policy policy = TwoRanks(Preset::kFsdp2);
  policy.mesh = MeshOf(MeshDimension::kShard, 3);
  policy.param_dtype = DType::kBf16;
  const Schedule schedule = Build(policy);
  const Op& gather =
      schedule.programs[0].ops[static_cast<size_t>(IndexOf(schedule, "F m0 block0 all_gather"))];
  // Rows per rank of 64, 192, 64, 64, 256, 64 on three ranks: 22, 64, 22, 22, 86, 22.
  constexpr int64_t kShard = 22 + 64 * 64 + 22 * 64 + 22 + 86 * 64 + 22 * 256;
  EXPECT_EQ(gather.payload_bytes, 3 * kShard * 2);
  EXPECT_EQ(gather.wire_bytes, 2 * kShard * 2);
  const Op& reduce = schedule.programs[0]
                         .ops[static_cast<size_t>(IndexOf(schedule, "B m0 block0 reduce_scatter"))];
  EXPECT_EQ(reduce.payload_bytes, 3 * kShard * 4);
  EXPECT_EQ(reduce.dtype, DType::kFp32);
  const Op& norm = schedule.programs[0].ops[static_cast<size_t>(IndexOf(schedule, "O all_reduce"))];
  EXPECT_EQ(norm.payload_bytes, 8);
  EXPECT_EQ(norm.dtype, DType::kFp64);
}

// Errors.

TEST(BuildSchedule, RefusesPoliciesOutOfRange) {
  Policy policy;
  policy.backward_depth = 4;
  EXPECT_EQ(BuildSchedule(UniformModel(1, true), policy).message(),
            "backward prefetch depth is 4, must be 1 to 3");
}

TEST(BuildSchedule, RefusesAccumulationAndScalersThatTheRestDoesNotGoWith) {
  const auto refusal = [](const Policy& policy) {
    return BuildSchedule(UniformModel(1, true), policy).message();
  };
  Policy alone;
  alone.accumulation.sync = GradientSync::kReduceScatterOnly;
  EXPECT_THAT(refusal(alone), HasSubstr("replicas alone can wait for the last micro-batch"));
  Policy rooted;
  rooted.strategy = FindStrategy("data_parallel");
  rooted.update.has_scaler = true;
  EXPECT_EQ(refusal(rooted),
            "strategy 'data_parallel' has no gradient scaler: only one of its ranks sees the "
            "gradients");
  Policy offloaded;
  offloaded.offload = Offload::kAll;
  offloaded.accumulation = {.sync = GradientSync::kNoSync, .reshards = false, .waits = false};
  EXPECT_EQ(refusal(offloaded), "");
  offloaded.accumulation = {.keeps_dtype = true};
  EXPECT_THAT(refusal(offloaded), HasSubstr("are kept there in the dtype of the weights"));
}

TEST(BuildSchedule, RefusesModelsThatDoNotHangTogether) {
  ModelDescription model = UniformModel(1, true);
  model.segments.back().units = {7};
  EXPECT_EQ(BuildSchedule(model, Policy()).message(),
            "segment 'head' names unit 7, but the model has 2 units");
  model = UniformModel(1, true);
  model.units.push_back({"spare", false, {{"spare.weight", {4}}}});
  EXPECT_EQ(BuildSchedule(model, Policy()).message(), "unit 'spare' is used by no segment");
}

}  // namespace
}  // namespace shardscope::plan
