// Where things stand on the time axis that timeline and memory share, in pixels at scale 1. Both
// use the same gutter and right margin, so the same moment has the same x in both. Heights of lanes
// are in ui/theme.h.
#pragma once

#include "ui/theme.h"

namespace shardscope::timeline {

inline constexpr float kGutter = 96;  // from the panel's left edge to the start of the time axis
inline constexpr float kRightMargin = 8;  // from the end of the time axis to the panel's right edge

inline constexpr float kMinimapHeight = 18;
inline constexpr float kRulerHeight = 20;
inline constexpr float kCopyStripHeight = 6;  // at the top of the all-gather lane
inline constexpr float kRankNameHeight = 18;  // over the lanes of a rank without ops
inline constexpr float kRankPadding = 8;      // above the first and under the last lane of a rank

inline constexpr float kMinRectangle = 3;  // narrower spans fold
inline constexpr float kMinStall = 4;      // wider ones are hatched however coarse the view is
inline constexpr float kMinLabel = 24;     // narrower visible parts carry no label
inline constexpr float kSpanGap = 1;

}  // namespace shardscope::timeline
