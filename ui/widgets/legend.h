// Legend: what colours mean, as swatches with names in lines.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ui/draw_log.h"
#include "ui/widgets/look.h"

namespace shardscope::widgets {

// Entries of a legend in lines, from the left top of a box on. Those that have no room are left out
// for a sign "+5".
struct LegendPlaces {
  std::vector<ImVec2> entries;  // the first of them
  ImVec2 rest;                  // of the sign, where some are left out
  float bottom = 0;             // of the last line, at least of one
};
// `widths`: of the entries; `line` and `gap`: of a line and between entries. In pixels.
LegendPlaces PlaceLegend(const Look& look, std::span<const float> widths, const ui::Box& box,
                         float line, float gap);

struct LegendEntry {
  std::string id;  // in the log of what was drawn: of no language
  std::string name;
  const char* tip = nullptr;  // what it means, under the mouse; null: none
  std::function<void(const ui::Box& swatch)> draw;
};

// Sizes at scale 1; tops: below that of the line.
struct LegendStyle {
  TextStyle text;
  ImVec2 swatch{9, 9};
  float swatch_top = 4;
  float text_top = 2;
  float line = 18;
  float gap = 16;  // between entries
};

// As above, of the widths that DrawLegend() gives them.
LegendPlaces PlaceLegend(const Look& look, std::span<const LegendEntry> entries, const ui::Box& box,
                         const LegendStyle& style);

// Places and draws them, with the sign, whose tooltip has the names that are left out. Logs each
// entry as "legend:<id>", swatch and name, and how many are left out as "legend_rest". Returns the
// bottom of the last line.
float DrawLegend(const Look& look, std::span<const LegendEntry> entries, const ui::Box& box,
                 const LegendStyle& style, ui::DrawLog* log);

}  // namespace shardscope::widgets
