// ScheduleSheet: a Schedule read from its text form and checked, with what each op waits for, for
// the panel Schedule.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/plan/schedule.h"
#include "engine/plan/validate.h"
#include "trace/query/snapshot.h"
#include "ui/commands.h"
#include "ui/context.h"

namespace shardscope::ui {

struct ScheduleSheet {
  std::shared_ptr<const std::string> text;
  std::string error;  // why it cannot be read; the rest is empty then
  plan::Schedule schedule;
  std::optional<plan::Refusal> refusal;  // none: it is valid
  // Of each op of a program: the ops that must have ended before it starts, and those that wait for
  // it.
  struct Links {
    std::vector<std::vector<plan::OpIndex>> before;
    std::vector<std::vector<plan::OpIndex>> after;
  };
  // By program; empty where the text cannot be read or its indices may name nothing.
  std::vector<Links> links;
};

// Any thread; with many ranks and ops it takes seconds: not in a frame.
ScheduleSheet ReadSheet(std::shared_ptr<const std::string> text);

// The Schedule of the step in focus, else that of the newest step, else any with a text; none: the
// trace has no text of one.
std::optional<query::ScheduleId> ScheduleInFocus(const Context& context);

// Those with the text of this one: each file of a run has a row of its own. Without a text it
// alone.
std::set<query::ScheduleId> SchedulesLike(const query::Snapshot& snapshot,
                                          query::ScheduleId schedule);

// What can be chosen of a run: its Schedules with a text, each once, by when they came first. Each
// file of a run has a row of its own: those of one name and text are one.
struct ScheduleChoice {
  std::string name;
  std::vector<query::ScheduleId> ids;
};
std::vector<ScheduleChoice> ScheduleChoices(const query::Snapshot& snapshot);

// "3 - 5, 7": ranks that run a program.
std::string RanksOfProgram(const plan::Schedule& schedule, int32_t program);

// A run of that op, by the first rank that has it, in the step in focus if that ran this Schedule,
// else in the newest one that did.
struct FoundOpRun {
  query::OpRunId op_run = query::OpRunId::None();  // none: it did not run
  int32_t rank = 0;
  int32_t step = -1;
};
FoundOpRun FindPlannedOp(const Context& context, query::ScheduleId schedule,
                         const plan::Schedule& planned, int32_t program, plan::OpIndex op);

}  // namespace shardscope::ui
