#include "ui/hang_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "trace/base/collective_names.h"

namespace shardscope::ui {
namespace {

using analysis::GroupHang;
using analysis::Mismatch;
using analysis::PeerWait;

enum class HangPhrase : uint8_t {
#define SHARDSCOPE_HANG(name, chinese) name,
#include "ui/catalogue/hang.inc"
#undef SHARDSCOPE_HANG
};

template <typename... Args>
std::string Said(HangPhrase phrase, const Args&... args) {
  constexpr const char* kPhrases[] = {
#define SHARDSCOPE_HANG(name, chinese) chinese,
#include "ui/catalogue/hang.inc"
#undef SHARDSCOPE_HANG
  };
  return fmt::format(fmt::runtime(kPhrases[static_cast<size_t>(phrase)]), args...);
}

// "0, 2, 5-9"
std::string RanksOf(const std::vector<int32_t>& ranks) { return analysis::RankList(ranks, "-"); }

std::string TitleOf(const GroupHang& group) {
  return SaysPurpose(group.description)
             ? Said(HangPhrase::kGroupWithPurpose, group.name, group.description)
             : Said(HangPhrase::kGroup, group.name + " ");
}

// What each of these has asked for last.
std::string LastOf(const GroupHang& group, const std::vector<int32_t>& ranks) {
  constexpr size_t kMostNamed = 4;
  const auto position_of = [&group](int32_t rank) {
    const auto found = std::ranges::find(group.positions, rank, &analysis::RankPosition::rank);
    return found == group.positions.end() ? analysis::RankPosition() : *found;
  };
  const auto last = [](const analysis::RankPosition& position) {
    const std::string name = position.last_name.empty() ? "" : position.last_name + " ";
    return fmt::format("{}#{}", name, position.last_enqueued);
  };
  if (ranks.size() == 1) {
    const analysis::RankPosition position = position_of(ranks.front());
    if (position.last_enqueued < 0) return Said(HangPhrase::kIssuedNone);
    return position.asked_at.empty() ? Said(HangPhrase::kLast, last(position))
                                     : Said(HangPhrase::kLastAt, last(position), position.asked_at);
  }
  std::string text;
  for (size_t at = 0; at < ranks.size(); ++at) {
    if (at == kMostNamed) return text + Said(HangPhrase::kMoreRanks, ranks.size() - at);
    if (at > 0) text += "，";
    const analysis::RankPosition position = position_of(ranks[at]);
    text += position.last_enqueued < 0 ? Said(HangPhrase::kNoneOfOne, ranks[at])
                                       : Said(HangPhrase::kLastOfOne, ranks[at], last(position));
  }
  return text;
}

std::string MismatchSentence(const GroupHang& group, const Mismatch& mismatch) {
  HangPhrase phrase = HangPhrase::kDiffers;
  if (mismatch.kind == Mismatch::Kind::kOrder) phrase = HangPhrase::kDiffersInOrder;
  if (mismatch.kind == Mismatch::Kind::kTypes) phrase = HangPhrase::kDiffersInTypes;
  if (mismatch.kind == Mismatch::Kind::kSizes) phrase = HangPhrase::kDiffersInSizes;
  return Said(phrase, TitleOf(group), mismatch.sequence, RanksOf(mismatch.other_ranks),
              mismatch.others_asked, RanksOf(mismatch.ranks), mismatch.asked);
}

std::string PendingSentence(const GroupHang& group, const analysis::PendingCollective& pending) {
  const std::string what =
      pending.name.empty()
          ? Said(HangPhrase::kUnnamedCollective, TitleOf(group), pending.sequence)
          : Said(HangPhrase::kCollective, TitleOf(group), pending.name, pending.sequence);
  const std::string unknown = pending.without_dump.empty()
                                  ? ""
                                  : Said(HangPhrase::kWithoutDump, RanksOf(pending.without_dump));
  const std::string waiting = RanksOf(pending.waiting);
  const std::string wait = Said(HangPhrase::kWaits, waiting, what + " ");
  if (!pending.not_issued.empty()) {
    return Said(HangPhrase::kNotIssued, wait, RanksOf(pending.not_issued),
                LastOf(group, pending.not_issued), unknown);
  }
  if (!pending.without_dump.empty()) return Said(HangPhrase::kMaybeIssued, wait, unknown);
  if (!pending.completed.empty()) {
    return Said(HangPhrase::kNotSeenItsEnd, waiting, what + " ", RanksOf(pending.completed));
  }
  if (!pending.not_started.empty() && pending.not_started.size() < pending.waiting.size()) {
    return Said(HangPhrase::kNotBegun, what, RanksOf(pending.not_started));
  }
  return Said(HangPhrase::kAllInIt, what + " ");
}

std::string PeerSentence(const GroupHang& group, const PeerWait& peer) {
  const std::string what =
      Said(HangPhrase::kCollective, TitleOf(group), peer.name, peer.sequence) + " ";
  const std::string wait = Said(HangPhrase::kWaits, peer.rank, what);
  switch (peer.other) {
    case PeerWait::Other::kUnknown:
      break;
    case PeerWait::Other::kHasNoDump:
      return Said(HangPhrase::kPeerWithoutDump, wait, peer.other_rank);
    case PeerWait::Other::kIsInIt:
      return Said(HangPhrase::kPeerInIt, wait, peer.other_rank);
    case PeerWait::Other::kHasNotAsked:
      return Said(peer.is_send ? HangPhrase::kPeerNotReceived : HangPhrase::kPeerNotSent, wait,
                  peer.other_rank);
  }
  return Said(HangPhrase::kPeer, wait);
}

std::string GroupSentence(const GroupHang& group) {
  if (group.mismatch) return MismatchSentence(group, *group.mismatch);
  if (group.pending) return PendingSentence(group, *group.pending);
  return group.peer ? PeerSentence(group, *group.peer) : "";
}

}  // namespace

std::string HangSentence(Language language, const analysis::Hang& hang) {
  if (language == Language::kEnglish || !hang.is_hang || hang.groups.empty()) return hang.sentence;
  if (hang.num_in_cycle == 0) return GroupSentence(hang.groups.front());
  std::string text = Said(HangPhrase::kCycle);
  const size_t count = std::min(static_cast<size_t>(hang.num_in_cycle), hang.groups.size());
  for (size_t at = 0; at < count; ++at) text += GroupSentence(hang.groups[at]);
  return text;
}

}  // namespace shardscope::ui
