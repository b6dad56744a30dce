// The validator against broken schedules: each refusal must name an op and come with a witness that
// the interpreter replays, and what it accepts must do no harm in any interleaving tried.
#include <gmock/gmock.h>

#include <array>
#include <iomanip>
#include <iostream>
#include <sstream>

#include "engine/plan/policy.h"
#include "engine/plan/text.h"
#include "tests/oracle/generator.h"
#include "tests/oracle/mutations.h"
#include "tests/oracle/options.h"
#include "tests/oracle/reference.h"
#include "tests/oracle/witness.h"

namespace shardscope::oracle {
namespace {

struct Row {
  int mutations = 0;
  int refused = 0;
  int accepted = 0;
  int unnamed = 0;       // refusals whose message does not name the op
  int false_alarms = 0;  // refusals whose witness does no harm
  int misses = 0;        // accepted, but harmful
};

using Table = std::array<Row, kNumMutationKinds>;

std::string Print(const Table& table) {
  std::ostringstream text;
  text << std::left << std::setw(20) << "kind" << std::right;
  for (const char* title :
       {"mutations", "refused", "accepted", "unnamed", "false alarms", "misses"}) {
    text << std::setw(14) << title;
  }
  text << "\n";
  for (size_t kind = 0; kind < table.size(); ++kind) {
    const Row& row = table[kind];
    text << std::left << std::setw(20) << Name(static_cast<MutationKind>(kind)) << std::right;
    for (const int count :
         {row.mutations, row.refused, row.accepted, row.unnamed, row.false_alarms, row.misses}) {
      text << std::setw(14) << count;
    }
    text << "\n";
  }
  return text.str();
}

bool NamesItsOp(const plan::Schedule& schedule, const plan::Refusal& refusal) {
  if (refusal.program == plan::kNone || refusal.op == plan::kNone) return false;
  const plan::Program& program = schedule.programs[static_cast<size_t>(refusal.program)];
  const plan::Op& op = program.ops[static_cast<size_t>(refusal.op)];
  const std::string start =
      "op " + std::to_string(refusal.op) + " '" + plan::OpName(schedule, op) + "' ";
  return refusal.message.rfind(start, 0) == 0;
}

std::string Explain(const Mutant& mutant, MutationKind kind) {
  return std::string(Name(kind)) + " of op " + std::to_string(mutant.op) + " of program " +
         std::to_string(mutant.program) + ", other op " + std::to_string(mutant.other) + "\n" +
         plan::PrintSchedule(mutant.schedule);
}

void Judge(const Mutant& mutant, MutationKind kind, Value expected, Row* row) {
  ++row->mutations;
  if (const auto refusal = plan::FindRefusal(mutant.schedule)) {
    ++row->refused;
    const bool named = NamesItsOp(mutant.schedule, *refusal);
    row->unnamed += named ? 0 : 1;
    EXPECT_TRUE(named) << refusal->message;
    if (Replay(mutant.schedule, *refusal)) return;
    // Ranks that add up the same in another order have no op of their own that goes wrong: what
    // comes out does.
    if (refusal->kind == plan::RefusalKind::kMismatch &&
        SearchHarm(mutant, expected, TestOptions().interleavings)) {
      return;
    }
    ++row->false_alarms;
    ADD_FAILURE() << "false alarm: " << refusal->message << "\n" << Explain(mutant, kind);
    return;
  }
  ++row->accepted;
  if (const auto harm = SearchHarm(mutant, expected, TestOptions().interleavings)) {
    ++row->misses;
    ADD_FAILURE() << "miss: " << Describe(mutant.schedule, *harm) << "\n" << Explain(mutant, kind);
  }
}

bool Done(const Table& table) {
  return std::all_of(table.begin(), table.end(),
                     [](const Row& row) { return row.mutations >= TestOptions().mutations; });
}

TEST(Mutations, AreRefusedExactlyIfTheyDoHarm) {
  constexpr int kTriesAKind = 2;  // in each schedule
  constexpr int kMostFailures = 5;
  Random random(TestOptions().seed + 1);
  Table table;
  int num_schedules = 0;
  int num_failures = 0;
  while (!Done(table) && num_failures < kMostFailures) {
    plan::Policy policy = RandomKnobs(RandomArithmetic(random), random);
    const plan::ModelDescription model = Divided(RandomModel(random), &policy, random);
    const Result<plan::Schedule> schedule = plan::BuildSchedule(model, policy);
    ASSERT_TRUE(schedule.ok()) << schedule.message();
    ++num_schedules;
    const Value expected = ReferenceResult(model, policy);
    for (int number = 0; number < kNumMutationKinds * kTriesAKind; ++number) {
      const auto kind = static_cast<MutationKind>(number % kNumMutationKinds);
      Row& row = table[static_cast<size_t>(kind)];
      if (row.mutations >= TestOptions().mutations) continue;
      const std::optional<Mutant> mutant = Mutate(*schedule, kind, random);
      if (mutant) Judge(*mutant, kind, expected, &row);
      num_failures = 0;
      for (const Row& each : table) num_failures += each.unnamed + each.false_alarms + each.misses;
    }
  }
  std::cout << Print(table) << num_schedules << " schedules\n";
  // Of each kind some do harm: the table is no accident of harmless mutations.
  for (const Row& row : table) {
    EXPECT_GT(row.refused, row.mutations / 10);
  }
}

}  // namespace
}  // namespace shardscope::oracle
