#include "trace/analysis/collectives/hang.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "trace/base/collective_names.h"
#include "trace/base/number_list.h"
#include "trace/base/text.h"

namespace shardscope::analysis {
namespace {

using query::FlightEntry;
using query::FlightState;

constexpr size_t kMostListedRanks = 4;

std::string RanksWord(const std::vector<int32_t>& ranks, bool begins_sentence = false) {
  const std::string_view word = begins_sentence ? "Rank" : "rank";
  return fmt::format("{}{} {}", word, ranks.size() == 1 ? "" : "s", RankList(ranks));
}

std::string_view Has(const std::vector<int32_t>& ranks) {
  return ranks.size() == 1 ? "has" : "have";
}

// The types in "Float [4, 2], Half [8]".
std::string TypesOf(std::string_view tensors) {
  std::string types;
  int depth = 0;
  for (const char letter : tensors) {
    if (letter == '[') ++depth;
    if (depth == 0) types += letter;
    if (letter == ']') --depth;
  }
  return types;
}

// What is called as one collective: several entries where they are coalesced.
struct Asked {
  std::string names;
  std::string tensors;  // that ranks have to agree on

  std::string Text() const { return tensors.empty() ? names : names + " of " + tensors; }
  friend auto operator<=>(const Asked&, const Asked&) = default;
};

struct Called {
  Asked asked;
  size_t num_entries = 0;
  int64_t created_ns = std::numeric_limits<int64_t>::max();
  FlightState state = FlightState::kScheduled;
  int32_t stack = 0;

  void Take(const FlightEntry& entry) {
    constexpr size_t kMostNamed = 4;
    created_ns = std::min(created_ns, entry.created_ns);
    state = std::max(state, entry.state);
    if (stack == 0) stack = entry.stack;
    if (++num_entries > kMostNamed) return;
    const std::string_view name = CollectiveName(entry.name);
    asked.names += (asked.names.empty() ? "" : " + ") + std::string(name);
    if (!HasEqualSizes(CollectiveKindOf(name)) || entry.input.empty()) return;
    asked.tensors += (asked.tensors.empty() ? "" : " + ") + entry.input;
  }
};

struct Peer {
  int64_t sequence = 0;
  int32_t stack = 0;
  std::string name;
};

// A rank in a group.
struct Member {
  RankPosition position;
  std::map<int64_t, Called> called;  // by sequence
  std::vector<Peer> peers;           // sends and receives that have not ended
};

// The innermost frame of the program itself: PyTorch's own are in every stack.
std::string PlaceOf(std::string_view stack) {
  std::string_view rest = stack;
  while (!rest.empty()) {
    const std::string_view frame = TakeField(&rest, '\n');
    if (!Contains(frame, "/torch/") && !Contains(frame, "torch/distributed")) {
      return std::string(frame);
    }
  }
  return std::string(FirstLine(stack));
}

class GroupReader {
 public:
  GroupReader(const query::Snapshot& snapshot, std::string name) : snapshot_(snapshot) {
    hang_.name = std::move(name);
  }

  void AddGroup(const query::FlightGroup& group);
  void AddEntry(const FlightEntry& entry);
  // `with_dump`: every rank that has one.
  GroupHang Take(const std::set<int32_t>& with_dump);

 private:
  Member& MemberOf(int32_t rank) {
    Member& member = members_[rank];
    member.position.rank = rank;
    return member;
  }
  void Place(Member* member);
  std::string Title() const;
  void FindMismatch();
  Mismatch MismatchOf(int64_t sequence, const std::map<Asked, std::vector<int32_t>>& ranks_of);
  void FindPending();
  void FindPeers();
  PeerWait PeerWaitOf(const Member& member, const Peer& peer) const;
  std::string PeerSentence(const PeerWait& wait) const;
  std::string MismatchSentence() const;
  std::string PendingSentence() const;
  std::string LastOf(const std::vector<int32_t>& ranks) const;

  const query::Snapshot& snapshot_;
  GroupHang hang_;
  std::set<int32_t> told_members_;
  std::map<int32_t, Member> members_;
};

void GroupReader::AddGroup(const query::FlightGroup& group) {
  if (hang_.description.empty()) hang_.description = group.description;
  told_members_.insert(group.members.begin(), group.members.end());
  RankPosition& position = MemberOf(group.rank).position;
  position.last_enqueued = std::max(position.last_enqueued, group.last_enqueued);
  position.last_started = std::max(position.last_started, group.last_started);
  position.last_completed = std::max(position.last_completed, group.last_completed);
}

void GroupReader::AddEntry(const FlightEntry& entry) {
  Member& member = MemberOf(entry.rank);
  if (!entry.is_p2p) {
    if (entry.sequence >= 0) member.called[entry.sequence].Take(entry);
  } else if (entry.state != FlightState::kCompleted) {
    member.peers.push_back({entry.sequence, entry.stack, std::string(CollectiveName(entry.name))});
  }
}

void GroupReader::Place(Member* member) {
  RankPosition& position = member->position;
  for (const auto& [sequence, called] : member->called) {
    position.last_enqueued = std::max(position.last_enqueued, sequence);
    if (called.state >= FlightState::kStarted) {
      position.last_started = std::max(position.last_started, sequence);
    }
    if (called.state == FlightState::kCompleted) {
      position.last_completed = std::max(position.last_completed, sequence);
    }
  }
  position.last_started = std::max(position.last_started, position.last_completed);
  position.last_enqueued = std::max(position.last_enqueued, position.last_started);
  const auto last = member->called.find(position.last_enqueued);
  if (last == member->called.end()) return;
  position.last_name = last->second.asked.names;
  if (last->second.stack > 0) {
    position.asked_at = PlaceOf(snapshot_.names[static_cast<size_t>(last->second.stack)]);
  }
}

std::string GroupReader::Title() const {
  const std::string& description = hang_.description;
  if (!SaysPurpose(description)) return "group " + hang_.name;
  return fmt::format("group {} ({})", hang_.name, description);
}

Mismatch GroupReader::MismatchOf(int64_t sequence,
                                 const std::map<Asked, std::vector<int32_t>>& ranks_of) {
  const auto most =
      std::max_element(ranks_of.begin(), ranks_of.end(), [](const auto& a, const auto& b) {
        if (a.second.size() != b.second.size()) return a.second.size() < b.second.size();
        return a.second.front() > b.second.front();  // of as many: those with the first rank
      });
  Mismatch mismatch{.sequence = sequence};
  mismatch.other_ranks = most->second;
  const Asked* asked = nullptr;
  for (const auto& [what, ranks] : ranks_of) {
    if (what == most->first) continue;
    if (asked == nullptr || ranks.front() < mismatch.ranks.front()) asked = &what;
    mismatch.ranks.insert(mismatch.ranks.end(), ranks.begin(), ranks.end());
    std::sort(mismatch.ranks.begin(), mismatch.ranks.end());
  }
  if (asked->names != most->first.names) {
    mismatch.kind = Mismatch::Kind::kOperation;
    mismatch.asked = asked->names;
    mismatch.others_asked = most->first.names;
    // Each asked for what the other did, later.
    const auto asks_later = [&](int32_t rank, const Asked& what) {
      const auto& called = members_.at(rank).called;
      return std::any_of(called.upper_bound(sequence), called.end(),
                         [&](const auto& one) { return one.second.asked == what; });
    };
    if (asks_later(mismatch.ranks.front(), most->first) ||
        asks_later(mismatch.other_ranks.front(), *asked)) {
      mismatch.kind = Mismatch::Kind::kOrder;
    }
    return mismatch;
  }
  mismatch.kind = TypesOf(asked->tensors) != TypesOf(most->first.tensors) ? Mismatch::Kind::kTypes
                                                                          : Mismatch::Kind::kSizes;
  mismatch.asked = asked->Text();
  mismatch.others_asked = most->first.Text();
  return mismatch;
}

void GroupReader::FindMismatch() {
  std::map<int64_t, std::map<Asked, std::vector<int32_t>>> ranks_of;
  for (const auto& [rank, member] : members_) {
    for (const auto& [sequence, called] : member.called) {
      ranks_of[sequence][called.asked].push_back(rank);
    }
  }
  for (const auto& [sequence, asked] : ranks_of) {
    if (asked.size() < 2) continue;
    hang_.mismatch = MismatchOf(sequence, asked);
    return;
  }
}

void GroupReader::FindPending() {
  int64_t first = std::numeric_limits<int64_t>::max();
  for (const auto& [rank, member] : members_) {
    const RankPosition& position = member.position;
    if (position.last_enqueued > position.last_completed) {
      // What lies between is only known of those that are remembered.
      const auto next = member.called.upper_bound(position.last_completed);
      first = std::min(first, next == member.called.end() ? position.last_enqueued : next->first);
    }
  }
  if (first == std::numeric_limits<int64_t>::max()) return;
  PendingCollective pending{.sequence = first};
  pending.created_ns = std::numeric_limits<int64_t>::max();
  for (const auto& [rank, member] : members_) {
    const RankPosition& position = member.position;
    if (!position.has_dump) {
      pending.without_dump.push_back(rank);
    } else if (position.last_completed >= first) {
      pending.completed.push_back(rank);
    } else if (position.last_enqueued < first) {
      pending.not_issued.push_back(rank);
    } else {
      pending.waiting.push_back(rank);
      if (position.last_started < first) pending.not_started.push_back(rank);
    }
    const auto called = member.called.find(first);
    if (called == member.called.end()) continue;
    if (pending.name.empty()) pending.name = called->second.asked.names;
    pending.created_ns = std::min(pending.created_ns, called->second.created_ns);
  }
  hang_.pending = std::move(pending);
}

// "send 0->1" or "recv 1<-0": places in the group, as those that pass it count them.
struct Pair {
  bool is_send = false;
  int32_t self = 0;
  int32_t other = 0;
};

std::optional<Pair> PairOf(std::string_view name) {
  Pair pair;
  pair.is_send = name.starts_with("send ");
  if (!pair.is_send && !name.starts_with("recv ")) return std::nullopt;
  const char* at = name.data() + 5;
  const char* const end = name.data() + name.size();
  const auto self = std::from_chars(at, end, pair.self);
  if (self.ec != std::errc() || end - self.ptr < 3) return std::nullopt;
  if (std::from_chars(self.ptr + 2, end, pair.other).ec != std::errc()) return std::nullopt;
  return pair;
}

PeerWait GroupReader::PeerWaitOf(const Member& member, const Peer& peer) const {
  PeerWait wait{.rank = member.position.rank, .sequence = peer.sequence, .name = peer.name};
  const std::optional<Pair> pair = PairOf(peer.name);
  if (!pair || pair->other < 0) return wait;
  wait.is_send = pair->is_send;
  // Ranks of a group in its own numbers.
  int32_t other = pair->other;
  if (static_cast<size_t>(other) < told_members_.size()) {
    other = *std::next(told_members_.begin(), other);
  }
  wait.other_rank = other;
  wait.other = PeerWait::Other::kHasNoDump;
  const auto found = members_.find(other);
  if (found == members_.end() || !found->second.position.has_dump) return wait;
  const auto answers = [&](const Peer& one) {
    const std::optional<Pair> its = PairOf(one.name);
    return its && its->is_send != pair->is_send && its->other == pair->self;
  };
  const bool is_in_it =
      std::any_of(found->second.peers.begin(), found->second.peers.end(), answers);
  wait.other = is_in_it ? PeerWait::Other::kIsInIt : PeerWait::Other::kHasNotAsked;
  return wait;
}

std::string GroupReader::PeerSentence(const PeerWait& wait) const {
  const std::string text =
      fmt::format("Rank {} waits in {} #{} of {}", wait.rank, wait.name, wait.sequence, Title());
  switch (wait.other) {
    case PeerWait::Other::kUnknown:
      break;
    case PeerWait::Other::kHasNoDump:
      return text + fmt::format("; rank {} has no dump.", wait.other_rank);
    case PeerWait::Other::kIsInIt:
      return text + fmt::format(", and rank {} in the other side of it.", wait.other_rank);
    case PeerWait::Other::kHasNotAsked:
      return text + fmt::format("; rank {} has not asked for the {}.", wait.other_rank,
                                wait.is_send ? "receive" : "send");
  }
  return text + ".";
}

void GroupReader::FindPeers() {
  constexpr size_t kMostPeers = 20;
  for (const auto& [rank, member] : members_) {
    for (const Peer& peer : member.peers) {
      if (hang_.peers.size() == kMostPeers) return;
      const PeerWait wait = PeerWaitOf(member, peer);
      hang_.peers.push_back(PeerSentence(wait));
      if (!hang_.peer) hang_.peer = wait;
    }
  }
}

std::string GroupReader::MismatchSentence() const {
  const Mismatch& mismatch = *hang_.mismatch;
  std::string_view of = "";
  if (mismatch.kind == Mismatch::Kind::kTypes) of = " in its types";
  if (mismatch.kind == Mismatch::Kind::kSizes) of = " in its sizes";
  std::string text = fmt::format("Collective #{} of {} differs{}: {} asked for {}, {} for {}",
                                 mismatch.sequence, Title(), of, RanksWord(mismatch.other_ranks),
                                 mismatch.others_asked, RanksWord(mismatch.ranks), mismatch.asked);
  if (mismatch.kind == Mismatch::Kind::kOrder) {
    text += "; one of them asks for the other's later: the order differs";
  }
  return text + ".";
}

// "its last was reduce_scatter #40", of several "the last of rank 1 was ..., of rank 2 ..."
std::string GroupReader::LastOf(const std::vector<int32_t>& ranks) const {
  const auto last = [this](int32_t rank) -> std::string {
    const RankPosition& position = members_.at(rank).position;
    if (position.last_enqueued < 0) return "none";
    if (position.last_name.empty()) return fmt::format("#{}", position.last_enqueued);
    return fmt::format("{} #{}", position.last_name, position.last_enqueued);
  };
  if (ranks.size() == 1) {
    const std::string place = members_.at(ranks.front()).position.asked_at;
    const std::string asked = place.empty() ? "" : ", asked for in " + place;
    return members_.at(ranks.front()).position.last_enqueued < 0
               ? "it has issued none"
               : fmt::format("its last was {}{}", last(ranks.front()), asked);
  }
  std::string text = "the last";
  for (size_t at = 0; at < ranks.size(); ++at) {
    if (at == kMostListedRanks) return text + fmt::format(", {} more", ranks.size() - at);
    text += fmt::format("{} of rank {} was {}", at == 0 ? "" : ",", ranks[at], last(ranks[at]));
  }
  return text;
}

std::string GroupReader::PendingSentence() const {
  const PendingCollective& pending = *hang_.pending;
  const std::string what =
      fmt::format("{} #{} of {}", pending.name.empty() ? "collective" : pending.name,
                  pending.sequence, Title());
  const std::string unknown =
      pending.without_dump.empty()
          ? ""
          : fmt::format("; there is no dump of {}", RanksWord(pending.without_dump));
  const std::string wait = fmt::format("{} {} in {}", RanksWord(pending.waiting, true),
                                       pending.waiting.size() == 1 ? "waits" : "wait", what);
  if (!pending.not_issued.empty()) {
    return fmt::format("{}; {} {} not issued it: {}{}.", wait, RanksWord(pending.not_issued),
                       Has(pending.not_issued), LastOf(pending.not_issued), unknown);
  }
  if (!pending.without_dump.empty()) {
    return fmt::format("{}{}: whether {} issued it is not known.", wait, unknown,
                       pending.without_dump.size() == 1 ? "it has" : "they have");
  }
  if (!pending.completed.empty()) {
    return fmt::format(
        "{} {} not seen the end of {}, which {} {}: {} still busy, or stuck behind "
        "it.",
        RanksWord(pending.waiting, true), Has(pending.waiting), what, RanksWord(pending.completed),
        Has(pending.completed), pending.waiting.size() == 1 ? "its GPU is" : "their GPUs are");
  }
  if (!pending.not_started.empty() && pending.not_started.size() < pending.waiting.size()) {
    return fmt::format(
        "All ranks have issued {}; {} {} not begun it: what comes before it on {} "
        "has not ended.",
        what, RanksWord(pending.not_started), Has(pending.not_started),
        pending.not_started.size() == 1 ? "its GPU" : "their GPUs");
  }
  return fmt::format(
      "All ranks are in {}, and it does not end: look at the network and the GPUs, "
      "not at the program.",
      what);
}

GroupHang GroupReader::Take(const std::set<int32_t>& with_dump) {
  for (const int32_t rank : told_members_) MemberOf(rank);
  for (auto& [rank, member] : members_) {
    member.position.has_dump = with_dump.contains(rank);
    Place(&member);
  }
  FindMismatch();
  FindPending();
  FindPeers();
  if (hang_.mismatch) {
    hang_.sentence = MismatchSentence();
  } else if (hang_.pending) {
    hang_.sentence = PendingSentence();
  } else if (!hang_.peers.empty()) {
    hang_.sentence = hang_.peers.front();
  }
  for (const auto& [rank, member] : members_) hang_.positions.push_back(member.position);
  return std::move(hang_);
}

// What a group's sentence is worth as that of all: its cause lies in it, and not in another group.
// A culprit is a rank that has not issued what others wait in, and waits in no group itself.
enum class Weight : uint8_t {
  kMismatch,
  kCulprits,
  kSomeCulprits,  // others of those that have not issued it wait elsewhere
  kPeer,
  kUnknown,
  kCycle,
  kAllIssued,
  kNone
};

Weight WeightOf(const GroupHang& group, const std::map<int32_t, int>& waits_of) {
  if (group.mismatch) return Weight::kMismatch;
  if (!group.pending) return group.peers.empty() ? Weight::kNone : Weight::kPeer;
  const PendingCollective& pending = *group.pending;
  if (!pending.not_issued.empty()) {
    const auto stuck = std::count_if(pending.not_issued.begin(), pending.not_issued.end(),
                                     [&](int32_t rank) { return waits_of.contains(rank); });
    if (stuck == std::ssize(pending.not_issued)) return Weight::kCycle;
    return stuck == 0 ? Weight::kCulprits : Weight::kSomeCulprits;
  }
  return pending.without_dump.empty() ? Weight::kAllIssued : Weight::kUnknown;
}

}  // namespace

std::string_view CollectiveName(std::string_view recorded) {
  const size_t colon = recorded.find(':');
  return colon == std::string_view::npos ? recorded : recorded.substr(colon + 1);
}

std::string_view Name(Mismatch::Kind kind) {
  switch (kind) {
    case Mismatch::Kind::kOperation:
      return "operation";
    case Mismatch::Kind::kOrder:
      return "order";
    case Mismatch::Kind::kTypes:
      return "types";
    case Mismatch::Kind::kSizes:
      return "sizes";
  }
  return "";
}

std::string RankList(const std::vector<int32_t>& ranks, std::string_view to) {
  std::vector<std::string> parts;
  for (const NumberRun& run : RunsOf(ranks)) {
    if (run.last - run.first > 2) {
      parts.push_back(fmt::format("{}{}{}", run.first, to, run.last));
    } else {
      for (int32_t one = run.first; one <= run.last; ++one) parts.push_back(std::to_string(one));
    }
  }
  return Join(parts, ", ");
}

Hang FindHang(const query::Snapshot& snapshot) {
  Hang hang;
  std::set<int32_t> with_dump;
  std::map<std::string, GroupReader> readers;
  const auto reader = [&](const std::string& name) -> GroupReader& {
    return readers.try_emplace(name, snapshot, name).first->second;
  };
  for (const query::FlightGroup& group : snapshot.flight_groups) {
    with_dump.insert(group.rank);
    reader(group.name).AddGroup(group);
  }
  for (const FlightEntry& entry : snapshot.flight_entries) {
    with_dump.insert(entry.rank);
    reader(entry.group).AddEntry(entry);
  }
  if (with_dump.empty()) return hang;
  hang.num_dumps = static_cast<int>(with_dump.size());
  std::map<int32_t, int> waits_of;  // by rank, in how many groups
  for (auto& [name, one] : readers) {
    hang.groups.push_back(one.Take(with_dump));
    if (!hang.groups.back().pending) continue;
    for (const int32_t rank : hang.groups.back().pending->waiting) ++waits_of[rank];
  }
  const auto key = [&](const GroupHang& group) {
    const int64_t since_ns =
        group.pending ? group.pending->created_ns : std::numeric_limits<int64_t>::max();
    return std::pair(WeightOf(group, waits_of), since_ns);
  };
  std::stable_sort(hang.groups.begin(), hang.groups.end(),
                   [&](const GroupHang& a, const GroupHang& b) { return key(a) < key(b); });
  const GroupHang& first = hang.groups.front();
  const Weight weight = WeightOf(first, waits_of);
  hang.is_hang = weight != Weight::kNone;
  hang.sentence = first.sentence;
  if (weight == Weight::kCycle) {
    hang.sentence = "Groups wait for one another: ";
    for (size_t at = 0; at < std::min<size_t>(hang.groups.size(), 2); ++at) {
      if (WeightOf(hang.groups[at], waits_of) != Weight::kCycle) break;
      hang.sentence += (at > 0 ? " " : "") + hang.groups[at].sentence;
      ++hang.num_in_cycle;
    }
  } else if (weight == Weight::kNone) {
    hang.sentence = fmt::format("Nothing is pending: all that {} remembered has ended.",
                                RanksWord({with_dump.begin(), with_dump.end()}));
  }
  return hang;
}

}  // namespace shardscope::analysis
