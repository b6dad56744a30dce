// What the panel Steps says of a step.
#pragma once

#include <string>

#include "trace/query/snapshot.h"
#include "ui/language.h"

namespace shardscope::panels {

// "2.3456"; "–" for NaN.
std::string LossText(double loss);

// "prefetch.forward 1 → 2", "checkpoint step-20".
std::string EventWords(ui::Language language, const query::Marker& event);

}  // namespace shardscope::panels
