// What a moment is in words, in both languages.
#pragma once

#include <array>

#include "trace/analysis/moment/moment_words.h"
#include "ui/language.h"
#include "ui/text.h"

namespace shardscope::ui {

// In the catalogue, indexed by analysis::MomentPhrase.
inline constexpr auto kMomentTexts = std::to_array<Text>({
    Text::kMomentAnd,          Text::kMomentOp,          Text::kMomentTheOp,
    Text::kMomentShare,        Text::kMomentAwaitsRank,  Text::kMomentComputes,
    Text::kMomentNoCompute,    Text::kMomentCopies,      Text::kMomentWaits,
    Text::kMomentWaitsUnbegun, Text::kMomentWaitsSlot,   Text::kMomentBetween,
    Text::kMomentNothing,      Text::kMomentHiddenOne,   Text::kMomentHiddenMany,
    Text::kMomentExposedOne,   Text::kMomentExposedMany, Text::kMomentExposed,
    Text::kMomentBecause,
});
static_assert(kMomentTexts.size() == analysis::kNumMomentPhrases);

// In English the words of the command line.
const analysis::MomentWords& MomentWordsOf(Language language);

}  // namespace shardscope::ui
