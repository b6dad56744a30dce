// Where units of FSDP lie and wait between their gathers: in two slots, on fewer ranks, gathered
// ahead by lists.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "engine/plan/policy.h"
#include "engine/plan/schedule_test_util.h"
#include "engine/plan/uniform_model.h"
#include "engine/plan/validate.h"

namespace shardscope::plan {
namespace {

using testing::HasSubstr;

std::string QueueOf(const Policy& policy, bool root_unit = true) {
  return CollectiveQueue(Build(policy, root_unit));
}

Policy DoubleBuffer() { return TwoRanks(Preset::kDoubleBuffer); }

// Embedding, three blocks, head: one is gathered ahead, and the last two stay for the backward.
TEST(DoubleBuffer, GathersOneUnitAheadIntoTheOtherSlot) {
  EXPECT_EQ(QueueOf(DoubleBuffer(), false),
            "AGe AG1 AG2 AG3 AGh | RSh AG2 RS3 AG1 RS2 AGe RS1 RSe | AR");
  const Schedule schedule = Build(DoubleBuffer(), false);
  EXPECT_EQ(schedule.name, "double_buffer full");
  const Program& program = schedule.programs.front();
  std::map<BufferKind, int> slots;
  for (const Buffer& buffer : program.buffers) {
    if (buffer.kind == BufferKind::kParameterSlot || buffer.kind == BufferKind::kGradientSlot) {
      ++slots[buffer.kind];
    }
    const bool has_slot = !buffer.persistent && (buffer.kind == BufferKind::kUnsharded ||
                                                 buffer.kind == BufferKind::kGradient);
    EXPECT_EQ(buffer.slot != kNone, has_slot);
    if (has_slot) {
      EXPECT_LE(buffer.bytes, program.buffers[static_cast<size_t>(buffer.slot)].bytes);
    }
  }
  EXPECT_EQ(slots, (std::map<BufferKind, int>{{BufferKind::kParameterSlot, 2},
                                              {BufferKind::kGradientSlot, 2}}));
}

TEST(DoubleBuffer, RefusesAGatherThatDoesNotWaitForItsSlot) {
  Schedule schedule = Build(DoubleBuffer(), false);
  for (Op& op : schedule.programs.front().ops) {
    if (op.kind == OpKind::kAllGather && op.unit == 2)
      std::erase_if(op.dependencies, [](auto wait) { return wait.kind == DependencyKind::kEvent; });
  }
  EXPECT_THAT(Validate(schedule).message(), HasSubstr("may take the memory of"));
}

TEST(DoubleBuffer, RefusesASlotThatIsTooSmallAtTheFirstOpThatUsesIt) {
  Schedule schedule = Build(DoubleBuffer(), false);
  for (Buffer& buffer : schedule.programs.front().buffers) {
    if (buffer.kind == BufferKind::kGradientSlot) buffer.bytes = 4;
  }
  const std::optional<Refusal> refusal = FindRefusal(schedule);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->kind, RefusalKind::kBytes);
  EXPECT_NE(refusal->op, kNone);
  EXPECT_THAT(refusal->message, HasSubstr("and its slot has 4"));
}

TEST(DoubleBuffer, HasNoRootUnitNorUnitsThatStay) {
  EXPECT_THAT(BuildSchedule(UniformModel(3, true), DoubleBuffer()).message(),
              HasSubstr("'root' is used before and after others"));
  Policy policy = DoubleBuffer();
  policy.strategy = FindStrategy("grad_op");
  EXPECT_FALSE(BuildSchedule(UniformModel(3, false), policy).ok());
}

// PyTorch's _get_post_forward_mesh_info: groups of neighbours, and in backward (k-1)/k of a unit.
TEST(Reshard, ToFewerRanksGathersTheBackwardAmongThese) {
  Policy policy;
  policy.mesh = MeshOf(MeshDimension::kShard, 4);
  policy.post_forward_ranks = 2;
  const Schedule schedule = Build(policy);
  EXPECT_EQ(CollectiveQueue(schedule), "AGr AG1 AG2 AG3 | AG3 AG2 RS3 AG1 RS2 RS1 RSr | AR");
  EXPECT_EQ(schedule.name, "fsdp2 full to2 pre1");
  for (const Op& op : schedule.programs.front().ops) {
    if (op.kind != OpKind::kAllGather) continue;
    const bool in_backward = op.phase == Phase::kBackward;
    EXPECT_EQ(schedule.communicators[static_cast<size_t>(op.communicator)].name,
              in_backward ? "post_forward" : "shard");
    EXPECT_EQ(op.wire_bytes, op.payload_bytes * (in_backward ? 2 : 3) / 4);
    const std::vector<int32_t> of_last = RanksOf(schedule, MeetingOf(schedule, 3, op));
    EXPECT_EQ(of_last,
              in_backward ? (std::vector<int32_t>{2, 3}) : (std::vector<int32_t>{0, 1, 2, 3}));
  }
}

void FreezeUnit(int32_t unit, ModelDescription* model) {
  for (Parameter& parameter : model->units[static_cast<size_t>(unit)].parameters) {
    parameter.is_frozen = true;
  }
  for (Segment& segment : model->segments) {
    if (std::ranges::count(segment.units, unit) > 0) segment.frozen_units.push_back(unit);
  }
}

// The first units.
ModelDescription WithFrozen(ModelDescription model, int32_t num_units) {
  for (int32_t unit = 0; unit < num_units; ++unit) FreezeUnit(unit, &model);
  return model;
}

// All but an adapter in each block.
ModelDescription WithAdapters(ModelDescription model) {
  for (int32_t index = 0; index < std::ssize(model.units); ++index) {
    Unit& unit = model.units[static_cast<size_t>(index)];
    if (!unit.name.starts_with("block")) {
      FreezeUnit(index, &model);
      continue;
    }
    for (Parameter& parameter : unit.parameters) parameter.is_frozen = true;
    unit.parameters.insert(unit.parameters.begin(), Parameter{unit.name + ".lora_a", {2, 64}});
  }
  return model;
}

// By unit and micro-batch, of the whole program.
using UnitUses = std::set<std::pair<int32_t, int32_t>>;

void ExpectAPartForEachGatherAmongFewer(const Schedule& schedule, bool embedding_is_alone) {
  SCOPED_TRACE(schedule.name);
  const Program& program = schedule.programs.front();
  UnitUses parts;
  UnitUses gathers;
  for (const Op& op : program.ops) {
    for (const BufferId id : op.allocates) {
      const bool is_part =
          program.buffers[static_cast<size_t>(id)].kind == BufferKind::kPostForwardShard;
      if (!is_part) continue;
      EXPECT_TRUE(parts.emplace(op.unit, op.micro_batch).second);
    }
    const bool is_gather = op.kind == OpKind::kAllGather && op.unit != kNone;
    const bool is_among_fewer =
        is_gather && schedule.communicators[static_cast<size_t>(op.communicator)].run > 0;
    if (is_among_fewer) gathers.emplace(op.unit, op.micro_batch);
    if (!is_gather || op.phase != Phase::kBackward) continue;
    EXPECT_TRUE(is_among_fewer);
  }
  EXPECT_EQ(parts, gathers);
  EXPECT_FALSE(parts.empty());
  if (!embedding_is_alone) return;
  EXPECT_FALSE(parts.contains({0, 0}));
}

// What has no backward is not gathered again, and leaves no part for that: frozen units before the
// first that is trained.
TEST(Reshard, ToFewerRanksLeavesNoPartOfWhatHasNoBackward) {
  for (const char* strategy : {"full", "hybrid"}) {
    for (const int tensor_ranks : {1, 2}) {
      if (tensor_ranks > 1 && FindStrategy(strategy)->replicates_shards()) continue;
      for (const bool root_unit : {false, true}) {
        const ModelDescription whole = UniformModel(3, root_unit, 1, tensor_ranks);
        for (const ModelDescription& model :
             {WithFrozen(whole, 1), WithFrozen(whole, 2), WithAdapters(whole)}) {
          for (const int ranks : {2, 4}) {
            for (const int micro_batches : {1, 2}) {
              for (const Offload offload : {Offload::kNone, Offload::kOptimizer, Offload::kAll}) {
                Policy policy;
                policy.strategy = FindStrategy(strategy);
                policy.mesh = {{1, policy.strategy->replicates_shards() ? 2 : 1, 8, tensor_ranks}};
                policy.units.tensor_ranks = tensor_ranks;
                policy.post_forward_ranks = ranks;
                policy.micro_batches = micro_batches;
                policy.offload = offload;
                const Result<Schedule> schedule = BuildSchedule(model, policy);
                ASSERT_TRUE(schedule.ok()) << schedule.message();
                ExpectAPartForEachGatherAmongFewer(*schedule, !root_unit);
                EXPECT_TRUE(BuildEvaluation(model, policy).ok());
                policy.accumulation.reshards = false;
                policy.checkpointing.mode = Checkpointing::kEvery;
                const Result<Schedule> keeps = BuildSchedule(model, policy);
                ASSERT_TRUE(keeps.ok()) << keeps.message();
                ExpectAPartForEachGatherAmongFewer(*keeps, !root_unit);
              }
            }
          }
        }
      }
    }
  }
}

TEST(Reshard, ToFewerRanksOnlyWhereTheyDivideTheOthers) {
  for (const int ranks : {1, 3, 4, 8}) {
    Policy policy;
    policy.mesh = MeshOf(MeshDimension::kShard, 4);
    policy.post_forward_ranks = ranks;
    EXPECT_FALSE(BuildSchedule(UniformModel(3, true), policy).ok()) << ranks;
  }
  Policy policy;
  policy.mesh = MeshOf(MeshDimension::kShard, 4);
  policy.post_forward_ranks = 2;
  policy.preset = Preset::kFsdp1;
  EXPECT_FALSE(BuildSchedule(UniformModel(3, true), policy).ok());
}

// A unit with a list gathers those and no others; what is there already is not gathered again.
TEST(PrefetchLists, SayWhatAUnitGathersAhead) {
  Policy policy = TwoRanks(Preset::kFsdp2);
  policy.prefetch_lists.forward = {{"block0", {"block2", "block1"}}};
  EXPECT_EQ(QueueOf(policy), "AGr AG1 AG3 AG2 | AG3 AG2 RS3 AG1 RS2 RS1 RSr | AR");
  policy.prefetch_lists.backward = {{"block2", {"block0", "block1"}}};
  EXPECT_EQ(QueueOf(policy), "AGr AG1 AG3 AG2 | AG3 AG1 AG2 RS3 RS2 RS1 RSr | AR");
  policy.prefetch_lists = {.backward = {{"block2", {"block2"}}}};
  EXPECT_EQ(QueueOf(policy), "AGr AG1 AG2 AG3 | AG3 RS3 AG2 AG1 RS2 RS1 RSr | AR");
  policy.backward_prefetch = BackwardPrefetch::kNone;
  policy.prefetch_lists = {.backward = {{"block1", {"block0"}}}};
  EXPECT_EQ(QueueOf(policy), "AGr AG1 AG2 AG3 | AG3 RS3 AG2 AG1 RS2 RS1 RSr | AR");
  policy.prefetch_lists = {.forward = {{"block7", {"block0"}}}};
  EXPECT_THAT(BuildSchedule(UniformModel(3, true), policy).message(),
              HasSubstr("names 'block7', but the units are root, block0, block1, block2"));
}

}  // namespace
}  // namespace shardscope::plan
