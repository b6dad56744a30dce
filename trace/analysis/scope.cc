#include "trace/analysis/scope.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "trace/analysis/names.h"
#include "trace/analysis/no_such_steps.h"
#include "trace/base/parse_number.h"
#include "trace/query/rows.h"

namespace shardscope::analysis {
namespace {

// The newest step that is the first under new values; -1 if no knob was turned.
int32_t LastChange(const std::vector<query::Marker>& markers) {
  int32_t step = -1;
  for (const query::Marker& marker : markers) {
    if (IsKnobChange(marker)) step = std::max(step, marker.step);
  }
  return step;
}

// Of the newest `count` steps the first. Steps may be missing in between.
int32_t FirstOfLast(const std::vector<StepBreakdown>& steps, int32_t count) {
  int32_t found = 1;
  int32_t first = steps.back().step;
  for (auto row = steps.rbegin(); row != steps.rend(); ++row) {
    if (row->step == first) continue;
    if (++found > count) break;
    first = row->step;
  }
  return first;
}

// The finished steps in [first, last].
void Clip(const std::vector<StepBreakdown>& steps, int32_t first, int32_t last,
          ScopedSteps* scoped) {
  const auto begin = std::partition_point(
      steps.begin(), steps.end(), [&](const StepBreakdown& row) { return row.step < first; });
  const auto end = std::partition_point(begin, steps.end(),
                                        [&](const StepBreakdown& row) { return row.step <= last; });
  if (begin == end) return;
  scoped->first = scoped->first_timed = begin->step;
  scoped->last = std::prev(end)->step;
  if (scoped->last >= begin->timed_from) {
    scoped->first_timed = std::max(scoped->first, begin->timed_from);
  }
}

}  // namespace

Scope DefaultScope(query::TraceState state) {
  return {.kind =
              state == query::TraceState::kLive ? ScopeKind::kSinceChange : ScopeKind::kWholeRun};
}

std::optional<int32_t> ParseStep(std::string_view text) { return ParseInteger<int32_t>(text, 0); }

Result<Scope> ParseSteps(std::string_view text) {
  const size_t colon = text.find(':');
  const auto begin = ParseStep(text.substr(0, colon));
  const auto end =
      ParseStep(colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1));
  if (!begin || !end || *begin >= *end) {
    return Status::Error(
        "give a:b, from step a up to, not including, step b, with 0 <= a < b, such as 5:9");
  }
  return Scope{.kind = ScopeKind::kSteps, .first = *begin, .last = *end - 1};
}

Result<Scope> ParseScope(std::string_view text) {
  std::string word(text);
  std::replace(word.begin(), word.end(), '-', '_');
  for (const ScopeKind kind : {ScopeKind::kSinceChange, ScopeKind::kLastSteps, ScopeKind::kInView,
                               ScopeKind::kSelection, ScopeKind::kWholeRun}) {
    if (word == Name(kind)) return Scope{.kind = kind};
  }
  if (text.find(':') != std::string_view::npos) return ParseSteps(text);
  return Status::Error(
      "give since-change, last-steps, in-view, selection, whole-run, or steps as a:b");
}

Result<Scope> ParseScopeOption(std::string_view text) {
  const bool are_steps = text.find(':') != std::string_view::npos;
  const Result<Scope> scope = are_steps ? ParseSteps(text) : ParseScope(text);
  if (scope.ok() && scope->kind != ScopeKind::kInView && scope->kind != ScopeKind::kSelection) {
    return scope;
  }
  return Status::Error(fmt::format(
      "--scope {}: {}", text,
      are_steps ? scope.message() : "give since-change, last-steps, whole-run, or steps as a:b"));
}

ScopedSteps Resolve(const Scope& scope, const std::vector<StepBreakdown>& steps,
                    const std::vector<query::Marker>& markers) {
  ScopedSteps scoped;
  scoped.kind = scope.kind;
  if (scope.kind == ScopeKind::kSinceChange) scoped.change_step = LastChange(markers);
  if (steps.empty()) return scoped;
  const int32_t newest = steps.back().step;
  switch (scope.kind) {
    case ScopeKind::kWholeRun:
      Clip(steps, steps.front().step, newest, &scoped);
      break;
    case ScopeKind::kSinceChange:
      Clip(steps, scoped.change_step < 0 ? steps.front().step : scoped.change_step, newest,
           &scoped);
      break;
    case ScopeKind::kLastSteps:
      Clip(steps, FirstOfLast(steps, scope.count), newest, &scoped);
      break;
    case ScopeKind::kInView:
    case ScopeKind::kSelection:
    case ScopeKind::kSteps:
      Clip(steps, scope.first, scope.last, &scoped);
      break;
  }
  return scoped;
}

Status CheckHasSteps(const Scope& scope, const std::vector<StepBreakdown>& steps) {
  if (scope.kind != ScopeKind::kSteps || !Resolve(scope, steps, {}).empty()) return Status::Ok();
  const bool has_steps = !steps.empty();
  return NoSuchSteps(scope.first, scope.last, has_steps ? steps.front().step : 0,
                     has_steps ? steps.back().step : -1);
}

std::string ScopeWords(const ScopedSteps& steps) {
  std::string words;
  switch (steps.kind) {
    case ScopeKind::kWholeRun:
      words = "the whole run";
      break;
    case ScopeKind::kSinceChange:
      words = steps.change_step < 0 ? "the whole run (no knob was turned)"
                                    : fmt::format("since the change at step {}", steps.change_step);
      break;
    case ScopeKind::kLastSteps:
      words = "the last steps";
      break;
    case ScopeKind::kInView:
      words = "in view";
      break;
    case ScopeKind::kSelection:
      words = "of the selection";
      break;
    case ScopeKind::kSteps:
      break;
  }
  if (steps.empty()) return words.empty() ? "no step" : words;
  const std::string range = steps.first == steps.last
                                ? fmt::format("step {}", steps.first)
                                : fmt::format("steps {} to {}", steps.first, steps.last);
  return words.empty() ? range : words + ", " + range;
}

}  // namespace shardscope::analysis
