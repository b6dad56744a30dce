#include "engine/plan/schedule.h"

#include <gmock/gmock.h>

#include "engine/plan/schedule_test_util.h"

namespace shardscope::plan {
namespace {

using testing::ElementsAre;

Op OnStream(StreamIndex stream, std::vector<Dependency> dependencies = {}) {
  Op op;
  op.stream = stream;
  op.dependencies = std::move(dependencies);
  return op;
}

TEST(Predecessors, AreStreamCommunicatorEventsAndResolvedStreamWaits) {
  Program program;
  program.ops = {OnStream(1),
                 OnStream(2),
                 OnStream(2, {{DependencyKind::kStream, 3}}),
                 OnStream(1, {{DependencyKind::kStream, 2}, {DependencyKind::kEvent, 2}}),
                 OnStream(3, {{DependencyKind::kHost, 3}, {DependencyKind::kEvent, 1}}),
                 OnStream(2)};
  for (const size_t collective : {0u, 5u}) program.ops[collective].communicator = 0;
  EXPECT_THAT(AllPredecessors(program),
              ElementsAre(ElementsAre(), ElementsAre(), ElementsAre(1), ElementsAre(0, 2),
                          // A host wait holds back the issue, not the stream.
                          ElementsAre(1), ElementsAre(0, 2)));
  EXPECT_EQ(ResolveDependency(program, 3, {DependencyKind::kStream, 2}), 2);
  EXPECT_EQ(ResolveDependency(program, 3, {DependencyKind::kEvent, 0}), 0);
  EXPECT_EQ(ResolveDependency(program, 2, {DependencyKind::kStream, 3}), kNone);
}

TEST(Names, SayWhatIsDoneWhere) {
  const Schedule schedule = Build(TwoRanks(Preset::kFsdp2));
  Op op;
  op.kind = OpKind::kAllGather;
  op.phase = Phase::kBackward;
  op.micro_batch = 0;
  op.unit = 3;
  EXPECT_EQ(OpName(schedule, op), "B m0 block2 all_gather");
  op.unit = 17;  // names are made for broken schedules too
  EXPECT_EQ(OpName(schedule, op), "B m0 ?17 all_gather");
  EXPECT_EQ(BufferName(schedule, {BufferKind::kUnsharded, 3, kNone, 0, 0, false}),
            "block2 m0 unsharded");
  EXPECT_EQ(BufferName(schedule, {BufferKind::kActivation, kNone, 2, 1, 0, false}),
            "block0.mlp m1 activation");
}

TEST(ModelDescription, TheLastRanksOwnFewerRowsOrNone) {
  const Parameter parameter = {"w", {5, 3}};
  EXPECT_EQ(PaddedRows(parameter, 4), 2);
  EXPECT_THAT((std::vector<int64_t>{OwnedRows(parameter, 4, 0), OwnedRows(parameter, 4, 1),
                                    OwnedRows(parameter, 4, 2), OwnedRows(parameter, 4, 3)}),
              ElementsAre(2, 2, 1, 0));
  const Unit unit = {"u", false, {parameter, {"b", {1}}}};
  EXPECT_EQ(PaddedShardElements(unit, 4), 2 * 3 + 1);
  EXPECT_EQ(UnitElements(unit), 16);
}

}  // namespace
}  // namespace shardscope::plan
