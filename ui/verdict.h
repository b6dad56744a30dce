// The verdict on a run in the language of the app.
#pragma once

#include <cstdint>
#include <string>

#include "trace/analysis/explain/explanation.h"
#include "ui/language.h"

namespace shardscope::ui {

// "31% exposed communication: collectives are issued late".
std::string VerdictLine(Language language, const analysis::Verdict& verdict);

// "collectives are issued late"; `rank`: the slow one.
std::string LossReason(Language language, analysis::LossKind kind, int32_t rank);

// "First try: prefetch one unit further ahead"; empty if there is nothing to gain.
std::string VerdictTry(Language language, const analysis::Verdict& verdict);

// What a list of stalls does not tell of the verdict's cause: "Outside these stalls: 33.9 ms a step
// (idle)", or how much of the wait for cores is not idle; empty: nothing.
std::string StallNote(Language language, const analysis::Explanation& explanation);

}  // namespace shardscope::ui
