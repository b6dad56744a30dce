// The words of the panel Compare. Pure.
#pragma once

#include <string>

#include "trace/analysis/compare/comparison.h"
#include "ui/language.h"

namespace shardscope::panels {

// What the comparison begins with; in English the sentence of `shardscope compare`, with the app's
// signs.
std::string CompareSentence(ui::Language language, const analysis::Comparison& comparison);

const char* PartWord(ui::Language language, analysis::StepPart part);
// "forward", "optimizer"; what has no word in the language stays as it is.
std::string PhaseWord(ui::Language language, const std::string& phase);
// "exposed all_gather", "compute, forward", "idle, before reduce_scatter".
std::string WhatWords(ui::Language language, const analysis::RowKey& key);
// "slower", "faster", "new", "gone"; empty: within noise.
std::string StateWord(ui::Language language, const analysis::ComparedRow& row);
const char* FactWord(ui::Language language, analysis::DoneFact fact);

// "+1.2 ms", "-300 µs".
std::string SignedDuration(double ns);
std::string WithinWords(ui::Language language, const analysis::Shift& shift);

// The values of a setting, in the language (analysis::kThen).
std::string ValuesInOrder(ui::Language language, std::string text);

// Of the log of what was drawn: the fields that make a row, "idle|||head|".
std::string RowName(const analysis::RowKey& key);

}  // namespace shardscope::panels
