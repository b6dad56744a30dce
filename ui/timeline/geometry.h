// Sizes that the timeline and the panels on its time axis share, in pixels at scale 1. Timeline and
// memory use the same gutter and right margin, so the same moment has the same x in both.
#pragma once

namespace shardscope::timeline {

inline constexpr float kGutter = 92;      // from the panel's left edge to the start of the time axis
inline constexpr float kRightMargin = 8;  // from the end of the time axis to the panel's right edge
inline constexpr float kPanelPadding = 14;

inline constexpr float kMinimapHeight = 18;
inline constexpr float kRulerHeight = 20;

inline constexpr float kHostHeight = 14;
inline constexpr float kComputeHeight = 36;
inline constexpr float kCopyHeight = 8;
inline constexpr float kCommunicationHeight = 26;
inline constexpr float kExposedHeight = 8;
inline constexpr float kFoldedHeight = 14;
inline constexpr float kLaneGap = 3;
inline constexpr float kRankPadding = 8;  // above the first and under the last lane of a rank

inline constexpr float kMinRectangle = 3;  // narrower spans fold
inline constexpr float kMinLabel = 24;     // narrower visible parts carry no label
inline constexpr float kSpanGap = 1;

}  // namespace shardscope::timeline
