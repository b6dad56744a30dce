#include "ui/verdict.h"

#include <algorithm>
#include <array>

#include "trace/base/units.h"
#include "ui/text.h"
#include "ui/values.h"

namespace shardscope::ui {
namespace {

using analysis::Bound;
using analysis::LossKind;

struct LossTexts {
  Text reason;
  Text first_try;
};

// In the order of LossKind.
constexpr auto kLossTexts = std::to_array<LossTexts>({
    {Text::kLossSlowRank, Text::kTrySlowRank},
    {Text::kLossUnevenRanks, Text::kTryUnevenRanks},
    {Text::kLossLateIssue, Text::kTryLateIssue},
    {Text::kLossQueued, Text::kTryQueued},
    {Text::kLossSlowTransfer, Text::kTrySlowTransfer},
    {Text::kLossFirstGather, Text::kTryFirstGather},
    {Text::kLossTail, Text::kTryTail},
    {Text::kLossOnPath, Text::kTryOnPath},
    {Text::kLossCommunication, Text::kTryCommunication},
    {Text::kLossBubble, Text::kTryBubble},
    {Text::kLossSlot, Text::kTrySlot},
    {Text::kLossData, Text::kTryData},
    {Text::kLossHost, Text::kTryHost},
    {Text::kLossCopy, Text::kTryCopy},
});
static_assert(kLossTexts.size() == analysis::kNumLossKinds);

const LossTexts& TextsOf(LossKind kind) { return kLossTexts[static_cast<size_t>(kind)]; }

Text TextOf(Bound bound) {
  switch (bound) {
    case Bound::kUnknown:
      return Text::kVerdictUnknown;
    case Bound::kCompute:
      return Text::kVerdictCompute;
    case Bound::kCommunication:
      return Text::kVerdictCommunication;
    case Bound::kRanks:
      return Text::kVerdictRanks;
    case Bound::kPipeline:
      return Text::kVerdictPipeline;
    case Bound::kHost:
      return Text::kVerdictHost;
    case Bound::kCopies:
      return Text::kVerdictCopies;
    case Bound::kCores:
      return Text::kVerdictCores;
  }
  return Text::kVerdictUnknown;
}

// What the breakdown of a step calls a loss that no stall has.
Text PartOf(LossKind kind) {
  if (kind == LossKind::kCopy) return Text::kOverlapExposedCopy;
  return kind == LossKind::kCommunication ? Text::kExposed : Text::kIdle;
}

bool HasCause(const analysis::Verdict& verdict) {
  return verdict.bound != Bound::kUnknown && verdict.bound != Bound::kCompute;
}

}  // namespace

std::string VerdictLine(Language language, const analysis::Verdict& verdict) {
  const std::string share = FormatPercent(verdict.share);
  if (verdict.recomputed > 0) {
    return TrFormat(language, Text::kVerdictRecompute, share, FormatPercent(verdict.recomputed));
  }
  if (!HasCause(verdict)) return TrFormat(language, TextOf(verdict.bound), share);
  const std::string reason = LossReason(language, verdict.cause, verdict.rank);
  return TrFormat(language, TextOf(verdict.bound), share, reason);
}

std::string LossReason(Language language, LossKind kind, int32_t rank) {
  return TrFormat(language, TextsOf(kind).reason, rank);
}

std::string StallNote(Language language, const analysis::Explanation& explanation) {
  if (!HasCause(explanation.verdict)) return "";
  const std::vector<analysis::Loss>& losses = explanation.losses.losses;
  const auto cause = std::ranges::find(losses, explanation.verdict.cause, &analysis::Loss::kind);
  // What a slow rank costs is in the stalls of the others.
  if (cause == losses.end() || cause->kind == LossKind::kSlowRank) return "";
  if (cause->ops.empty()) {
    return TrFormat(language, Text::kVerdictOutside, FormatDuration(cause->ns_per_step),
                    Tr(language, PartOf(cause->kind)));
  }
  const double busy_ns = analysis::BusySlotNs(*cause, explanation.losses);
  return busy_ns > 0 ? TrFormat(language, Text::kVerdictBeside, FormatDuration(busy_ns)) : "";
}

std::string VerdictTry(Language language, const analysis::Verdict& verdict) {
  if (verdict.recomputed > 0) {
    return TrFormat(language, Text::kVerdictTry, Tr(language, Text::kTryRecomputingLess));
  }
  if (!HasCause(verdict)) return "";
  return TrFormat(language, Text::kVerdictTry, Tr(language, TextsOf(verdict.cause).first_try));
}

}  // namespace shardscope::ui
