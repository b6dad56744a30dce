// Knob: how a live key is shown and turned: as segments or as a slider with a scale of its own. No
// Dear ImGui.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/config.h"
#include "ui/commands.h"
#include "ui/language.h"
#include "ui/text.h"

namespace shardscope::panels {

enum class KnobKind : uint8_t { kSegments, kSlider, kText };

struct Knob {
  const config::KeyInfo* key = nullptr;
  KnobKind kind = KnobKind::kText;
  std::vector<std::string> values;  // kSegments: canonical texts
  double minimum = 0;               // kSlider
  double maximum = 1;
  bool logarithmic = false;
  bool whole_numbers = false;
  std::optional<ui::Text> at_zero;  // "off", "auto": in place of 0
  bool ends_unlimited = false;      // the right end stands for -1
};

// The live keys in the order of the panel, by section.
enum class KnobSection : uint8_t { kSharding, kLink, kTraining };
const std::vector<Knob>& KnobsOf(KnobSection section);

// A value as text and as the place on the slider. "-1", where it means no limit, stands at
// the right end.
double KnobPosition(const Knob& knob, std::string_view value);
std::string KnobValue(const Knob& knob, double position);

// As the panel writes it: "off", "∞", "0.5 GB/s", "FULL".
std::string ShowValue(ui::Language language, const Knob& knob, std::string_view value);

// "0.5 → 1 GB/s": the unit once if both have it.
std::string ShowChange(const std::string& from, const std::string& to);

}  // namespace shardscope::panels
