// A frame as an SVG file: shapes stay shapes and text stays text, so it can be searched, scaled and
// edited.
#pragma once

#include <string>

struct ImDrawData;

namespace shardscope::shell {

// For the frames that SvgOf() is to be made of: edges are left to the SVG's viewer, instead of
// being blurred by more triangles. From the next ImGui::NewFrame() on.
void DrawSharpEdges(bool sharp);

// Of what ImGui::Render() made of one frame, whose fonts are those of the current context. `title`
// is what a screen reader says of it. The same frame gives the same bytes. UI thread.
std::string SvgOf(const ImDrawData& data, const std::string& title);

}  // namespace shardscope::shell
