// What a moment is in words: the same sentences for app and command line.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "trace/analysis/moment/moment.h"
#include "trace/base/enum_count.h"

namespace shardscope::analysis {

// What sentences are made of; behind each what its placeholders stand for, in this order.
enum class MomentPhrase : uint8_t {
  kAnd,           // between two of a list
  kOp,            // kind, object
  kTheOp,         // the same of communication
  kShare,         // op, percent
  kAwaitsRank,    // op, rank
  kComputes,      // rank, ops
  kNoCompute,     // rank
  kCopies,        // rank, ops
  kWaits,         // rank, op
  kWaitsUnbegun,  // rank, op
  kWaitsSlot,     // rank
  kBetween,       // rank; two steps
  kNothing,       // rank
  kHiddenOne,     // clause, op
  kHiddenMany,    // clause, ops
  kExposedOne,    // clause, op
  kExposedMany,   // clause, ops
  kExposed,       // clause
  kBecause,       // sentence, cause
};
inline constexpr size_t kNumMomentPhrases = kCountOf<MomentPhrase>;

// How a language says it; `{}` and `{1}` are fmt placeholders.
struct MomentWords {
  std::array<std::string, kNumMomentPhrases> phrases;      // indexed by MomentPhrase
  std::string (*kind)(const query::PlanOp& op) = nullptr;  // "all-gather"
  std::string (*cause)(const Stall& stall) = nullptr;
};
const MomentWords& EnglishMomentWords();

// "rank 0 computes forward of block2.mlp while the all-gather of block3 (61 % done) is under way,
// hidden behind it". No capital and no full stop.
std::string MomentSentence(const RankMoment& moment, const MomentWords& words);

}  // namespace shardscope::analysis
