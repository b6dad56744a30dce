#include "ui/widgets/legend.h"

#include <cstdint>

#include "ui/widgets/tooltip.h"

namespace shardscope::widgets {
namespace {

constexpr float kLegendNameGap = 5;  // between a swatch and its name

float NameX(const Look& look, const LegendStyle& style) {
  return look.Px(style.swatch.x + kLegendNameGap);
}

// "+5", whose tooltip has the names. Returns its box.
ui::Box DrawLegendRest(const Look& look, ImVec2 at, std::span<const LegendEntry> rest) {
  TextStyle style = FaintOf(look);
  style.color = look.theme.ink.text;
  const std::string sign = "+" + std::to_string(rest.size());
  const ui::Box box = DrawText(look, style, at, sign);
  if (!ImGui::IsMouseHoveringRect({box.x0, box.y0}, {box.x1, box.y1}, false)) return box;
  std::string detail;
  for (const LegendEntry& entry : rest) detail += (detail.empty() ? "" : "\n") + entry.name;
  Tooltip(look, sign, detail, look.theme.surface.line);
  return box;
}

}  // namespace

LegendPlaces PlaceLegend(const Look& look, std::span<const float> widths, const ui::Box& box,
                         float line, float gap) {
  LegendPlaces places;
  ImVec2 at(box.x0, box.y0);
  for (const float width : widths) {
    if (at.x > box.x0 && at.x + width > box.x1) {
      if (at.y + 2 * line > box.y1) break;
      at = {box.x0, at.y + line};
    }
    places.entries.push_back(at);
    at.x += width + gap;
  }
  places.bottom = at.y + line;
  if (places.entries.size() == widths.size()) return places;
  // The last of the line make room for the sign.
  const float sign = TextSize(look, FaintOf(look), "+99").x;
  while (!places.entries.empty() && places.entries.back().y == at.y && at.x + sign > box.x1) {
    at.x = places.entries.back().x;
    places.entries.pop_back();
  }
  places.rest = at;
  return places;
}

LegendPlaces PlaceLegend(const Look& look, std::span<const LegendEntry> entries, const ui::Box& box,
                         const LegendStyle& style) {
  const float name_x = NameX(look, style);
  std::vector<float> widths;
  for (const LegendEntry& entry : entries) {
    widths.push_back(name_x + TextSize(look, style.text, entry.name).x);
  }
  return PlaceLegend(look, widths, box, look.Px(style.line), look.Px(style.gap));
}

float DrawLegend(const Look& look, std::span<const LegendEntry> entries, const ui::Box& box,
                 const LegendStyle& style, ui::DrawLog* log) {
  const float name_x = NameX(look, style);
  const LegendPlaces places = PlaceLegend(look, entries, box, style);
  for (size_t at = 0; at < places.entries.size(); ++at) {
    const LegendEntry& entry = entries[at];
    const ImVec2 place = places.entries[at];
    const float top = place.y + look.Px(style.swatch_top);
    entry.draw({place.x, top, place.x + look.Px(style.swatch.x), top + look.Px(style.swatch.y)});
    const ui::Box name = DrawText(
        look, style.text, {place.x + name_x, place.y + look.Px(style.text_top)}, entry.name);
    const ui::Box drawn{place.x, name.y0, name.x1, name.y1};
    log->Text("legend:" + entry.id, entry.name, drawn);
    if (entry.tip != nullptr) BoxTooltip(look, drawn, entry.name, entry.tip);
  }
  const std::span<const LegendEntry> rest = entries.subspan(places.entries.size());
  if (!rest.empty()) {
    const ImVec2 at(places.rest.x, places.rest.y + look.Px(style.text_top));
    log->Int("legend_rest", "", static_cast<int64_t>(rest.size()), "",
             DrawLegendRest(look, at, rest));
  }
  return places.bottom;
}

}  // namespace shardscope::widgets
