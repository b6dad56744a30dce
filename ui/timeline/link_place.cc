#include "ui/timeline/link_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "trace/analysis/names.h"
#include "trace/base/text.h"
#include "trace/base/units.h"
#include "ui/timeline/gpu/work_facts.h"
#include "ui/timeline/run_index.h"
#include "ui/timeline/shown_steps.h"
#include "ui/timeline/steps.h"

namespace shardscope::timeline {
namespace {

using analysis::SearchHit;
using ui::Link;
using ui::LinkError;
using LinkProblem = ui::LinkError::Problem;

// Of the length in view: times in a link are as exact as that, so that they are short.
constexpr int64_t kViewParts = 10'000;

// An op of one step of a rank.
struct OpOfStep {
  int32_t op = 0;    // its place in the program
  uint32_t row = 0;  // of RankRows::op_runs
  std::string name;
};

// In the order of the program: the same in every step and run of it.
std::vector<OpOfStep> OpsOfStep(const query::Snapshot& snapshot, const query::RankRows& rows,
                                int32_t step) {
  std::vector<OpOfStep> ops;
  rows.op_runs.ForEachOfSteps(step, step, [&](const query::OpRun& run, size_t row) {
    const query::PlanOp* op = snapshot.FindPlanOp(run.plan_op);
    if (op == nullptr) return;
    ops.push_back({op->op, static_cast<uint32_t>(row), analysis::ShortName(*op)});
  });
  std::stable_sort(ops.begin(), ops.end(),
                   [](const OpOfStep& a, const OpOfStep& b) { return a.op < b.op; });
  return ops;
}

const OpOfStep* FindOp(const std::vector<OpOfStep>& ops, const Link& link) {
  int32_t nth = link.nth;
  for (const OpOfStep& one : ops) {
    const bool is_it = link.op_index ? one.op == *link.op_index : one.name == link.op && --nth == 0;
    if (is_it) return &one;
  }
  return nullptr;
}

SearchHit HitOfOp(const query::RankRows& rows, uint32_t row) {
  const query::OpRun& run = rows.op_runs[row];
  return {.what = analysis::HitKind::kOp,
          .rank = rows.rank,
          .step = run.step,
          .row = row,
          .start_ns = run.started_ns,
          .end_ns = run.ended_ns,
          .track = run.track,
          .op_run = run.id};
}

// Of the rows with one of these names the one that begins nearest to `at_ns`.
template <typename Row>
void TakeNearest(const query::RowList<Row>& list, const std::vector<bool>& is_named, int64_t at_ns,
                 analysis::HitKind what, std::optional<SearchHit>* nearest) {
  for (size_t at = 0; at < list.size(); ++at) {
    const Row& row = list[at];
    const auto name = static_cast<size_t>(row.name);
    if (name >= is_named.size() || !is_named[name]) continue;
    const int64_t distance = std::abs(row.start_ns - at_ns);
    if (*nearest && distance >= std::abs((*nearest)->start_ns - at_ns)) continue;
    *nearest = SearchHit{.what = what,
                         .row = static_cast<uint32_t>(at),
                         .start_ns = row.start_ns,
                         .end_ns = row.end_ns,
                         .track = row.track,
                         .span = row.id};
  }
}

std::optional<SearchHit> FindWork(const query::Snapshot& snapshot, const query::RankRows& rows,
                                  const std::string& name, int64_t at_ns) {
  std::vector<bool> is_named(snapshot.names.size());
  for (size_t at = 0; at < is_named.size(); ++at) is_named[at] = snapshot.names[at] == name;
  std::optional<SearchHit> nearest;
  TakeNearest(rows.gpu_work, is_named, at_ns, analysis::HitKind::kWork, &nearest);
  TakeNearest(rows.spans, is_named, at_ns, analysis::HitKind::kRange, &nearest);
  if (nearest) nearest->rank = rows.rank;
  return nearest;
}

int64_t NsOf(const query::Snapshot& snapshot, const std::optional<StepSpan>& step,
             const ui::LinkTime& time) {
  return (time.of_step && step ? step->start_ns : snapshot.RunStartNs()) + time.ns;
}

Range RangeOf(const query::Snapshot& snapshot, const std::optional<StepSpan>& step,
              const ui::LinkTimes& times) {
  return {NsOf(snapshot, step, times.from), NsOf(snapshot, step, times.to)};
}

// nullopt: something of it was recorded.
std::optional<LinkError> CheckInside(const query::Snapshot& snapshot, const Range& range,
                                     const Link& part) {
  const bool is_inside = range.start_ns < range.end_ns && range.end_ns >= snapshot.start_ns &&
                         range.start_ns <= snapshot.end_ns;
  if (is_inside) return std::nullopt;
  return LinkError{LinkProblem::kOutside, PrintLink(part),
                   FormatDuration(snapshot.RunEndNs() - snapshot.RunStartNs())};
}

// From the first step of the link to its last.
std::optional<StepSpan> StepsOf(const query::Snapshot& snapshot, const Link& link) {
  if (!link.step) return std::nullopt;
  std::optional<StepSpan> span = FindStep(snapshot, *link.step);
  const auto last = link.last_step ? FindStep(snapshot, *link.last_step) : std::nullopt;
  if (span && last) span->end_ns = std::max(span->end_ns, last->end_ns);
  return span;
}

std::optional<LinkError> CheckStep(const query::Snapshot& snapshot, int32_t step) {
  if (FindStep(snapshot, step)) return std::nullopt;
  const std::string part = fmt::format("step={}", step);
  const auto recorded = RecordedSteps(snapshot);
  if (!recorded) return LinkError{LinkProblem::kNoSteps, part, {}};
  return LinkError{LinkProblem::kNoSuchStep, part,
                   fmt::format("{} – {}", recorded->first, recorded->second)};
}

std::string RanksOf(const query::Snapshot& snapshot) {
  if (snapshot.ranks.empty()) return "–";
  const int32_t first = snapshot.ranks.front().rank;
  const int32_t last = snapshot.ranks.back().rank;
  return first == last ? std::to_string(first) : fmt::format("{} – {}", first, last);
}

std::variant<SearchHit, LinkError> FindHit(const query::Snapshot& snapshot,
                                           const query::RankRows& rows,
                                           const std::optional<StepSpan>& step, const Link& link) {
  if (!link.work.empty()) {
    const auto found = FindWork(snapshot, rows, link.work, NsOf(snapshot, step, *link.at));
    if (found) return *found;
    return LinkError{LinkProblem::kNoSuchWork, "work=" + link.work, {}};
  }
  const std::vector<OpOfStep> ops = OpsOfStep(snapshot, rows, *link.step);
  if (const OpOfStep* op = FindOp(ops, link)) return HitOfOp(rows, op->row);
  if (link.op_index)
    return LinkError{LinkProblem::kNoSuchOp, fmt::format("op={}", *link.op_index), {}};
  std::vector<std::string> names;
  for (const OpOfStep& op : ops) names.push_back(op.name);
  const auto near = MeantName(link.op, names).value_or("");
  return LinkError{LinkProblem::kNoSuchOp, "op=" + link.op, near == link.op ? "" : near};
}

// In multiples that a view of this length does not show.
ui::LinkTime Rounded(int64_t ns, int64_t length_ns, bool of_step) {
  int64_t unit = 1;
  while (unit * 10 <= length_ns / kViewParts) unit *= 10;
  const int64_t half = ns < 0 ? -unit / 2 : unit / 2;
  return {(ns + half) / unit * unit, of_step};
}

// From the start of the step, if there is one. nullopt: it has no length.
std::optional<ui::LinkTimes> LinkTimesOf(const query::Snapshot& snapshot, const Range& range,
                                         const std::optional<StepSpan>& step) {
  const int64_t from_ns = step ? step->start_ns : snapshot.RunStartNs();
  if (range.length_ns() <= 0) return std::nullopt;
  const auto rounded = [&](int64_t time_ns) {
    return Rounded(time_ns - from_ns, range.length_ns(), step.has_value());
  };
  ui::LinkTimes times{rounded(range.start_ns), rounded(range.end_ns)};
  if (!step) times.from.ns = std::max<int64_t>(times.from.ns, 0);  // room before the run
  return times;
}

std::optional<Link> LinkOfOp(const query::Snapshot& snapshot, const ui::Selection& selection) {
  const query::RankRows* rows = snapshot.FindRank(selection.rank);
  const uint32_t row = rows == nullptr ? kNoRow : FindRow(*rows, selection.op_run);
  if (row == kNoRow || rows->op_runs[row].step < 0) return std::nullopt;
  Link link;
  link.step = rows->op_runs[row].step;
  link.rank = selection.rank;
  const std::vector<OpOfStep> ops = OpsOfStep(snapshot, *rows, *link.step);
  const auto op =
      std::find_if(ops.begin(), ops.end(), [row](const OpOfStep& one) { return one.row == row; });
  if (op == ops.end()) return std::nullopt;
  link.op = op->name;
  link.nth += static_cast<int32_t>(
      std::count_if(ops.begin(), op, [&](const OpOfStep& one) { return one.name == op->name; }));
  return link;
}

std::optional<Link> LinkOfWork(const ui::Context& context) {
  const ui::Selection& selection = context.selection;
  const WorkFacts facts =
      WorkFactsOf(*context.snapshot, *context.index, selection.rank, selection.span);
  if (facts.kind == WorkFacts::Kind::kNothing || !IsPlainUtf8(facts.name) || facts.name.empty()) {
    return std::nullopt;
  }
  Link link;
  link.rank = selection.rank;
  link.work = facts.name;
  const int32_t step_at = StepAt(*context.snapshot, facts.start_ns());
  const auto step = step_at < 0 ? std::nullopt : FindStep(*context.snapshot, step_at);
  if (step) link.step = step->step;
  const int64_t from_ns = step ? step->start_ns : context.snapshot->RunStartNs();
  link.at = ui::LinkTime{facts.start_ns() - from_ns, step.has_value()};
  return link;
}

std::optional<Link> LinkOfArea(const query::Snapshot& snapshot, const analysis::AreaQuery& area) {
  Link link;
  const int32_t step_at = StepAt(snapshot, area.time.start_ns);
  const auto step = step_at < 0 ? std::nullopt : FindStep(snapshot, step_at);
  if (step) link.step = step->step;
  if (area.ranks.size() == 1) {
    link.rank = area.ranks.front();
  } else {
    link.ranks = area.ranks;  // in the order of their lanes
    std::sort(link.ranks.begin(), link.ranks.end());
  }
  link.area = LinkTimesOf(snapshot, {area.time.start_ns, area.time.end_ns}, step);
  if (!link.area) return std::nullopt;
  return link;
}

}  // namespace

std::optional<int32_t> StepInOtherPart(const query::Snapshot& snapshot, const ui::Link& link) {
  const std::optional<query::RunPart>& part = snapshot.part;
  if (!part) return std::nullopt;
  std::optional<int32_t> step = link.step;
  if (!step) {
    const std::optional<ui::LinkTimes>& times = link.area ? link.area : link.times;
    if (!link.at && !times) return std::nullopt;
    const int64_t from_ns = NsOf(snapshot, {}, link.at ? *link.at : times->from);
    const int64_t to_ns = NsOf(snapshot, {}, link.at ? *link.at : times->to);
    if (from_ns > snapshot.RunEndNs() || to_ns < part->start_ns) return std::nullopt;
    const int64_t middle_ns = from_ns + (to_ns - from_ns) / 2;
    if (middle_ns >= snapshot.start_ns && middle_ns <= snapshot.end_ns) return std::nullopt;
    // What came before the first step is in the part that has it.
    step = part->StepAt(middle_ns).value_or(static_cast<int32_t>(part->first_of_run));
    // What is between the last step and the next one, as an evaluation, comes with that one.
    if (*step == part->last_step && middle_ns > snapshot.end_ns) ++*step;
  }
  const bool is_in_run = step && *step >= part->first_of_run && *step <= part->last_of_run;
  return is_in_run && !part->Contains(*step) ? step : std::nullopt;
}

ui::Link LinkOfTimes(const query::Snapshot& snapshot, int64_t from_ns, int64_t to_ns) {
  ui::Link link;
  link.times = LinkTimesOf(snapshot, {from_ns, to_ns}, {});
  return link;
}

std::optional<Range> TimesOf(const query::Snapshot& snapshot, const Link& link) {
  const std::optional<StepSpan> steps = StepsOf(snapshot, link);
  if (link.step && !steps) return std::nullopt;
  if (link.at) {
    const int64_t at_ns = NsOf(snapshot, steps, *link.at);
    return Range{at_ns, at_ns};
  }
  const query::RankRows* rows = link.rank ? snapshot.FindRank(*link.rank) : nullptr;
  if (link.HasOp() && rows != nullptr) {
    const std::vector<OpOfStep> ops = OpsOfStep(snapshot, *rows, *link.step);
    const OpOfStep* op = FindOp(ops, link);
    if (op == nullptr) return std::nullopt;
    return Range{rows->op_runs[op->row].started_ns, rows->op_runs[op->row].ended_ns};
  }
  if (const auto& times = link.area ? link.area : link.times) {
    return RangeOf(snapshot, steps, *times);
  }
  if (!steps) return std::nullopt;
  return Range{steps->start_ns, steps->end_ns};
}

std::variant<LinkPlace, LinkError> PlaceOf(const query::Snapshot& snapshot, const Link& link) {
  for (const std::optional<int32_t>& step : {link.step, link.last_step}) {
    if (!step) continue;
    if (auto error = CheckStep(snapshot, *step)) return *error;
  }
  const std::optional<StepSpan> steps = StepsOf(snapshot, link);
  LinkPlace place;
  const query::RankRows* rows = link.rank ? snapshot.FindRank(*link.rank) : nullptr;
  if (link.rank && rows == nullptr) {
    return LinkError{LinkProblem::kNoSuchRank, fmt::format("rank={}", *link.rank),
                     RanksOf(snapshot)};
  }
  for (const int32_t rank : link.ranks) {
    if (snapshot.FindRank(rank) != nullptr) continue;
    return LinkError{LinkProblem::kNoSuchRank, PrintLink(Link{.ranks = link.ranks}),
                     RanksOf(snapshot)};
  }
  if (link.HasOp() || !link.work.empty()) {
    auto hit = FindHit(snapshot, *rows, steps, link);
    if (auto* error = std::get_if<LinkError>(&hit)) return *error;
    place.hit = std::get<SearchHit>(hit);
  }
  if (link.area) {
    const Range area = RangeOf(snapshot, steps, *link.area);
    if (auto error = CheckInside(snapshot, area, {.area = link.area})) return *error;
    place.area = analysis::AreaQuery{{area.start_ns, area.end_ns}, {}};
    place.area->ranks = link.rank ? std::vector{*link.rank} : link.ranks;
  }
  if (link.times) {
    place.shown = RangeOf(snapshot, steps, *link.times);
    if (auto error = CheckInside(snapshot, *place.shown, {.times = link.times})) return *error;
  } else if (link.last_step && !place.hit && !place.area) {
    place.shown = {steps->start_ns, steps->end_ns};
  }
  return place;
}

std::optional<Link> LinkOfSelection(const ui::Context& context) {
  if (context.snapshot == nullptr) return std::nullopt;
  if (!context.selection.op_run.is_none()) {
    return LinkOfOp(*context.snapshot, context.selection);
  }
  if (!context.selection.span.is_none()) return LinkOfWork(context);
  return context.area.query ? LinkOfArea(*context.snapshot, *context.area.query) : std::nullopt;
}

Link LinkOfMark(const ui::Context& context) {
  const query::Snapshot& snapshot = *context.snapshot;
  const ui::View& view = context.view;
  if (const auto selected = LinkOfSelection(context)) {
    const auto times = TimesOf(snapshot, *selected);
    if (times && times->start_ns < view.end_ns && times->end_ns >= view.start_ns) return *selected;
  }
  const int32_t at = StepAt(snapshot, view.start_ns + (view.end_ns - view.start_ns) / 2);
  const auto step = at < 0 ? std::nullopt : FindStep(snapshot, at);
  Link link;
  if (step) {
    const int64_t step_ns = step->end_ns - step->start_ns;
    const int64_t length_ns = view.end_ns - view.start_ns;
    link.step = at;
    if (2 * length_ns >= 5 * step_ns) {  // those of which more than half is in view
      link.step = StepAt(snapshot, view.start_ns + step_ns / 2);
      link.last_step = StepAt(snapshot, view.end_ns - step_ns / 2);
    }
    if (5 * length_ns >= 4 * step_ns) return link;
  }
  link.times = LinkTimesOf(snapshot, {context.view.start_ns, context.view.end_ns}, step);
  return link;
}

Link LinkOfView(const ui::Context& context) {
  Link link = LinkOfSelection(context).value_or(Link{});
  const query::Snapshot& snapshot = *context.snapshot;
  if (!link.step && context.focus.step >= 0) link.step = context.focus.step;
  const auto step = link.step ? FindStep(snapshot, *link.step) : std::nullopt;
  if (!step) link.step.reset();
  link.times = LinkTimesOf(snapshot, {context.view.start_ns, context.view.end_ns}, step);
  if (context.search.open) link.search = std::string(Trim(context.search.text));
  if (!IsPlainUtf8(link.search)) link.search.clear();
  link.scope = context.focus.scope;
  return link;
}

}  // namespace shardscope::timeline
