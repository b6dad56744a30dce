// What holds up a run, in the language of the app.
#pragma once

#include <string>

#include "trace/analysis/collectives/hang.h"
#include "ui/language.h"

namespace shardscope::ui {

// Of a hang its sentence; in English that of the report.
std::string HangSentence(Language language, const analysis::Hang& hang);

}  // namespace shardscope::ui
