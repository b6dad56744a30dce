// Slider: a label, the value at the right, a rail with a handle. A pending value is an outlined
// handle and a dashed segment from the value in force to it.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "ui/widgets/look.h"

namespace shardscope::widgets {

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
