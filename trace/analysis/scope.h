// Scope: the steps that figures are of. Figures shown together share one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trace/analysis/steps/breakdown.h"
#include "trace/base/status.h"
#include "trace/query/snapshot.h"

namespace shardscope::analysis {

enum class ScopeKind : uint8_t {
  kSinceChange,  // from the first step under the newest values of knobs on
  kLastSteps,
  kInView,     // in the app: from `first` to `last`
  kSelection,  // in the app: the steps of what is selected
  kWholeRun,
  kSteps,  // a range given by the user
};

inline constexpr int32_t kLastStepsShown = 20;

// What was asked for.
struct Scope {
  ScopeKind kind = ScopeKind::kWholeRun;
  int32_t first = 0;  // kInView, kSelection, kSteps; last < first: none
  int32_t last = -1;
  int32_t count = kLastStepsShown;  // kLastSteps

  bool operator==(const Scope&) const = default;
};

// The default for a run in this state: of a live one, what it does now.
Scope DefaultScope(query::TraceState state);

// The number of a step, from 0; nullopt if `text` is none.
std::optional<int32_t> ParseStep(std::string_view text);

// "5:9": from step 5 up to, not including, step 9, as record.steps has it.
Result<Scope> ParseSteps(std::string_view text);

// The word of a kind ("since-change", "last-steps", "in-view", "selection", "whole-run"), or steps.
Result<Scope> ParseScope(std::string_view text);
// The same as the option --scope of a command that draws no window: nothing is in view or selected
// there. Errors begin with the option.
Result<Scope> ParseScopeOption(std::string_view text);

// What a Scope is in a run. It holds finished steps only.
struct ScopedSteps {
  ScopeKind kind = ScopeKind::kWholeRun;
  int32_t first = 0;
  int32_t last = -1;         // < first: no step of it is finished
  int32_t first_timed = 0;   // times leave out steps before: warm-up, if there is more
  int32_t change_step = -1;  // kSinceChange: where the knob was turned; -1: none was

  bool empty() const { return last < first; }
  bool Contains(int32_t step) const { return step >= first && step <= last; }
  // All of the run, by its name or because no knob was turned.
  bool whole_run() const {
    return kind == ScopeKind::kWholeRun || (kind == ScopeKind::kSinceChange && change_step < 0);
  }
};

// `steps` as Breakdowns() orders them.
ScopedSteps Resolve(const Scope& scope, const std::vector<StepBreakdown>& steps,
                    const std::vector<query::Marker>& markers);

// An error names the steps that there are, where a range given by the user holds none of them.
Status CheckHasSteps(const Scope& scope, const std::vector<StepBreakdown>& steps);

// "since the change at step 12, steps 12 to 23".
std::string ScopeWords(const ScopedSteps& steps);

}  // namespace shardscope::analysis
