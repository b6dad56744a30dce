// Fields: text inputs, drop-downs and sliders in the look of the app. A slider has a label, the
// value at the right and a rail with a handle; a pending value is an outlined handle and a dashed
// segment from the value in force to it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ui/widgets/look.h"

namespace shardscope::widgets {

struct Field {
  std::string_view hint;  // shown while empty
  bool invalid = false;   // bordered in the colour of bad news
  bool mono = false;
  float width = 0;  // pixels; 0: the content's width
};
// True when the text changed.
bool TextField(const Look& look, const char* id, std::string* text, const Field& field);

// Selects what is in the field that was drawn last, so that typing replaces it; false while it does
// not have the keyboard.
bool SelectFieldText();

// Of several lines, in the mono font. True when Ctrl+Enter was pressed in it; it keeps the
// keyboard. Escape leaves it, and what was typed stays.
bool TextArea(const Look& look, const char* id, std::string* text, ImVec2 size);

// True when another option was chosen.
bool Choice(const Look& look, const char* id, const std::vector<std::string>& options, int* chosen,
            float width = 0);

struct SliderSpec {
  double minimum = 0;
  double maximum = 1;
  bool logarithmic = false;  // needs minimum > 0
  bool whole_numbers = false;
};

struct SliderState {
  std::string label;
  std::string value_text;  // when nothing is pending or dragged
  double value = 0;
  std::optional<double> pending;
  bool enabled = true;
};

// Where a value stands on the rail, 0 to 1, and back. Pure.
double SliderShare(const SliderSpec& spec, double value);
double SliderValue(const SliderSpec& spec, double share);

struct SliderResult {
  std::optional<double> chosen;  // on release, or on a key press
  ui::Box value_box;
};
// `format` writes the value under the mouse while it is dragged.
SliderResult Slider(const Look& look, const char* id, const SliderSpec& spec,
                    const SliderState& state, const std::function<std::string(double)>& format);

}  // namespace shardscope::widgets
