// The verdict on a run in the language of the app.
#pragma once

#include <string>

#include "trace/analysis/explain/verdict.h"
#include "ui/language.h"

namespace shardscope::ui {

// "31% exposed communication: collectives are issued late".
std::string VerdictLine(Language language, const analysis::Verdict& verdict);

// "First try: prefetch one unit further ahead"; empty if there is nothing to gain.
std::string VerdictTry(Language language, const analysis::Verdict& verdict);

}  // namespace shardscope::ui
