// Look: theme, fonts and scale, what every widget draws with; and text drawn at a place.
//
// Widgets do not depend on traces. UI thread only.
#pragma once

#include <imgui.h>

#include <string_view>

#include "ui/draw_log.h"
#include "ui/theme.h"

namespace shardscope::widgets {

using ui::Color;

struct Look {
  const ui::Theme& theme;
  ui::Fonts fonts;
  float scale = 1;
  ui::DrawLog* log = nullptr;  // null: what widgets draw is not logged

  float Px(float size) const { return size * scale; }  // a size of theme.h in pixels
};

// From anything with theme, fonts, scale and widgets_log (ui::Context).
template <typename State>
Look LookOf(const State& state) {
  return {*state.theme, state.fonts, state.scale, state.widgets_log};
}

// Logs the item that was added last as `kind`:`id`.
void LogControl(const Look& look, std::string_view kind, std::string_view id,
                std::string_view text);

struct TextStyle {
  ImFont* font = nullptr;
  float size = ui::kTextSize;  // at scale 1
  Color color = 0;
};
TextStyle TextOf(const Look& look);   // regular, text ink
TextStyle DimOf(const Look& look);    // regular, dim ink
TextStyle FaintOf(const Look& look);  // small, dim ink
TextStyle BoldOf(const Look& look);   // bold, text ink
TextStyle MonoOf(const Look& look);   // mono, dim ink

ImVec2 TextSize(const Look& look, const TextStyle& style, std::string_view text);

// At the cursor's draw list position; takes no layout space. Returns the box it covers.
ui::Box DrawText(const Look& look, const TextStyle& style, ImVec2 at, std::string_view text);
ui::Box DrawTextRight(const Look& look, const TextStyle& style, ImVec2 right_top,
                      std::string_view text);
// Cut as below where the box is too narrow.
ui::Box DrawTextCentered(const Look& look, const TextStyle& style, const ui::Box& box,
                         std::string_view text);

// Cut at `max_width` with an ellipsis.
ui::Box DrawTextClipped(const Look& look, const TextStyle& style, ImVec2 at, float max_width,
                        std::string_view text);

// The text with a '\n' where a line of `width` ends, if it has Chinese (line_breaks.h); else as it
// is, for Dear ImGui to wrap.
std::string WithLineBreaks(const Look& look, const TextStyle& style, std::string_view text,
                           float width);

// As an item of the layout, wrapped at the content's right edge.
ui::Box Paragraph(const Look& look, const TextStyle& style, std::string_view text);

// Vertical space.
void Gap(const Look& look, float pixels);

float ContentWidth();

// The next item, `width` pixels wide, stands beside the last one, `gap` pixels from it, if there is
// room, else below it.
void BesideOrBelow(float width, float gap);

inline ui::Box ToBox(ImVec2 min, ImVec2 max) { return {min.x, min.y, max.x, max.y}; }

}  // namespace shardscope::widgets
