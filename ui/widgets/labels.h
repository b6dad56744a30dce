// Labels: chips, pills, key-value rows, number slots, sections, cards.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ui/widgets/look.h"

namespace shardscope::widgets {

struct ChipStyle {
  std::optional<Color> swatch;  // a square in front of the text
  bool hatched = false;         // lines over the swatch
  bool bold = true;
  float room_right = 0;  // behind the text, at scale 1
};
float ChipWidth(const Look& look, std::string_view text, const ChipStyle& style);
ui::Box DrawChip(const Look& look, ImVec2 at, std::string_view text, const ChipStyle& style);

// A capsule, `width` pixels wide at scale 1.
ui::Box DrawPill(const Look& look, ImVec2 at, float width, std::string_view text, Color ground,
                 Color ink);

// A small triangle for a list that opens; `at`: the left end of its middle line.
void DrawMenuArrow(const Look& look, ImVec2 at);

// A small triangle: to the right if what it stands beside is folded, else down.
void DrawFoldMark(const Look& look, ImVec2 centre, bool folded);

// In the middle of `box`: what a click there puts away.
void DrawCross(const Look& look, const ui::Box& box);

// A small square of colour, as legends use it.
void DrawSwatch(const Look& look, ImVec2 at, float size, Color color, bool hatched);

// Diagonal lines over a box, `spacing` pixels apart.
void DrawHatch(const ui::Box& box, float spacing, float thickness, Color color);

// Label left, value right, one layout row. Returns the value's box.
ui::Box KeyValueRow(const Look& look, std::string_view label, std::string_view value,
                    std::optional<Color> value_color = std::nullopt);

// "step 131": label and number at fixed places, so that nothing jumps. Returns the number's box.
struct NumberSlot {
  std::string_view label;
  std::string_view value;
  float label_width = 0;  // at scale 1
  std::optional<Color> color;
};
ui::Box DrawNumberSlot(const Look& look, ImVec2 at, const NumberSlot& slot);

// A bold heading over a group, wrapped.
ui::Box Heading(const Look& look, std::string_view text);
ui::Box FaintHeading(const Look& look, std::string_view text);

// Right-aligned on the line of the panel's tabs.
ui::Box PanelCorner(const Look& look, std::string_view text);

// A raised ground behind what is drawn until End(). One at a time.
class Card {
 public:
  // `border` and `ground` 0: those of a plain card.
  Card(const Look& look, const char* id, Color ground = 0, Color border = 0);
  ~Card();
  Card(const Card&) = delete;
  Card& operator=(const Card&) = delete;

 private:
  const Look look_;
  Color ground_;
  Color border_;
  ImVec2 start_;
  float width_;
};

// Where nothing is yet: what to do, in the middle of the region.
ui::Box EmptyState(const Look& look, std::string_view text);

}  // namespace shardscope::widgets
