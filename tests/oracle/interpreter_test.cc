// The interpreter itself: it finds planted harm, and shows none where there is none.
#include "tests/oracle/interpreter.h"

#include <gmock/gmock.h>

#include <set>

#include "engine/plan/policy.h"
#include "engine/plan/schedule_test_util.h"
#include "engine/plan/uniform_model.h"
#include "tests/oracle/bytes.h"
#include "tests/oracle/reference.h"
#include "tests/oracle/witness.h"

namespace shardscope::oracle {
namespace {

using plan::Op;
using plan::OpIndex;
using plan::OpKind;
using testing::Contains;
using testing::Each;
using testing::Field;
using testing::IsEmpty;
using testing::SizeIs;

constexpr int kInterleavings = 50;

plan::Schedule Valid() { return plan::Build(plan::TwoRanks(plan::Preset::kFsdp2)); }

// Every harm that shows in some interleaving.
std::set<Harm> HarmsOf(const plan::Schedule& schedule) {
  std::set<Harm> harms;
  Interpreter interpreter(schedule);
  for (uint64_t seed = 0; seed < kInterleavings; ++seed) {
    const Priorities order = RandomOrder(schedule, interpreter.graph(), seed);
    for (const Finding& finding : interpreter.Run(order).findings) harms.insert(finding.harm);
  }
  return harms;
}

class PlantedHarm : public testing::Test {
 protected:
  Op& Named(const std::string& name) {
    return schedule_.programs.back().ops[static_cast<size_t>(plan::IndexOf(schedule_, name))];
  }
  // From here on, Named() changes rank 1 only.
  void SplitRanks() {
    schedule_.programs.push_back(schedule_.programs.front());
    schedule_.program_of_rank = {0, 1};
  }
  plan::Schedule schedule_ = Valid();
};

TEST_F(PlantedHarm, NoneInAValidSchedule) {
  EXPECT_THAT(HarmsOf(schedule_), IsEmpty());
  EXPECT_THAT(CheckBytes(schedule_), IsEmpty());
}

TEST_F(PlantedHarm, MissingFreeLeaksItsBuffer) {
  Op& reshard = Named("B m0 block1 reshard");
  const plan::BufferId buffer = reshard.frees.front();
  reshard.frees.clear();
  Interpreter interpreter(schedule_);
  const Outcome outcome = interpreter.Run(RandomOrder(schedule_, interpreter.graph(), 1));
  ASSERT_THAT(outcome.findings, SizeIs(2));  // on both ranks
  EXPECT_THAT(outcome.findings, Each(Field(&Finding::harm, Harm::kLeak)));
  EXPECT_THAT(outcome.findings, Each(Field(&Finding::buffer, buffer)));
}

TEST_F(PlantedHarm, DroppedWaitShowsOnlyInSomeInterleavings) {
  Named("F m0 block1 copy_out").dependencies.clear();
  Interpreter interpreter(schedule_);
  int num_harmless = 0;
  for (uint64_t seed = 0; seed < kInterleavings; ++seed) {
    const Outcome outcome = interpreter.Run(RandomOrder(schedule_, interpreter.graph(), seed));
    if (outcome.findings.empty()) ++num_harmless;
  }
  EXPECT_GT(num_harmless, 0);
  EXPECT_LT(num_harmless, kInterleavings);
}

TEST_F(PlantedHarm, EarlyFreeIsAUseOfDeadMemory) {
  Op& reshard = Named("B m0 block1 reshard");
  Named("B m0 block1 copy_out").frees = reshard.frees;
  reshard.frees.clear();
  EXPECT_THAT(HarmsOf(schedule_), Contains(Harm::kDeadUse));
}

TEST_F(PlantedHarm, DoubleFree) {
  Named("B m0 block0 reshard").frees.push_back(Named("B m0 block1 reshard").frees.front());
  EXPECT_THAT(HarmsOf(schedule_), Contains(Harm::kBadFree));
}

TEST_F(PlantedHarm, FreeOfAPersistentBuffer) {
  Named("O block1 optimizer").frees.push_back(0);
  EXPECT_THAT(HarmsOf(schedule_), Contains(Harm::kBadFree));
}

TEST_F(PlantedHarm, DoubleAllocation) {
  Op& copy = Named("F m0 block1 copy_out");
  Named("F m0 block1.mlp forward").allocates.push_back(copy.allocates.front());
  EXPECT_THAT(HarmsOf(schedule_), Contains(Harm::kDoubleAllocation));
}

TEST_F(PlantedHarm, ReadOfWhatNobodyWrote) {
  Named("F m0 block1 copy_in").writes.clear();
  EXPECT_THAT(HarmsOf(schedule_), Contains(Harm::kPoisonRead));
}

TEST_F(PlantedHarm, WriteUnderARead) {
  // Nothing orders the backward on compute and the reduction that writes what it reads now.
  Named("B m0 block1.mlp backward")
      .reads.push_back(Named("B m0 block2 reduce_scatter").writes.front());
  EXPECT_THAT(HarmsOf(schedule_), Contains(Harm::kChangedUnderUse));
}

TEST_F(PlantedHarm, RanksThatMeetWithDifferentUnits) {
  SplitRanks();
  std::swap(Named("F m0 block0 all_gather").unit, Named("F m0 block1 all_gather").unit);
  EXPECT_THAT(HarmsOf(schedule_), Contains(Harm::kMismatch));
}

TEST_F(PlantedHarm, CollectiveWithoutPartnerStopsTheStep) {
  SplitRanks();
  schedule_.communicators.push_back({"second"});
  Named("O all_reduce").communicator = 1;
  const std::set<Harm> harms = HarmsOf(schedule_);
  EXPECT_THAT(harms, Contains(Harm::kNoPartner));
  EXPECT_THAT(harms, Contains(Harm::kDeadlock));
}

TEST_F(PlantedHarm, SizesThatDisagree) {
  ++Named("B m0 block1 reduce_scatter").wire_bytes;
  EXPECT_THAT(CheckBytes(schedule_), SizeIs(1));
  schedule_ = Valid();
  --schedule_.programs.front().buffers.front().bytes;
  EXPECT_THAT(CheckBytes(schedule_), Contains(Field(&Finding::buffer, 0)));
}

TEST_F(PlantedHarm, LostMicroBatchChangesTheResult) {
  plan::Policy policy = plan::TwoRanks(plan::Preset::kFsdp2);
  policy.micro_batches = 2;
  const plan::Schedule schedule = plan::Build(policy);
  Interpreter interpreter(schedule);
  const Value result = interpreter.Run(RandomOrder(schedule, interpreter.graph(), 1)).result;
  EXPECT_EQ(result, ReferenceResult(plan::UniformModel(3, true), policy));
  schedule_ = schedule;
  // Overwrites instead of adding: no memory is misused, only the numbers are wrong.
  Named("B m1 block1 accumulate").reads.pop_back();
  Interpreter wrong(schedule_);
  const Outcome outcome = wrong.Run(RandomOrder(schedule_, wrong.graph(), 1));
  EXPECT_THAT(outcome.findings, IsEmpty());
  EXPECT_NE(outcome.result, result);
}

// Two collectives on one stream and two communicators, taken in opposite order by two ranks.
TEST(Deadlock, IsFoundAndConfirmsTheRefusal) {
  plan::Schedule schedule;
  schedule.mesh = plan::MeshOf(plan::MeshDimension::kShard, 2);
  schedule.streams = {{"host", plan::StreamRole::kHost}, {"a", plan::StreamRole::kAllReduce}};
  schedule.communicators = {{"x"}, {"y"}};
  schedule.program_of_rank = {0, 1};
  for (const bool swapped : {false, true}) {
    plan::Program& program = schedule.programs.emplace_back();
    for (const int32_t number : {0, 1}) {
      Op op;
      op.kind = OpKind::kAllReduce;
      op.dtype = plan::DType::kFp64;
      op.stream = 1;
      op.communicator = swapped ? 1 - number : number;
      op.payload_bytes = op.wire_bytes = 8;
      op.reads = op.writes = {op.communicator};
      program.ops.push_back(op);
      program.buffers.push_back({.bytes = 8, .persistent = true});
    }
  }
  EXPECT_THAT(HarmsOf(schedule), testing::ElementsAre(Harm::kDeadlock));
  const auto refusal = plan::FindRefusal(schedule);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->kind, plan::RefusalKind::kDeadlock);
  EXPECT_TRUE(Replay(schedule, *refusal).has_value());
}

// A validator that cries wolf would be seen: no refusal of a valid schedule can be replayed.
TEST(Replay, ConfirmsNoRefusalOfAValidSchedule) {
  const plan::Schedule schedule = Valid();
  const auto num_ops = static_cast<OpIndex>(schedule.programs.front().ops.size());
  for (int kind = 0; kind <= static_cast<int>(plan::RefusalKind::kOrder); ++kind) {
    for (OpIndex op = 0; op < num_ops; ++op) {
      plan::Refusal refusal;
      refusal.kind = static_cast<plan::RefusalKind>(kind);
      refusal.program = 0;
      refusal.op = op;
      refusal.other = (op + 7) % num_ops;
      EXPECT_FALSE(Replay(schedule, refusal).has_value());
    }
  }
}

// A validator that sees nothing would be seen: harm is found without its help.
TEST(SearchHarm, FindsMostDroppedDependenciesThatTheValidatorRefuses) {
  Random random(3);
  const plan::Schedule schedule = Valid();
  const Value expected =
      ReferenceResult(plan::UniformModel(3, true), plan::TwoRanks(plan::Preset::kFsdp2));
  int num_refused = 0;
  int num_found = 0;
  for (int number = 0; number < 100; ++number) {
    const auto mutant = Mutate(schedule, MutationKind::kDroppedDependency, random);
    ASSERT_TRUE(mutant.has_value());
    if (!plan::FindRefusal(mutant->schedule)) continue;
    ++num_refused;
    if (SearchHarm(*mutant, expected, kInterleavings)) ++num_found;
  }
  EXPECT_GT(num_refused, 20);
  EXPECT_GT(num_found, num_refused * 9 / 10);
}

}  // namespace
}  // namespace shardscope::oracle
