// What the keys lead to from the selected op, kernel or range. No ImGui.
#pragma once

#include <optional>

#include "trace/analysis/find/neighbours.h"
#include "ui/commands.h"
#include "ui/context.h"

namespace shardscope::timeline {

// The op, kernel or range that is selected; nullopt: none is, or it is not in the rows.
std::optional<analysis::SearchHit> SelectedHit(const ui::Context& context);

// nullopt: nothing is selected, or nothing stands there. Along arrows: of ops what
// trace/analysis/find/neighbours.h says, else, forward, their first kernel; of kernels those of the
// waits between streams, else, back, the op that launched them.
std::optional<analysis::SearchHit> FindNeighbour(const ui::Context& context, ui::Neighbour which);

}  // namespace shardscope::timeline
