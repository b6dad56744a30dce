// What the colours of the memory panel mean.
#pragma once

#include <imgui.h>

#include "ui/context.h"
#include "ui/draw_log.h"
#include "ui/panels/memory/memory_stack.h"
#include "ui/terms.h"
#include "ui/theme.h"

namespace shardscope::panels {

struct BandLook {
  ui::Term term;
  ui::Color color;  // of kFreeGap only in the legend: it is hatched over the stack
};
BandLook LookOfBand(const ui::Theme& theme, DeviceBand::Kind kind);

// As many lines as the entries need and `box` has room for, at least one, with a sign for those
// that have none; returns where they end.
// `nccl`: some of the memory is known to be NCCL's.
float DrawMemoryLegend(const ui::Context& context, const ui::Box& box, bool nccl, ui::DrawLog* log);

}  // namespace shardscope::panels
