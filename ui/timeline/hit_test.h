// What is under the mouse: by binary search in the columns, never by walking drawn boxes. No ImGui.
#pragma once

#include <cstdint>

#include "ui/timeline/axis.h"
#include "ui/timeline/lane_layout.h"
#include "ui/timeline/run_index.h"

namespace shardscope::timeline {

struct Hit {
  enum class Kind : uint8_t { kNothing, kSpan, kStall, kExposed };
  Kind kind = Kind::kNothing;
  int32_t rank = 0;
  LaneSource lane;
  uint32_t row = kNoRow;  // as LaneSource::rows says, for a span
  uint32_t stall = 0;     // of RankIndex::stalls, for a stall
  uint32_t count = 1;     // spans that share these pixels; > 1: zoom in to tell them apart
  Range range;            // of the span, the stall, the exposed part or all `count` spans
};

// `x` in pixels of the window, `y` from the top of the first rank.
Hit HitTest(const Layout& layout, const Axis& axis, float x, float y);

// The rank whose block contains `y`; nullptr if none.
const RankBlock* RankAt(const Layout& layout, float y);

}  // namespace shardscope::timeline
