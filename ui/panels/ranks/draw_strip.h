// The strip of ranks on screen: cells, labels, steps, legend, and what the mouse does on them. UI
// thread.
#pragma once

#include <imgui.h>

#include <cstddef>
#include <optional>
#include <string>

#include "ui/context.h"
#include "ui/draw_log.h"
#include "ui/panels/panel_frame.h"
#include "ui/panels/ranks/rank_strip.h"
#include "ui/text.h"
#include "ui/widgets/look.h"

namespace shardscope::panels {

// What drawing needs in one frame.
struct RanksFrame : PanelFrame {
  template <typename... Args>
  std::string Format(ui::Text text, const Args&... args) const {
    return ui::TrFormat(context.language, text, args...);
  }
  const analysis::RankGrid& grid() const { return *context.ranks->grid; }
};

// Where rows and columns stand on screen.
struct StripPlaces {
  ImVec2 origin;  // of the first row
  float row_height = 0;
  float left = 0;  // of the first column
  float column_width = 0;
  float right = 0;  // of the last column

  ui::Box RowBox(size_t row) const {
    const float y = origin.y + static_cast<float>(row) * row_height;
    return {origin.x, y, right, y + row_height};
  }
  float X(size_t column) const { return left + static_cast<float>(column) * column_width; }
};

inline constexpr float kStripLabelWidth = 108;  // left of the columns
inline constexpr float kStripValueWidth = 74;   // right of them
inline constexpr float kStripHeaderHeight = 18;
inline constexpr float kStripMostColumn = 46;        // how wide a column gets
inline constexpr float kStripLeastLabelHeight = 11;  // lower rows are labelled where there is room

// What marks a slow rank besides its colour: a triangle.
void DrawSlowSign(const RanksFrame& frame, ImVec2 centre);

// `labelled`: there is room for its label; a slow rank has one anyway.
void DrawStripRow(const RanksFrame& frame, const Strip& strip, analysis::RankFigure figure,
                  const StripPlaces& places, size_t row, bool labelled);

// Numbers of steps over their columns from `y` down, and a mark under them where a knob was turned.
void DrawStripSteps(const RanksFrame& frame, const Strip& strip, const StripPlaces& places,
                    float y);

// A tooltip over the values at the right of the strip: of what and of how many steps they are.
void HandleStripValues(const RanksFrame& frame, analysis::RankFigure figure, const ui::Box& box);

// What colours and signs mean, as an item of the layout, in as many lines as it needs.
float StripLegendHeight(const RanksFrame& frame, const Strip& strip, analysis::RankFigure figure);
void DrawStripLegend(const RanksFrame& frame, const Strip& strip, analysis::RankFigure figure);

// A row's label or cell.
struct StripPlace {
  size_t row = 0;
  std::optional<size_t> column;  // none: the label
};

// None: the mouse is on neither.
std::optional<StripPlace> PlaceUnderMouse(const Strip& strip, const StripPlaces& places);

// Where the arrow keys lead from `place`, kept inside. Takes these keys, so that they do not move
// the keyboard's focus away.
StripPlace MovedByKeys(const Strip& strip, StripPlace place);

// Outline and tooltip, beside `at`, and what a click on it does.
void HandleStripPlace(const RanksFrame& frame, const Strip& strip, const StripPlaces& places,
                      const StripPlace& place, ImVec2 at, bool clicked);

}  // namespace shardscope::panels
