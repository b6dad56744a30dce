// Terms: a word that a panel shows and the sentence that explains it where the mouse is over it.
#pragma once

#include <array>

#include "trace/base/words.h"
#include "ui/text.h"

namespace shardscope::ui {

struct Term {
  Text name;
  Text tip;
};

// By query::MemoryCategory.
inline constexpr std::array<Term, words::kNumMemoryCategories> kMemoryTerms = {{
    {Text::kMemoryParameterShard, Text::kMemoryParameterShardTip},
    {Text::kMemoryUnshardedParameter, Text::kMemoryUnshardedParameterTip},
    {Text::kMemoryGradient, Text::kMemoryGradientTip},
    {Text::kMemoryGradientShard, Text::kMemoryGradientShardTip},
    {Text::kMemoryCommunicationBuffer, Text::kMemoryCommunicationBufferTip},
    {Text::kMemoryOptimizer, Text::kMemoryOptimizerTip},
    {Text::kMemoryActivation, Text::kMemoryActivationTip},
    {Text::kMemoryTemporary, Text::kMemoryTemporaryTip},
    {Text::kMemoryHost, Text::kMemoryHostTip},
    {Text::kMemoryOther, Text::kMemoryOtherTip},
}};

// What a stretch of time of a rank is made of.
inline constexpr Term kTermCompute = {Text::kCompute, Text::kOverlapComputeTip};
inline constexpr Term kTermExposed = {Text::kExposed, Text::kOverlapExposedTip};
inline constexpr Term kTermExposedCopy = {Text::kOverlapExposedCopy, Text::kOverlapExposedCopyTip};
inline constexpr Term kTermIdle = {Text::kIdle, Text::kOverlapIdleTip};

}  // namespace shardscope::ui
