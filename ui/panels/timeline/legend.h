// What the colours and hatches of the lanes mean, under the ruler.
#pragma once

#include "ui/context.h"
#include "ui/draw_log.h"

namespace shardscope::panels {

// From the left top of `box` on, in as many lines as its width needs. Returns the bottom. Logs
// each entry as "legend:<name>" with its swatch's box.
float DrawTimelineLegend(const ui::Context& context, const ui::Box& box, ui::DrawLog* log);

}  // namespace shardscope::panels
