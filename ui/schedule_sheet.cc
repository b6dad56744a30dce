#include "ui/schedule_sheet.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>
#include <utility>

#include "engine/plan/text.h"
#include "trace/base/text.h"

namespace shardscope::ui {
namespace {

ScheduleSheet::Links LinksOf(const plan::Program& program) {
  ScheduleSheet::Links links{plan::AllPredecessors(program), {}};
  links.after.resize(program.ops.size());
  for (size_t op = 0; op < links.before.size(); ++op) {
    for (const plan::OpIndex before : links.before[op]) {
      links.after[static_cast<size_t>(before)].push_back(static_cast<plan::OpIndex>(op));
    }
  }
  return links;
}

// "line 9: ..." with what stands there: the editor numbers no lines.
std::string WithLine(const std::string& error, std::string_view text) {
  constexpr std::string_view kLine = "line ";
  constexpr size_t kMostShown = 80;  // bytes
  size_t number = 0;
  if (error.starts_with(kLine)) {
    std::from_chars(error.data() + kLine.size(), error.data() + error.size(), number);
  }
  for (; number > 1; --number) text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  const std::string_view line = Trim(FirstLine(text));
  if (number == 0 || line.empty()) return error;
  return fmt::format("{} ({}{})", error, Printable(line.substr(0, kMostShown)),
                     line.size() > kMostShown ? " ..." : "");
}

// An importer that inferred the ops says so in the place of a text.
bool HasText(const query::Snapshot& snapshot, const query::Schedule& schedule) {
  return !schedule.text.empty() && !snapshot.IsImported();
}

// The step of a rank that ran one of `schedules`: `wanted`, else the newest; -1: none did.
int32_t StepWith(const query::RankRows& rows, const std::set<query::ScheduleId>& schedules,
                 int32_t wanted) {
  int32_t newest = -1;
  for (const query::Step& step : rows.steps) {
    if (!schedules.contains(step.schedule)) continue;
    if (step.step == wanted) return wanted;
    newest = std::max(newest, step.step);
  }
  return newest;
}

}  // namespace

ScheduleSheet ReadSheet(std::shared_ptr<const std::string> text) {
  ScheduleSheet sheet{.text = std::move(text)};
  Result<plan::Schedule> parsed = plan::ParseSchedule(*sheet.text);
  if (!parsed.ok()) {
    sheet.error = WithLine(parsed.message(), *sheet.text);
    return sheet;
  }
  sheet.schedule = std::move(parsed).value();
  sheet.refusal = plan::FindRefusal(sheet.schedule);
  if (sheet.refusal && sheet.refusal->kind == plan::RefusalKind::kStructure) return sheet;
  for (const plan::Program& program : sheet.schedule.programs) {
    sheet.links.push_back(LinksOf(program));
  }
  return sheet;
}

std::optional<query::ScheduleId> ScheduleInFocus(const Context& context) {
  const query::Snapshot& snapshot = *context.snapshot;
  const auto has_text = [&](query::ScheduleId id) {
    const auto found = snapshot.schedules.find(id);
    return found != snapshot.schedules.end() && HasText(snapshot, found->second);
  };
  std::optional<query::ScheduleId> newest;
  if (!snapshot.ranks.empty()) {
    for (const query::Step& step : snapshot.ranks.front().steps) {
      if (!has_text(step.schedule)) continue;
      newest = step.schedule;
      if (step.step == context.focus.step) return newest;
    }
  }
  if (newest) return newest;
  for (const auto& [id, schedule] : snapshot.schedules) {
    if (HasText(snapshot, schedule)) return id;
  }
  return std::nullopt;
}

std::vector<ScheduleChoice> ScheduleChoices(const query::Snapshot& snapshot) {
  std::vector<ScheduleChoice> choices;
  std::map<std::pair<std::string_view, std::string_view>, size_t> known;  // by name and text
  for (const auto& [id, schedule] : snapshot.schedules) {
    if (!HasText(snapshot, schedule)) continue;
    const auto place = known.try_emplace({schedule.name, schedule.text}, choices.size()).first;
    if (place->second == choices.size()) choices.push_back({schedule.name, {}});
    choices[place->second].ids.push_back(id);
  }
  return choices;
}

std::set<query::ScheduleId> SchedulesLike(const query::Snapshot& snapshot,
                                          query::ScheduleId schedule) {
  std::set<query::ScheduleId> alike = {schedule};
  const auto row = snapshot.schedules.find(schedule);
  if (row == snapshot.schedules.end() || row->second.text.empty()) return alike;
  for (const auto& [id, other] : snapshot.schedules) {
    if (other.text == row->second.text) alike.insert(id);
  }
  return alike;
}

std::string RanksOfProgram(const plan::Schedule& schedule, int32_t program) {
  std::vector<std::string> parts;
  const auto num_ranks = static_cast<int32_t>(schedule.program_of_rank.size());
  for (int32_t first = 0; first < num_ranks;) {
    if (schedule.program_of_rank[static_cast<size_t>(first)] != program) {
      ++first;
      continue;
    }
    int32_t last = first;
    while (last + 1 < num_ranks &&
           schedule.program_of_rank[static_cast<size_t>(last) + 1] == program) {
      ++last;
    }
    parts.push_back(first == last ? std::to_string(first) : fmt::format("{} - {}", first, last));
    first = last + 1;
  }
  return Join(parts, ", ");
}

FoundOpRun FindPlannedOp(const Context& context, query::ScheduleId schedule,
                         const plan::Schedule& planned, int32_t program, plan::OpIndex op) {
  const query::Snapshot& snapshot = *context.snapshot;
  const auto with_program = std::ranges::find(planned.program_of_rank, program);
  FoundOpRun found;
  found.rank = static_cast<int32_t>(with_program - planned.program_of_rank.begin());
  const query::RankRows* rows = snapshot.FindRank(found.rank);
  if (rows == nullptr) return found;
  const std::set<query::ScheduleId> schedules = SchedulesLike(snapshot, schedule);
  found.step = StepWith(*rows, schedules, context.focus.step);
  if (found.step < 0) return found;
  rows->op_runs.ForEachOfSteps(found.step, found.step, [&](const query::OpRun& run, size_t) {
    const query::PlanOp* of_run = snapshot.FindPlanOp(run.plan_op);
    const bool is_it = of_run != nullptr && schedules.contains(of_run->schedule) &&
                       of_run->program == program && of_run->op == op;
    if (is_it) found.op_run = run.id;
  });
  return found;
}

}  // namespace shardscope::ui
