// Where a link leads in a run, and the link to what is shown. No Dear ImGui.
#pragma once

#include <optional>
#include <variant>

#include "trace/analysis/find/area.h"
#include "trace/analysis/find/search.h"
#include "trace/query/snapshot.h"
#include "ui/context.h"
#include "ui/link.h"
#include "ui/timeline/axis.h"

namespace shardscope::timeline {

struct LinkPlace {
  std::optional<analysis::SearchHit> hit;   // what is selected
  std::optional<analysis::AreaQuery> area;  // or marked
  std::optional<Range> shown;               // none: what shows that, else the step
};

// Looks at the ops of one step; for `work` at all work and ranges of the rank. The times of a link
// may reach beyond the run, but not lie outside.
std::variant<LinkPlace, ui::LinkError> PlaceOf(const query::Snapshot& snapshot,
                                               const ui::Link& link);

// The step that what it names is in, or the middle of it, if that is one of the run's but not among
// those that are loaded of it.
std::optional<int32_t> StepInOtherPart(const query::Snapshot& snapshot, const ui::Link& link);

// From `from_ns` to `to_ns`, told from the start of the run.
ui::Link LinkOfTimes(const query::Snapshot& snapshot, int64_t from_ns, int64_t to_ns);

// The times of what the link names: of its op, from when its work begins, of the steps, or of what
// is in view. Looks at the ops of one step at most. nullopt: it is not there (yet).
std::optional<Range> TimesOf(const query::Snapshot& snapshot, const ui::Link& link);

// To what is selected or marked, by the names of ops where it can be, so that it leads there in
// another run of the same program, too. nullopt: nothing that has a name is.
std::optional<ui::Link> LinkOfSelection(const ui::Context& context);

// To what a bookmark set now marks: what is selected or marked, if it is in view; else the steps in
// view, or of a part of one its times. `context` has a snapshot.
ui::Link LinkOfMark(const ui::Context& context);

// To what is in view and selected, looked for and figured, from the start of a step if there is
// one. `context` has a snapshot.
ui::Link LinkOfView(const ui::Context& context);

}  // namespace shardscope::timeline
