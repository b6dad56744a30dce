// The upper part of the panel Compare: parts of a step, histograms, what is set up differently.
#pragma once

#include "ui/panels/compare/compare_frame.h"

namespace shardscope::panels {

// From the cursor on; each is an item of the layout. `width`: in pixels.
void DrawComparedParts(const CompareFrame& frame, float width);
void DrawStepHistograms(const CompareFrame& frame, ImVec2 size);
void DrawDifferentSettings(const CompareFrame& frame, ImVec2 size);

}  // namespace shardscope::panels
