// What the panel Steps says of a step.
#pragma once

#include <string>

#include "trace/query/snapshot.h"
#include "ui/language.h"

namespace shardscope::panels {

// "2.3456"; "–" for NaN.
std::string LossText(double loss);

// Three significant digits: "0.917", "2.90", "17.0", "123".
std::string NormText(double norm);

// "prefetch.forward 1 → 2", "checkpoint step-20".
std::string EventWords(ui::Language language, const query::Marker& event);

}  // namespace shardscope::panels
