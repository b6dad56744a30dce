// Where lines of text may end. Dear ImGui ends those of Chinese at spaces only, and others within
// identifiers, behind each dot.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace shardscope::widgets {

// Of a line's text, in pixels.
using WidthOf = std::function<float(std::string_view text)>;

// `text` (UTF-8) with a '\n' wherever a line would be wider than `width`: at spaces but for those
// between a number and its unit, and between any two characters of which one is Chinese, but that
// no line begins with what closes ("，", "）") or ends with what opens ("（"). What has no such
// place stays too wide.
std::string BreakLines(std::string_view text, float width, const WidthOf& width_of);

}  // namespace shardscope::widgets
