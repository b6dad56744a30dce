// Buttons: segmented choices, text buttons and icon buttons drawn from primitives.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ui/widgets/look.h"

namespace shardscope::widgets {

// An item of `size` at the cursor that draws nothing; true when it is clicked, by mouse or
// keyboard.
bool ClickArea(const char* id, ImVec2 size);

// A ground behind what will be drawn on the last item, while the mouse or the keyboard is on it, or
// it is `marked`.
void ItemGround(const Look& look, Color color, bool marked = false);

// What a button or segment is drawn in. What is disabled may be too weak to be read, but for the
// segment in force.
struct ButtonState {
  bool enabled = true;
  bool hovered = false;  // or pressed
  bool chosen = false;   // of a segment
};
struct ButtonColors {
  Color ground = 0;
  Color text = 0;
};
ButtonColors ColorsOfSegment(const ui::Theme& theme, const ButtonState& state);

struct Segments {
  std::vector<std::string> options;
  int chosen = -1;  // in force
  // Asked for, not yet in force: outlined; options.size(): one that stands elsewhere. A click on
  // the one in force then takes that back, and does nothing where none is.
  int pending = -1;
  bool enabled = true;
  bool takes_keyboard = false;  // the one in force does, else the first
  float width = 0;              // 0: the content's
};
// One row of equal buttons, several where `width` is more than there is. A word that is cut stands
// in a tooltip. Returns the option clicked, or -1.
int Segmented(const Look& look, const char* id, const Segments& segments);

enum class Emphasis : uint8_t { kQuiet, kPrimary };
ButtonColors ColorsOfButton(const ui::Theme& theme, Emphasis emphasis, const ButtonState& state);
// Of one as wide as its label needs.
float ButtonWidth(const Look& look, std::string_view label, Emphasis emphasis = Emphasis::kQuiet);
// `width` 0: as wide as the label needs.
bool Button(const Look& look, const char* id, std::string_view label,
            Emphasis emphasis = Emphasis::kQuiet, float width = 0, bool enabled = true);

// A word that can be clicked; takes no more room than its letters.
bool LinkText(const Look& look, const char* id, std::string_view label);

enum class Icon : uint8_t { kPause, kPlay, kStep, kStop, kMenu };
// A square of `size` pixels (at scale 1) with a shape in it. `tip` shows on hover, also when
// disabled.
bool IconButton(const Look& look, const char* id, Icon icon, bool enabled, std::string_view tip,
                float size = 28);

struct ChipMenu {
  std::string_view label;
  std::string_view tip;
  std::string_view tip_detail;
  const std::vector<std::string>& options;
  int chosen = -1;
};

float ChipMenuWidth(const Look& look, std::string_view label);

struct ChipMenuResult {
  ui::Box box;
  int clicked = -1;  // of the options
};
ChipMenuResult DrawChipMenu(const Look& look, const char* id, ImVec2 at, const ChipMenu& menu);

}  // namespace shardscope::widgets
