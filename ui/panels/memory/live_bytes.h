// What is live at the time lens's now, beside its line: bytes by category, with the units of what
// comes and goes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ui/context.h"
#include "ui/draw_log.h"
#include "ui/timeline/axis.h"

namespace shardscope::panels {

// "unsharded parameter 4.2 MB: block1 2.1 MB, block2 2.1 MB", what comes and goes first, then what
// stays. Units of what stays are not listed: a step does not change them. At most `most` lines:
// of more the largest, and a last one that says how much the others take.
std::vector<std::string> LiveLines(ui::Language language, const analysis::RankMoment& moment,
                                   size_t most);

// In `box`, the plot of a rank.
void DrawLiveBytes(const ui::Context& context, const timeline::Axis& axis, int32_t rank,
                   const ui::Box& box, ui::DrawLog* log);

// Where the moments are that the panel Blocks is about, if they are of that rank.
void DrawBlockMoments(const ui::Context& context, const timeline::Axis& axis, int32_t rank,
                      const ui::Box& box, ui::DrawLog* log);

}  // namespace shardscope::panels
