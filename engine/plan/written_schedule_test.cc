#include "engine/plan/written_schedule.h"

#include <gmock/gmock.h>

#include <map>
#include <random>
#include <set>

#include "engine/plan/schedule_test_util.h"
#include "engine/plan/strategy.h"
#include "engine/plan/text.h"
#include "engine/plan/validate.h"
#include "trace/base/output_file.h"

namespace shardscope::plan {
namespace {

using testing::HasSubstr;

Status Same(const Schedule& built, const Schedule& written) {
  return CheckSameWork(built, written, "mine.txt");
}

Schedule BuildWithoutPrefetch() {
  Policy policy = TwoRanks(Preset::kFsdp2);
  policy.backward_prefetch = BackwardPrefetch::kNone;
  return Build(policy);
}

TEST(WrittenSchedule, OrderWaitsAndLifetimesMayDiffer) {
  Policy policy = TwoRanks(Preset::kFsdp2);
  const Schedule built = Build(policy);
  policy.backward_prefetch = BackwardPrefetch::kNone;
  policy.forward_prefetch = 2;
  policy.prefetch_limit = 1;
  policy.run_ahead = 0;
  const Schedule other = Build(policy);
  ASSERT_NE(built.programs, other.programs);
  EXPECT_TRUE(Same(built, other).ok()) << Same(built, other).message();
}

TEST(WrittenSchedule, OtherWorkIsNamed) {
  const Schedule built = Build(TwoRanks(Preset::kFsdp2));
  Schedule written = built;
  const auto gather = static_cast<size_t>(IndexOf(built, "F m0 block1 all_gather"));
  Op& op = written.programs[0].ops[gather];
  const Op before = op;
  op.payload_bytes += 4;
  EXPECT_THAT(Same(built, written).message(),
              HasSubstr("mine.txt: it does other work than this run does: op 'F m0 block1 "
                        "all_gather' is another one"));
  op = before;
  op.stream = 1;  // of compute: no overlap, the same work
  EXPECT_TRUE(Same(built, written).ok());
  op.stream = 0;
  EXPECT_FALSE(Same(built, written).ok());
  op = before;
  written.programs[0].ops.push_back(before);
  EXPECT_THAT(Same(built, written).message(),
              HasSubstr("op 'F m0 block1 all_gather' is one too many"));
  written = built;
  written.programs[0].ops.erase(written.programs[0].ops.begin() + gather);
  EXPECT_THAT(Same(built, written).message(), HasSubstr("is there not at all instead of once"));
  written = built;
  written.programs[0].buffers.push_back({});
  EXPECT_THAT(Same(built, written).message(), HasSubstr("its buffers are other"));
  written = built;
  written.programs.emplace_back();  // of no rank
  EXPECT_THAT(Same(built, written).message(), HasSubstr("its programs are other"));
  written = built;
  written.units[1].parameters[0].shape[0] += 1;
  EXPECT_THAT(Same(built, written).message(), HasSubstr("its units are other than this run's"));
  EXPECT_THAT(Same(built, Build(TwoRanks(Preset::kFsdp1))).message(),
              HasSubstr("its streams are other"));
  written = built;
  MoveOp(0, 1, &written.programs[0]);
  EXPECT_THAT(Same(built, written).message(), HasSubstr("the first op has to be 'control'"));
  Policy halves = TwoRanks(Preset::kFsdp2);
  halves.micro_batches = 2;
  EXPECT_THAT(Same(built, Build(halves)).message(), HasSubstr("its micro-batches are other"));
}

// A reduction before all of the gradient is there reads no poison, and every use can be ordered: it
// is only not what a step is to compute.
TEST(WrittenSchedule, AnEarlierReductionIsOtherWork) {
  Policy policy = TwoRanks(Preset::kFsdp2);
  policy.strategy = FindStrategy("ddp");
  policy.mesh = policy.strategy->MeshOf(2);
  const Schedule built = Build(policy, false);
  Schedule written = built;
  Program& program = written.programs[0];
  const auto reduction = std::ranges::find_if(program.ops, [](const Op& op) {
    return op.kind == OpKind::kAllReduce && op.phase == Phase::kBackward;
  });
  ASSERT_NE(reduction, program.ops.end());
  // Its last writer comes behind it, and waits for it.
  auto at = static_cast<OpIndex>(reduction - program.ops.begin());
  OpIndex writer = at - 1;
  const BufferId gradient = reduction->writes.front();
  const auto writes = [&](OpIndex op) {
    const std::vector<BufferId>& ids = program.ops[static_cast<size_t>(op)].writes;
    return std::ranges::find(ids, gradient) != ids.end();
  };
  while (!writes(writer)) --writer;
  MoveOp(at, writer, &program);
  Op& late = program.ops[static_cast<size_t>(writer) + 1];
  late.dependencies.push_back({DependencyKind::kEvent, writer});
  Op& early = program.ops[static_cast<size_t>(writer)];
  std::erase_if(early.dependencies, [&](const Dependency& wait) { return wait.target > writer; });
  early.dependencies.push_back({DependencyKind::kEvent, writer - 1});
  EXPECT_THAT(Same(built, written).message(), HasSubstr("is written and read in another order"));
}

TEST(WrittenSchedule, MovedOpsKeepTheirWaits) {
  const Schedule built = Build(TwoRanks(Preset::kFsdp2));
  const Program& before = built.programs[0];
  const auto num_ops = static_cast<OpIndex>(before.ops.size());
  // What each op waits for, by name.
  const auto waits = [&](const Program& program) {
    std::map<std::string, std::multiset<std::string>> names;
    for (const Op& op : program.ops) {
      for (const Dependency& dependency : op.dependencies) {
        if (dependency.kind == DependencyKind::kStream) continue;
        names[OpName(built, op)].insert(
            OpName(built, program.ops[static_cast<size_t>(dependency.target)]));
      }
    }
    return names;
  };
  std::mt19937 random(7);
  Program moved = before;
  for (int move = 0; move < 200; ++move) {
    const auto from = static_cast<OpIndex>(random() % static_cast<uint32_t>(num_ops));
    const auto to = static_cast<OpIndex>(random() % static_cast<uint32_t>(num_ops));
    const Program last = moved;
    MoveOp(from, to, &moved);
    EXPECT_EQ(OpName(built, moved.ops[static_cast<size_t>(to)]),
              OpName(built, last.ops[static_cast<size_t>(from)]));
    EXPECT_EQ(waits(moved), waits(before));
    Program back = moved;
    MoveOp(to, from, &back);
    EXPECT_EQ(back, last);
  }
}

// The gather of the unit that comes next, issued before the one that is needed now: both are valid,
// and the text of the moved one reads back.
TEST(WrittenSchedule, AMovedGatherIsCheckedAndReadFromAFile) {
  const Schedule built = BuildWithoutPrefetch();
  Schedule written = built;
  Program& program = written.programs[0];
  const OpIndex gather = IndexOf(written, "B m0 block1 all_gather");
  const OpIndex forward = IndexOf(written, "B m0 block2.mlp backward");
  ASSERT_GT(gather, forward);
  MoveOp(gather, forward, &program);
  // Its copy-in is still behind it: it would read what is not written.
  EXPECT_FALSE(Validate(written).ok());
  MoveOp(IndexOf(written, "B m0 block1 copy_in"), forward, &program);
  ASSERT_TRUE(Validate(written).ok()) << Validate(written).message();
  const std::string path = testing::TempDir() + "/moved_schedule.txt";
  ASSERT_TRUE(WriteFile(path, PrintSchedule(written)).ok());
  const Result<Schedule> read = ReadSchedule(path);
  ASSERT_TRUE(read.ok()) << read.message();
  EXPECT_EQ(*read, written);
  EXPECT_TRUE(Same(built, *read).ok()) << Same(built, *read).message();
  EXPECT_LT(IndexOf(*read, "B m0 block1 all_gather"), IndexOf(*read, "B m0 block2.mlp backward"));
}

// A gather takes its copy-in along, and what waits for an op goes behind it.
TEST(WrittenSchedule, OpsMoveWithWhatTheyNeed) {
  const Schedule built = BuildWithoutPrefetch();
  Schedule written = built;
  Program& program = written.programs[0];
  OpIndex gather = IndexOf(built, "B m0 block1 all_gather");
  ASSERT_EQ(IndexOf(built, "B m0 block1 copy_in"), gather - 1);
  int moves = 0;
  while (IndexOf(written, "B m0 block2.mlp backward") < gather) {
    gather = IssueEarlier(gather, &program);
    ASSERT_EQ(IndexOf(written, "B m0 block1 all_gather"), gather);
    ASSERT_EQ(IndexOf(written, "B m0 block1 copy_in"), gather - 1);
    ++moves;
  }
  EXPECT_TRUE(Validate(written).ok()) << Validate(written).message();
  EXPECT_TRUE(Same(built, written).ok());
  for (; moves > 0; --moves) {
    const OpIndex copy_in = IssueLater(gather - 1, &program);
    ASSERT_EQ(copy_in, gather);
    ++gather;
  }
  EXPECT_EQ(written, built);
  EXPECT_EQ(IssueEarlier(0, &program), 0);
  EXPECT_EQ(IssueEarlier(1, &program), 1);  // behind the first op, which stays
  EXPECT_EQ(IssueLater(0, &program), 0);
  const auto last = static_cast<OpIndex>(program.ops.size()) - 1;
  EXPECT_EQ(IssueLater(last, &program), last);
  EXPECT_EQ(written, built);
}

TEST(WrittenSchedule, AFileThatCannotBeRunIsRefusedByName) {
  EXPECT_THAT(ReadSchedule("/nowhere/mine.txt").message(), HasSubstr("/nowhere/mine.txt"));
  Schedule written = Build(TwoRanks(Preset::kFsdp2));
  MoveOp(IndexOf(written, "F m0 block1 all_gather"),
         static_cast<OpIndex>(written.programs[0].ops.size()) - 1, &written.programs[0]);
  const std::string path = testing::TempDir() + "/refused_schedule.txt";
  ASSERT_TRUE(WriteFile(path, PrintSchedule(written)).ok());
  EXPECT_THAT(ReadSchedule(path).message(),
              testing::AllOf(HasSubstr(path + ": "), HasSubstr("block1")));
}

}  // namespace
}  // namespace shardscope::plan
