// Valid schedules with one thing broken: the validator must refuse each, and name the op.
#include "engine/plan/validate.h"

#include <gmock/gmock.h>

#include <limits>
#include <utility>

#include "engine/plan/schedule_test_util.h"
#include "engine/plan/text.h"
#include "engine/plan/uniform_model.h"

namespace shardscope::plan {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

Op& OpNamed(Schedule& schedule, const std::string& name) {
  return schedule.programs.front().ops[static_cast<size_t>(IndexOf(schedule, name))];
}

std::string ErrorOf(const Schedule& schedule) { return Validate(schedule).message(); }

// Drops every dependency in turn; returns the ops whose dependency was not missed.
std::vector<std::string> RedundantWaits(Schedule schedule) {
  std::vector<std::string> redundant;
  for (Op& op : schedule.programs.front().ops) {
    for (size_t at = 0; at < op.dependencies.size(); ++at) {
      const std::vector<Dependency> all = op.dependencies;
      op.dependencies.erase(op.dependencies.begin() + static_cast<std::ptrdiff_t>(at));
      const Status status = Validate(schedule);
      if (status.ok()) {
        redundant.push_back(OpName(schedule, op));
      } else {
        EXPECT_THAT(status.message(), HasSubstr("no dependency orders them"));
      }
      op.dependencies = all;
    }
  }
  return redundant;
}

// Each wait that may be dropped within one step is listed, with its reason.
TEST(DroppedDependency, Fsdp2NeedsAllButTheWaitsForMemoryAndForTheLastStep) {
  EXPECT_THAT(
      RedundantWaits(Build(TwoRanks(Preset::kFsdp2))),
      ElementsAre(
          // Both for the optimizer of the step before.
          "F m0 root copy_in", "F m0 root all_gather",
          // Outputs are freed on the copy-in stream; that of all-gathers waits as FSDP2's does.
          "F m0 root wait", "F m0 block0 wait", "F m0 block1 wait", "F m0 block2 wait",
          "B m0 block2 wait", "B m0 block1 wait", "B m0 block0 wait"));
}

TEST(DroppedDependency, Fsdp1NeedsAllButTheWaitForTheLastStep) {
  EXPECT_THAT(RedundantWaits(Build(TwoRanks(Preset::kFsdp1))), ElementsAre("F m0 root all_gather"));
}

TEST(DroppedDependency, NoShardNeedsAllButTheNormWait) {
  Policy policy = TwoRanks(Preset::kFsdp2);
  policy.strategy = FindStrategy("no_shard");
  policy.mesh = policy.strategy->MeshOf(2);
  // The norm is not reduced: the optimizer follows it on the same stream.
  EXPECT_THAT(RedundantWaits(Build(policy)), ElementsAre("O root optimizer"));
}

// Ranks that share a layer's work and the sequence; with stages, of which the last one's program.
Schedule PartsOfTheSequence(int stages) {
  Policy policy;
  policy.strategy = FindStrategy(stages == 1 ? "tensor" : "pipeline");
  policy.pipeline = PipelineSchedule::k1F1B;
  policy.mesh = {{stages, 1, 1, 2}};
  policy.units.stages = stages;
  policy.units.sequence_parallel = true;
  policy.tensor_async = true;
  Schedule schedule = BuildSchedule(UniformModel(2, false, stages, 2, true), policy).value();
  std::swap(schedule.programs.front(), schedule.programs.back());
  for (int32_t& program : schedule.program_of_rank) program = stages - 1 - program;
  return schedule;
}

TEST(DroppedDependency, PartsOfTheSequenceNeedTheFirstOfEach) {
  // Those of the norm are on the compute stream here; of the gradients one follows the other.
  EXPECT_THAT(RedundantWaits(PartsOfTheSequence(1)),
              ElementsAre("B block0 all_reduce", "B block1 all_reduce", "B head all_reduce",
                          "O all_reduce", "O embedding optimizer"));
  EXPECT_THAT(RedundantWaits(PartsOfTheSequence(2)),
              ElementsAre("B head all_reduce", "O all_reduce", "O block1 optimizer"));
}

TEST(DroppedDependency, MessageNamesOpBufferAndMarksTheOpInAGrid) {
  Schedule schedule = Build(TwoRanks(Preset::kFsdp2));
  OpNamed(schedule, "F m0 block1 copy_out").dependencies.clear();
  const std::string error = ErrorOf(schedule);
  EXPECT_THAT(error, StartsWith("op " + std::to_string(IndexOf(schedule, "F m0 block1 copy_out")) +
                                " 'F m0 block1 copy_out' may "));
  EXPECT_THAT(error,
              AllOf(HasSubstr("'block1 m0 all_gather_output'"),
                    HasSubstr("before op 14 'F m0 block1 copy_in'"), HasSubstr("reduce_scatter")));
  // One row is marked, and it is the op's.
  const size_t mark = error.find("\n>");
  ASSERT_NE(mark, std::string::npos);
  EXPECT_EQ(error.find("\n>", mark + 1), std::string::npos);
  const std::string row = error.substr(mark, error.find('\n', mark + 1) - mark);
  EXPECT_THAT(row, HasSubstr("F m0 block1 copy_out"));
}

class Mutation : public testing::Test {
 protected:
  Schedule schedule_ = Build(TwoRanks(Preset::kFsdp2));
  Op& Named(const std::string& name) { return OpNamed(schedule_, name); }
};

TEST_F(Mutation, EarlyFree) {
  Op& release = Named("F m0 block1 release");
  Named("F m0 block1 all_gather").frees = release.frees;
  release.frees.clear();
  EXPECT_THAT(ErrorOf(schedule_),
              AllOf(StartsWith("op " + std::to_string(IndexOf(schedule_, "F m0 block1 copy_out"))),
                    HasSubstr("after op"), HasSubstr("'F m0 block1 all_gather' has freed it")));
}

TEST_F(Mutation, MissingFree) {
  Named("B m0 block1 reshard").frees.clear();
  EXPECT_THAT(ErrorOf(schedule_),
              AllOf(HasSubstr("'B m0 block1 copy_out' allocates"), HasSubstr("a leak")));
}

TEST_F(Mutation, DoubleFree) {
  Named("B m0 block0 reshard").frees = Named("B m0 block1 reshard").frees;
  EXPECT_THAT(ErrorOf(schedule_), HasSubstr("'B m0 block0 reshard' frees buffer"));
}

TEST_F(Mutation, DoubleAllocation) {
  Op& gather = Named("F m0 block1 all_gather");
  gather.allocates = gather.reads;
  EXPECT_THAT(ErrorOf(schedule_),
              AllOf(HasSubstr("'F m0 block1 all_gather' allocates"), HasSubstr("again, after op")));
}

TEST_F(Mutation, NoAllocation) {
  Named("F m0 block1 copy_out").allocates.clear();
  EXPECT_THAT(ErrorOf(schedule_), HasSubstr("which no op allocates"));
}

TEST_F(Mutation, FreeOfAPersistentBuffer) {
  Named("O block1 optimizer").frees.push_back(0);
  EXPECT_THAT(ErrorOf(schedule_), HasSubstr("'O block1 optimizer' frees persistent buffer 0"));
}

TEST_F(Mutation, ReadBeforeWrite) {
  Named("F m0 block1 copy_in").writes.clear();
  EXPECT_THAT(ErrorOf(schedule_),
              AllOf(HasSubstr("'F m0 block1 all_gather' reads"), HasSubstr("no op has written")));
}

TEST_F(Mutation, WriteWhileAnotherStreamReads) {
  // The reduce-scatter's stream writes what the gather's copy-in reads.
  Named("B m0 block2 reduce_scatter").writes = Named("B m0 block0 copy_in").reads;
  EXPECT_FALSE(Validate(schedule_).ok());
}

TEST_F(Mutation, WritesThatRace) {
  // Writes the gradient shard on compute while block2's reduction may still run.
  Named("B m0 block1.mlp backward")
      .writes.push_back(Named("B m0 block2 reduce_scatter").writes.front());
  EXPECT_THAT(ErrorOf(schedule_),
              AllOf(HasSubstr("'B m0 block1.mlp backward' writes"),
                    HasSubstr("'B m0 block2 reduce_scatter' may still write it")));
}

TEST_F(Mutation, WrongWireBytes) {
  Named("B m0 block1 reduce_scatter").wire_bytes += 1;
  EXPECT_THAT(ErrorOf(schedule_),
              AllOf(HasSubstr("'B m0 block1 reduce_scatter' has"), HasSubstr("wire bytes")));
}

TEST_F(Mutation, PayloadThatIsNotTheBuffer) {
  Op& op = Named("B m0 block1 reduce_scatter");
  op.payload_bytes *= 2;
  op.wire_bytes *= 2;
  EXPECT_THAT(ErrorOf(schedule_), AllOf(HasSubstr("'B m0 block1 reduce_scatter' has a payload"),
                                        HasSubstr("but its buffer holds")));
}

// Sums of what a file says must not overflow.
TEST_F(Mutation, SizesThatCannotBe) {
  const std::vector<Buffer> buffers = schedule_.programs.front().buffers;
  for (const int64_t bytes : {int64_t{-1}, std::numeric_limits<int64_t>::max()}) {
    schedule_.programs.front().buffers.back().bytes = bytes;
    EXPECT_THAT(ErrorOf(schedule_), HasSubstr("size that cannot be")) << bytes;
    schedule_.programs.front().buffers = buffers;
    OpNamed(schedule_, "O all_reduce").payload_bytes = bytes;
    EXPECT_THAT(ErrorOf(schedule_), HasSubstr("bytes, which cannot be")) << bytes;
    OpNamed(schedule_, "O all_reduce").payload_bytes = 8;
    EXPECT_EQ(ErrorOf(schedule_), "");
  }
  // Each alone would do.
  for (Buffer& buffer : schedule_.programs.front().buffers) buffer.bytes = int64_t{1} << 60;
  EXPECT_THAT(ErrorOf(schedule_), HasSubstr("size that cannot be"));
}

TEST_F(Mutation, MoreStreamsThanCanBeChecked) {
  schedule_.streams.resize(256, {"more", StreamRole::kCopy});
  EXPECT_EQ(ErrorOf(schedule_), "");
  schedule_.streams.emplace_back();
  EXPECT_THAT(ErrorOf(schedule_), HasSubstr("at most 256 streams, not 257"));
}

TEST_F(Mutation, UnknownCommunicator) {
  Named("B m0 block1 reduce_scatter").communicator = 1;
  EXPECT_THAT(ErrorOf(schedule_),
              HasSubstr("'B m0 block1 reduce_scatter' is on communicator 1, which does not exist"));
}

TEST_F(Mutation, WaitForALaterOp) {
  const OpIndex later = IndexOf(schedule_, "B m0 block1 reshard");
  Named("F m0 block1 copy_out").dependencies.push_back({DependencyKind::kHost, later});
  EXPECT_THAT(ErrorOf(schedule_),
              AllOf(HasSubstr("'F m0 block1 copy_out' waits for op"), HasSubstr("a deadlock")));
}

TEST_F(Mutation, IndicesThatNameNothing) {
  Op& op = Named("F m0 block1 copy_out");
  const Op original = op;
  op.stream = 9;
  EXPECT_THAT(ErrorOf(schedule_), HasSubstr("is on stream 9, which does not exist"));
  op = original;
  op.reads = {9999};
  EXPECT_THAT(ErrorOf(schedule_), HasSubstr("names buffer 9999, which does not exist"));
  op = original;
  op.unit = -7;
  EXPECT_THAT(ErrorOf(schedule_), HasSubstr("names unit -7, which does not exist"));
  op = original;
  op.dependencies = {{DependencyKind::kStream, -1}};
  EXPECT_THAT(ErrorOf(schedule_), HasSubstr("waits for stream -1, which does not exist"));
  op = original;
  schedule_.program_of_rank = {0};
  EXPECT_THAT(ErrorOf(schedule_), HasSubstr("has 2 ranks"));
}

class TwoPrograms : public testing::Test {
 protected:
  // Rank 1 runs a program of its own, so far the same.
  void SetUp() override {
    schedule_.programs.push_back(schedule_.programs.front());
    schedule_.program_of_rank = {0, 1};
  }
  Schedule schedule_ = Build(TwoRanks(Preset::kFsdp2));
};

TEST_F(TwoPrograms, ThatAreEqualAreFine) { EXPECT_EQ(ErrorOf(schedule_), ""); }

TEST_F(TwoPrograms, OneWithoutPrefetchSwapsCollectives) {
  Policy policy = TwoRanks(Preset::kFsdp2);
  policy.backward_prefetch = BackwardPrefetch::kNone;
  schedule_.programs[1] = Build(policy).programs[0];
  // Queue of rank 0: AG3 AG2 RS3, of rank 1: AG3 RS3 AG2.
  EXPECT_THAT(ErrorOf(schedule_),
              AllOf(HasSubstr("'B m0 block2 reduce_scatter' does not match"),
                    HasSubstr("'B m0 block1 all_gather'"), HasSubstr("(rank 1)")));
}

TEST_F(TwoPrograms, SwappedUnitsOfEqualSize) {
  std::vector<Op>& ops = schedule_.programs[1].ops;
  const auto first = static_cast<size_t>(IndexOf(schedule_, "F m0 block0 all_gather"));
  const auto second = static_cast<size_t>(IndexOf(schedule_, "F m0 block1 all_gather"));
  std::swap(ops[first].unit, ops[second].unit);
  EXPECT_THAT(ErrorOf(schedule_), AllOf(HasSubstr("'F m0 block1 all_gather' does not match"),
                                        HasSubstr("'F m0 block0 all_gather'")));
}

TEST_F(TwoPrograms, AnotherDtypeOnOneRank) {
  schedule_.programs[1].ops[static_cast<size_t>(IndexOf(schedule_, "O all_reduce"))].dtype =
      DType::kFp32;
  EXPECT_THAT(ErrorOf(schedule_), HasSubstr("'O all_reduce' does not match"));
}

TEST_F(TwoPrograms, CollectiveOnAnotherCommunicatorHasNoPartner) {
  schedule_.communicators.push_back({"second"});
  schedule_.programs[1].ops[static_cast<size_t>(IndexOf(schedule_, "O all_reduce"))].communicator =
      1;
  EXPECT_THAT(ErrorOf(schedule_), AllOf(HasSubstr("'O all_reduce' has no partner"),
                                        HasSubstr("on communicator 'shard'")));
}

// Two all-reduces on one stream and two communicators.
Program TwoCollectives(CommunicatorIndex first, CommunicatorIndex second) {
  Program program;
  for (const CommunicatorIndex communicator : {first, second}) {
    Op op;
    op.kind = OpKind::kAllReduce;
    op.stream = 1;
    op.communicator = communicator;
    op.payload_bytes = 8;
    op.wire_bytes = 8;
    op.reads = op.writes = {communicator};
    program.ops.push_back(op);
    Buffer buffer;
    buffer.bytes = 8;
    buffer.persistent = true;
    program.buffers.push_back(buffer);
  }
  return program;
}

// Ranks 0 and 1 are the first stage, 2 and 3 the second; "shard" joins the ranks of a stage,
// "stages" those of the same place in them.
Schedule TwoStages() {
  Schedule schedule;
  schedule.mesh = {{2, 1, 2, 1}};
  schedule.streams = {
      {"host", StreamRole::kHost}, {"a", StreamRole::kAllReduce}, {"b", StreamRole::kAllReduce}};
  schedule.communicators = {{"shard", Only(MeshDimension::kShard)},
                            {"stages", Only(MeshDimension::kPipeline)}};
  schedule.programs = {TwoCollectives(0, 1), TwoCollectives(0, 1)};
  schedule.program_of_rank = {0, 0, 1, 1};
  return schedule;
}

TEST(Groups, OnlyRanksOfAGroupHaveToMatch) {
  Schedule schedule = TwoStages();
  EXPECT_EQ(ErrorOf(schedule), "");
  // Another payload on the second stage: that stage agrees with itself.
  Program& second = schedule.programs[1];
  second.ops[0].payload_bytes = second.ops[0].wire_bytes = second.buffers[0].bytes = 16;
  EXPECT_EQ(ErrorOf(schedule), "");
  // Between the stages it does not.
  second.ops[1].payload_bytes = second.ops[1].wire_bytes = second.buffers[1].bytes = 16;
  EXPECT_THAT(ErrorOf(schedule),
              AllOf(HasSubstr("does not match"), HasSubstr("on communicator 'stages' is"),
                    HasSubstr("(rank 2)")));
}

TEST(PartsOfTheSequence, HaveTheSizeOfTheirWhole) {
  Schedule schedule = PartsOfTheSequence(1);
  ASSERT_EQ(ErrorOf(schedule), "");
  EXPECT_TRUE(ParseSchedule(PrintSchedule(schedule)).value() == schedule);
  const auto refused = [&](const std::string& name, int64_t bytes) {
    Schedule broken = schedule;
    Op& op = OpNamed(broken, name);
    op.payload_bytes += bytes;
    op.wire_bytes = WireBytes(op.kind, op.payload_bytes, 2);
    return ErrorOf(broken);
  };
  EXPECT_THAT(refused("F m0 block0.mlp reduce_scatter", 1), HasSubstr("cannot have equal parts"));
  EXPECT_THAT(refused("F m0 block0.mlp reduce_scatter", 2), HasSubstr("but its buffer holds"));
  EXPECT_THAT(refused("B m0 block0.mlp all_gather", -2), HasSubstr("but its buffer holds"));
  EXPECT_THAT(refused("B block0 all_reduce", 4), HasSubstr("what is not split of its unit"));
}

TEST(Groups, AWireIsThatOfTheGroup) {
  Schedule schedule = TwoStages();
  schedule.programs[0].ops[0].wire_bytes = 12;  // of four ranks
  EXPECT_THAT(ErrorOf(schedule), HasSubstr("a payload of 8 on 2 ranks sends 8"));
}

TEST(Groups, RanksOfOneProgramWaitForTheirOwnGroups) {
  Schedule schedule = TwoStages();
  schedule.programs[1] = TwoCollectives(1, 0);  // in the other order
  schedule.program_of_rank = {0, 0, 1, 1};
  EXPECT_EQ(ErrorOf(schedule), "");
  schedule.program_of_rank = {0, 0, 0, 1};
  EXPECT_EQ(ErrorOf(schedule), "");
  // 0 waits for 2 in "stages", 2 for 3 in "shard", 3 for 1 in "stages", 1 for 0 in "shard".
  schedule.program_of_rank = {1, 0, 0, 1};
  EXPECT_THAT(ErrorOf(schedule), HasSubstr("the ranks wait for each other, a deadlock"));
  schedule.programs[1].ops[1].stream = 2;
  EXPECT_EQ(ErrorOf(schedule), "");
}

TEST(Groups, ACommunicatorNeedsADimension) {
  Schedule schedule = TwoStages();
  schedule.communicators[1].dimensions = 0;
  EXPECT_THAT(ErrorOf(schedule), HasSubstr("communicator 'stages' has no dimension of the mesh"));
}

TEST(Deadlock, CommunicatorsTakenInOppositeOrder) {
  Schedule schedule;
  schedule.mesh = MeshOf(MeshDimension::kShard, 2);
  schedule.streams = {
      {"host", StreamRole::kHost}, {"a", StreamRole::kAllReduce}, {"b", StreamRole::kAllReduce}};
  schedule.communicators = {{"x"}, {"y"}};
  schedule.programs = {TwoCollectives(0, 1), TwoCollectives(0, 1)};
  schedule.program_of_rank = {0, 1};
  EXPECT_EQ(ErrorOf(schedule), "");
  schedule.programs[1] = TwoCollectives(1, 0);
  EXPECT_THAT(ErrorOf(schedule), HasSubstr("the ranks wait for each other, a deadlock"));
  // On a stream each they can pass one another, unless the host waits in between.
  schedule.programs[1].ops[1].stream = 2;
  schedule.programs[0].ops[1].stream = 2;
  EXPECT_EQ(ErrorOf(schedule), "");
  for (Program& program : schedule.programs) {
    program.ops[1].dependencies = {{DependencyKind::kHost, 0}};
  }
  EXPECT_THAT(ErrorOf(schedule), HasSubstr("the ranks wait for each other, a deadlock"));
}

}  // namespace
}  // namespace shardscope::plan
