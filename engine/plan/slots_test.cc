// Where units of FSDP lie and wait between their gathers: in two slots, on fewer ranks, gathered
// ahead by lists.
#include <gmock/gmock.h>

#include <map>
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
