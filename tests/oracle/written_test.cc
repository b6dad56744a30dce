// What CheckSameWork() accepts of Schedules that were changed at random computes the same in every
// interleaving, without a finding.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>

#include "engine/plan/policy.h"
#include "engine/plan/text.h"
#include "engine/plan/validate.h"
#include "engine/plan/written_schedule.h"
#include "tests/oracle/generator.h"
#include "tests/oracle/interpreter.h"
#include "tests/oracle/options.h"

namespace shardscope::oracle {
namespace {

using plan::Op;
using plan::OpIndex;

constexpr int kChangedOfASchedule = 40;
constexpr int kFurthest = 12;  // an op is moved by so many places

OpIndex RandomOp(const plan::Program& program, Random& random) {
  return static_cast<OpIndex>(random.Below(static_cast<int64_t>(program.ops.size())));
}

// With waits on both sides, so that what touches the same buffers stays in order.
void Fence(OpIndex at, plan::Program* program) {
  const auto last = static_cast<OpIndex>(program->ops.size()) - 1;
  for (OpIndex near = std::max(0, at - kFurthest); near < at; ++near) {
    program->ops[static_cast<size_t>(at)].dependencies.push_back(
        {plan::DependencyKind::kEvent, near});
  }
  for (OpIndex near = at + 1; near <= std::min(last, at + kFurthest); ++near) {
    program->ops[static_cast<size_t>(near)].dependencies.push_back(
        {plan::DependencyKind::kEvent, at});
  }
}

// A buffer stays longer than it did.
void FreeLater(plan::Program* program, Random& random) {
  const OpIndex from = RandomOp(*program, random);
  const OpIndex to = RandomOp(*program, random);
  std::vector<plan::BufferId>& frees = program->ops[static_cast<size_t>(from)].frees;
  if (to <= from || frees.empty()) return;
  program->ops[static_cast<size_t>(to)].frees.push_back(frees.back());
  frees.pop_back();
}

void Change(plan::Program* program, Random& random) {
  const OpIndex op = RandomOp(*program, random);
  switch (random.Below(5)) {
    case 0:
      plan::IssueEarlier(op, program);
      return;
    case 1:
      plan::IssueLater(op, program);
      return;
    case 2:
      return FreeLater(program, random);
    case 3: {  // a wait less
      std::vector<plan::Dependency>& waits = program->ops[static_cast<size_t>(op)].dependencies;
      if (!waits.empty())
        waits.erase(waits.begin() + random.Below(static_cast<int64_t>(waits.size())));
      return;
    }
    default: {
      const auto last = static_cast<OpIndex>(program->ops.size()) - 1;
      const OpIndex to = std::clamp(op + random.Between(-kFurthest, kFurthest), 0, last);
      plan::MoveOp(op, to, program);
      if (random.OneIn(2)) Fence(to, program);
    }
  }
}

TEST(WrittenSchedules, ThatAreAcceptedComputeTheSame) {
  Random random(TestOptions().seed + 17);
  int valid = 0;
  int accepted = 0;
  for (int number = 0; number < TestOptions().schedules / 4 + 1 && !HasFailure(); ++number) {
    const plan::ModelDescription whole = RandomModel(random);
    plan::Policy policy = RandomKnobs(RandomArithmetic(random), random);
    const plan::ModelDescription model = Divided(whole, &policy, random);
    const Result<plan::Schedule> built = plan::BuildSchedule(model, policy);
    ASSERT_TRUE(built.ok()) << built.message();
    Interpreter interpreter(*built);
    const Value expected =
        interpreter.Run(RandomOrder(*built, interpreter.graph(), random.Next())).result;
    plan::Schedule start = *built;  // changes add up as long as they are accepted
    for (int changed = 0; changed < kChangedOfASchedule; ++changed) {
      plan::Schedule written = start;
      const auto program = random.Below(static_cast<int64_t>(written.programs.size()));
      Change(&written.programs[static_cast<size_t>(program)], random);
      if (written == start || !plan::Validate(written).ok()) continue;
      ++valid;
      if (!plan::CheckSameWork(*built, written, "written").ok()) continue;
      ++accepted;
      start = written;
      Interpreter of_written(written);
      for (int order = 0; order < 2; ++order) {
        const Outcome outcome =
            of_written.Run(RandomOrder(written, of_written.graph(), random.Next()));
        ASSERT_TRUE(outcome.findings.empty())
            << Describe(written, outcome.findings.front()) << "\n"
            << plan::PrintSchedule(*built) << plan::PrintSchedule(written);
        ASSERT_EQ(outcome.result, expected)
            << plan::PrintSchedule(*built) << plan::PrintSchedule(written);
      }
    }
  }
  EXPECT_GT(accepted, 0);
  EXPECT_GT(valid, accepted);  // some are valid and other work
  std::cout << valid << " valid changes, " << accepted << " of them the same work\n";
}

}  // namespace
}  // namespace shardscope::oracle
