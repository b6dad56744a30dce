// Which steps the view and the selection show. No ImGui.
#pragma once

#include <cstdint>

#include "trace/analysis/scope.h"
#include "trace/query/snapshot.h"
#include "ui/context.h"

namespace shardscope::timeline {

// The step that some rank was in at `time_ns`: the last that began before, else the first; behind
// all finished steps of a run that goes on the one that runs. -1: there is none.
int32_t StepAt(const query::Snapshot& snapshot, int64_t time_ns);

// What the figures shall be of: what was chosen, else what the run's state asks for. In view are
// the steps that lie in it whole on all ranks, else the one at its centre; of the selection those
// from its first op to its last.
analysis::Scope WantedScope(const ui::Context& context);

// The step whose knobs are shown: the selected op's if that is in view, else that at the view's
// centre. -1: there is none.
int32_t FocusedStep(const ui::Context& context);

}  // namespace shardscope::timeline
