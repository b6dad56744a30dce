// Shards in the host's memory: where their copies stand, what waits for what, and whose memory they
// are.
#include <gmock/gmock.h>

#include <algorithm>

#include "engine/plan/memory.h"
#include "engine/plan/schedule_test_util.h"
#include "engine/plan/text.h"
#include "engine/plan/uniform_model.h"

namespace shardscope::plan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Policy Offloaded(Preset preset = Preset::kFsdp2, bool clips = true) {
  Policy policy = TwoRanks(preset);
  policy.offload = Offload::kAll;
  policy.update.clips = clips;
  return policy;
}

const Op& OpNamed(const Schedule& schedule, const std::string& name) {
  return schedule.programs.front().ops[static_cast<size_t>(IndexOf(schedule, name))];
}

// With the prefetch that its all-gather belongs to.
TEST(Offload, BringsAShardInFrontOfItsGather) {
  const Schedule schedule = Build(Offloaded());
  EXPECT_THAT(OpsBetween(schedule, "B m0 block0 copy_to_device", "B m0 block1.mlp backward"),
              ElementsAre("B m0 block0 copy_to_device",
                          HasSubstr("B m0 block0 copy_in <- B m0 block0 copy_to_device"),
                          HasSubstr("B m0 block0 all_gather <- B m0 block0 copy_in"),
                          HasSubstr("B m0 block1.mlp backward")));
  // A copy in flight, not one a unit.
  EXPECT_LE(
      PredictPeak(schedule, 0).by_category[static_cast<size_t>(MemoryCategory::kParameterShard)],
      2 * 4 * UnitElements(schedule.units[1]) / 2);
}

TEST(Offload, SendsNoMoreThanWithout) {
  for (const Preset preset : {Preset::kFsdp1, Preset::kFsdp2}) {
    EXPECT_EQ(CollectiveQueue(Build(Offloaded(preset))), CollectiveQueue(Build(TwoRanks(preset))));
  }
}

// 16 bytes an element over two ranks, of which the rank's own total has none.
TEST(Offload, StateIsTheHostsMemory) {
  const Schedule offloaded = Build(Offloaded());
  const Schedule plain = Build(TwoRanks(Preset::kFsdp2));
  int64_t elements = 0;
  for (const Unit& unit : offloaded.units) elements += UnitElements(unit);
  const MemoryPeak peak = PredictPeak(offloaded, 0);
  EXPECT_EQ(peak.by_category[static_cast<size_t>(MemoryCategory::kHost)], 16 * elements / 2);
  EXPECT_EQ(LiveAt(offloaded, "F m0 load_batch",
                   {MemoryCategory::kParameterShard, MemoryCategory::kGradientShard,
                    MemoryCategory::kOptimizer}),
            0);
  EXPECT_LT(peak.total, PredictPeak(plain, 0).total - 15 * elements / 2);
}

TEST(Offload, UpdatesWaitForTheNormWhereGradientsAreClipped) {
  const Schedule schedule = Build(Offloaded());
  const OpIndex norm = IndexOf(schedule, "O grad_norm");
  for (const Unit& unit : schedule.units) {
    EXPECT_GT(IndexOf(schedule, "O " + unit.name + " optimizer"), norm) << unit.name;
  }
}

// Else a unit is updated while backward goes on, once its gradient is there; the last one to come
// takes the norm, for the record.
TEST(Offload, UpdatesGoOnDuringBackwardWhereNothingIsClipped) {
  for (const Preset preset : {Preset::kFsdp1, Preset::kFsdp2}) {
    const Schedule schedule = Build(Offloaded(preset, false));
    const Program& program = schedule.programs.front();
    const OpIndex update = IndexOf(schedule, "O block2 optimizer");
    EXPECT_LT(update, IndexOf(schedule, "B m0 block0.mlp backward"));
    EXPECT_EQ(program.ops[static_cast<size_t>(update)].dependencies,
              (std::vector<Dependency>{
                  {DependencyKind::kEvent, IndexOf(schedule, "B m0 block2 copy_to_host")}}));
    EXPECT_EQ(OpNamed(schedule, "O block2 optimizer").reads.size(), 3U);
    EXPECT_EQ(OpNamed(schedule, "O root optimizer").reads.size(), 4U);
    // Compute never waits for the host.
    const std::vector<std::vector<OpIndex>> predecessors = AllPredecessors(program);
    for (size_t index = 0; index < program.ops.size(); ++index) {
      if (program.ops[index].stream != 1) continue;
      for (const OpIndex before : predecessors[index]) {
        EXPECT_NE(program.ops[static_cast<size_t>(before)].kind, OpKind::kCopyToHost);
      }
    }
  }
}

TEST(Offload, AddsUpMicroBatchesOnTheHost) {
  Policy policy = Offloaded();
  policy.micro_batches = 2;
  const Schedule schedule = Build(policy);
  int added = 0;
  for (const Op& op : schedule.programs.front().ops) {
    if (op.kind != OpKind::kAccumulate) continue;
    ++added;
    EXPECT_EQ(schedule.streams[static_cast<size_t>(op.stream)].name, "host_optimizer");
  }
  EXPECT_EQ(added, 4);  // each unit in the second one
  const Result<Schedule> read = ParseSchedule(PrintSchedule(schedule));
  ASSERT_TRUE(read.ok()) << read.message();
  EXPECT_EQ(*read, schedule);
}

// What is not reduced with a micro-batch does not go to the host with it, and is the sum then.
TEST(Offload, TakesWhatIsReducedToTheHost) {
  constexpr int kMicroBatches = 3;
  for (const Preset preset : {Preset::kFsdp1, Preset::kFsdp2}) {
    for (const auto sync :
         {GradientSync::kReduce, GradientSync::kNoSync, GradientSync::kReduceScatterOnly}) {
      for (const DType reduce : {DType::kFp32, DType::kBf16}) {
        for (const bool is_plain : {true, false}) {
          for (const Offload offload : {Offload::kOptimizer, Offload::kAll}) {
            Policy policy = Offloaded(preset);
            policy.strategy = FindStrategy("hybrid");
            policy.mesh = {{1, 2, 2, 1}};
            policy.micro_batches = kMicroBatches;
            policy.reduce_dtype = reduce;
            policy.accumulation = {.sync = sync, .reshards = is_plain, .waits = is_plain};
            Policy plain = policy;
            plain.offload = Offload::kNone;
            policy.offload = offload;
            const Schedule schedule = Build(policy);
            SCOPED_TRACE(schedule.name);
            EXPECT_EQ(CollectiveQueue(schedule), CollectiveQueue(Build(plain)));
            int copies = 0;
            int added = 0;  // to what the host has already
            for (const Op& op : schedule.programs.front().ops) {
              if (op.kind == OpKind::kCopyToHost) ++copies;
              const bool is_hosts = schedule.streams[static_cast<size_t>(op.stream)].role ==
                                    StreamRole::kHostOptimizer;
              if (is_hosts && op.kind == OpKind::kAccumulate && op.reads.size() > 1) ++added;
            }
            const int units = static_cast<int>(schedule.units.size());
            const bool is_each = sync == GradientSync::kReduce;
            EXPECT_EQ(copies, units * (is_each ? kMicroBatches : 1));
            EXPECT_EQ(added, units * (is_each ? kMicroBatches - 1 : 0));
          }
        }
      }
    }
  }
}

// Tensor ranks add up what all of them have once more: on the device, and then it goes to the host.
// All that is added up is so in the dtype of the shard, as without offload.
TEST(Offload, WaitsForWhatTensorRanksAddUp) {
  for (const bool clips : {true, false}) {
    for (const Preset preset : {Preset::kFsdp1, Preset::kFsdp2}) {
      for (const DType reduce : {DType::kFp32, DType::kBf16}) {
        for (const auto sync :
             {GradientSync::kReduce, GradientSync::kNoSync, GradientSync::kReduceScatterOnly}) {
          Policy policy = Offloaded(preset, clips);
          policy.strategy = FindStrategy("hybrid");
          policy.mesh = {{1, 2, 2, 2}};
          policy.units.tensor_ranks = 2;
          policy.units.sequence_parallel = true;
          policy.micro_batches = 2;
          policy.reduce_dtype = reduce;
          policy.accumulation.sync = sync;
          const ModelDescription model = UniformModel(2, false, 1, 2, /*sequence_parallel=*/true);
          const Result<Schedule> schedule = BuildSchedule(model, policy);
          ASSERT_TRUE(schedule.ok()) << schedule.message();
          SCOPED_TRACE(schedule->name);
          Policy plain = policy;
          plain.offload = Offload::kNone;
          EXPECT_EQ(CollectiveQueue(*schedule), CollectiveQueue(*BuildSchedule(model, plain)));
          const Program& program = schedule->programs.front();
          int copies = 0;
          for (OpIndex index = 0; index < std::ssize(program.ops); ++index) {
            const Op& op = program.ops[static_cast<size_t>(index)];
            if (op.kind == OpKind::kAccumulate) {
              EXPECT_NE(schedule->streams[static_cast<size_t>(op.stream)].role,
                        StreamRole::kHostOptimizer);
            }
            if (op.kind != OpKind::kCopyToHost) continue;
            ++copies;
            const Op& sum = program.ops[static_cast<size_t>(op.dependencies.front().target)];
            EXPECT_EQ(sum.kind, OpKind::kAllReduce);
            EXPECT_EQ(sum.dtype, DType::kFp32);
            EXPECT_TRUE(schedule->IsOfTensorRanks(sum.communicator));
            EXPECT_EQ(sum.writes, op.reads);
          }
          EXPECT_EQ(copies, std::ssize(schedule->units));
        }
      }
    }
  }
}

// The optimizer's state alone, with what it updates: the rank gathers from a copy of its own.
TEST(OffloadOptimizer, RenewsTheRanksCopyAfterTheUpdate) {
  Policy policy = Offloaded();
  policy.offload = Offload::kOptimizer;
  const Schedule schedule = Build(policy);
  const Schedule plain = Build(TwoRanks(Preset::kFsdp2));
  EXPECT_EQ(CollectiveQueue(schedule), CollectiveQueue(plain));
  EXPECT_THAT(OpsBetween(schedule, "O block0 optimizer", "O block1 optimizer"),
              ElementsAre(HasSubstr("O block0 optimizer"),
                          HasSubstr("O block0 copy_to_device <- O block0 optimizer"),
                          HasSubstr("O block1 optimizer")));
  const MemoryPeak peak = PredictPeak(schedule, 0);
  int64_t elements = 0;
  for (const Unit& unit : schedule.units) elements += UnitElements(unit);
  EXPECT_EQ(peak.by_category[static_cast<size_t>(MemoryCategory::kHost)], 16 * elements / 2);
  const auto of = [&](MemoryCategory category) {
    return peak.by_category[static_cast<size_t>(category)];
  };
  EXPECT_EQ(of(MemoryCategory::kParameterShard), 4 * elements / 2);
  EXPECT_EQ(of(MemoryCategory::kGradientShard) + of(MemoryCategory::kOptimizer), 0);
}

// ZeRO gathers what has come back from the host, in the dtype of compute.
TEST(OffloadOptimizer, ComesBackBeforeZeroGathersIt) {
  for (const char* strategy : {"zero1", "zero2"}) {
    SCOPED_TRACE(strategy);
    Policy policy = TwoRanks(Preset::kFsdp2);
    policy.strategy = FindStrategy(strategy);
    policy.param_dtype = policy.reduce_dtype = DType::kBf16;
    policy.offload = Offload::kOptimizer;
    const Schedule schedule = Build(policy);
    EXPECT_THAT(OpsBetween(schedule, "O block0 optimizer", "O block1 optimizer"),
                ElementsAre(HasSubstr("O block0 optimizer"),
                            HasSubstr("O block0 copy_to_device <- O block0 optimizer"),
                            HasSubstr("O block0 all_gather <- O block0 copy_to_device"),
                            HasSubstr("O block1 optimizer")));
    const MemoryPeak peak = PredictPeak(schedule, 0);
    for (const MemoryCategory category :
         {MemoryCategory::kParameterShard, MemoryCategory::kGradientShard,
          MemoryCategory::kOptimizer}) {
      EXPECT_EQ(peak.by_category[static_cast<size_t>(category)], 0);
    }
  }
}

// Between uses as without, each copy in front of its gather; what every rank has whole stays there,
// and its copy is renewed.
TEST(Offload, OfZero3BringsWhatIsSplit) {
  for (const bool clips : {true, false}) {
    SCOPED_TRACE(clips);
    Policy plain = TwoRanks(Preset::kFsdp2);
    plain.strategy = FindStrategy("zero3");
    plain.param_dtype = plain.reduce_dtype = DType::kBf16;
    Policy policy = plain;
    policy.offload = Offload::kAll;
    policy.update.clips = clips;
    const Schedule schedule = Build(policy);
    EXPECT_EQ(CollectiveQueue(schedule), CollectiveQueue(Build(plain)));
    EXPECT_EQ(schedule.name, clips ? "zero3 offload" : "zero3 offload early");
    int gathers = 0;
    for (const Op& op : schedule.programs.front().ops) {
      if (op.kind != OpKind::kCast || op.unit == kNone) continue;
      ++gathers;
      const Op& copy =
          schedule.programs.front().ops[static_cast<size_t>(op.dependencies.back().target)];
      EXPECT_EQ(copy.kind, OpKind::kCopyToDevice);
      EXPECT_EQ(copy.unit, op.unit);
      EXPECT_EQ(copy.phase, op.phase);
      EXPECT_EQ(op.frees, copy.allocates);
    }
    EXPECT_GT(gathers, 0);
    const MemoryPeak peak = PredictPeak(schedule, 0);
    EXPECT_EQ(peak.by_category[static_cast<size_t>(MemoryCategory::kGradientShard)], 0);
    EXPECT_EQ(peak.by_category[static_cast<size_t>(MemoryCategory::kOptimizer)], 0);
  }
}

TEST(OffloadOptimizer, NeedsAStateThatIsSharded) {
  for (const char* strategy : {"ddp", "no_shard", "tensor"}) {
    Policy policy = Offloaded();
    policy.offload = Offload::kOptimizer;
    policy.strategy = FindStrategy(strategy);
    policy.mesh = policy.strategy->MeshOf(2);
    EXPECT_THAT(
        BuildSchedule(UniformModel(3, false, 1, policy.mesh.size(MeshDimension::kTensor)), policy)
            .message(),
        HasSubstr("only strategies that shard optimizer state"))
        << strategy;
  }
}

TEST(Offload, IsOfShardsThatComeAndGo) {
  for (const char* strategy : {"ddp", "zero2", "no_shard", "tensor"}) {
    Policy policy = Offloaded();
    policy.strategy = FindStrategy(strategy);
    policy.mesh = policy.strategy->MeshOf(2);
    EXPECT_THAT(
        BuildSchedule(UniformModel(3, false, 1, policy.mesh.size(MeshDimension::kTensor)), policy)
            .message(),
        HasSubstr("have shards in the host's memory"))
        << strategy;
  }
  EXPECT_THAT(BuildSchedule(UniformModel(3, false), Offloaded(Preset::kDoubleBuffer)).message(),
              HasSubstr("have shards in the host's memory"));
}

}  // namespace
}  // namespace shardscope::plan
