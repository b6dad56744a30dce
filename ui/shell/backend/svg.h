// A frame as an SVG file: shapes stay shapes and text stays text, so it can be searched, scaled and
// edited.
#pragma once

#include <string>
#include <vector>

#include "ui/draw_log.h"

struct ImDrawData;

namespace shardscope::shell {

// For the frames that SvgOf() is to be made of: edges are left to the SVG's viewer, instead of
// being blurred by more triangles. From the next ImGui::NewFrame() on.
void DrawSharpEdges(bool sharp);

// Of what ImGui::Render() made of one frame, whose fonts are those of the current context. `title`
// is what a screen reader says of it. The same frame gives the same bytes. UI thread.
std::string SvgOf(const ImDrawData& data, const std::string& title);

// A text that can be seen, in part at least, on one line of one font and colour.
struct WrittenText {
  ui::Box box;
  std::string window;  // whose it is, as ImGui names it: "Steps###steps", "Steps###steps/list_1A2B"
  std::string text;
};

// In the order in which they were drawn; else as SvgOf().
std::vector<WrittenText> WrittenTextsOf(const ImDrawData& data);

}  // namespace shardscope::shell
