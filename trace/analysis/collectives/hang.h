// Where each rank is in its collectives, and who holds up whom, from the dumps of flight recorders:
// for each group the sequence that each rank has reached, the first collective that ranks do not
// agree on, and the ranks that have not asked for the one that others wait in. Pure functions.
//
// A recorder keeps the newest entries of a rank only, so that ranks are compared where both
// have some. It looks for begun and ended collectives now and then: what has begun may be called
// scheduled. What comes before a collective that has ended, has ended: a group's run in order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trace/query/snapshot.h"

namespace shardscope::analysis {

// How far a rank is in the collectives of a group; sequences are -1 if it asked for none.
struct RankPosition {
  int32_t rank = 0;
  bool has_dump = false;
  int64_t last_enqueued = -1;
  int64_t last_started = -1;
  int64_t last_completed = -1;
  std::string last_name;  // of the last one that it asked for; empty: not remembered
  std::string asked_at;   // "backward (train.py:31)": where in the program; empty: not recorded
};

// What ranks ask for as the same collective, and is not.
struct Mismatch {
  enum class Kind : uint8_t { kOperation, kOrder, kTypes, kSizes };
  Kind kind = Kind::kOperation;
  int64_t sequence = 0;
  std::vector<int32_t> ranks;  // that differ from the most
  std::string asked;           // by them, the first of them
  std::vector<int32_t> other_ranks;
  std::string others_asked;
};

// A collective that has not ended, on at least one rank.
struct PendingCollective {
  int64_t sequence = 0;
  std::string name;
  int64_t created_ns = 0;             // by the first that has it
  std::vector<int32_t> waiting;       // asked for it, and have not seen its end
  std::vector<int32_t> not_started;   // of these: not on the GPU yet, as far as was seen
  std::vector<int32_t> not_issued;    // have not asked for it
  std::vector<int32_t> without_dump;  // not known
  std::vector<int32_t> completed;     // have seen its end
};

// A send or receive that has not ended.
struct PeerWait {
  enum class Other : uint8_t { kUnknown, kHasNoDump, kIsInIt, kHasNotAsked };
  int32_t rank = 0;
  int64_t sequence = 0;
  std::string name;  // "send 0->1"
  bool is_send = false;
  int32_t other_rank = -1;  // -1: kUnknown
  Other other = Other::kUnknown;
};

struct GroupHang {
  std::string name;
  std::string description;
  std::vector<RankPosition> positions;  // ascending rank; members without a dump too
  std::optional<Mismatch> mismatch;     // the first
  std::optional<PendingCollective> pending;
  std::optional<PeerWait> peer;    // the first pending send or receive
  std::vector<std::string> peers;  // all of them, in words
  std::string sentence;            // what holds up this group; empty: nothing
};

struct Hang {
  std::string sentence;  // names whose fault it is; never empty if there are dumps
  bool is_hang = false;  // false: nothing is pending
  int num_dumps = 0;     // ranks with one
  // So many of the first groups wait for one another: the sentence is those of all of these.
  int num_in_cycle = 0;
  std::vector<GroupHang> groups;  // by name; those that hold up others first
};

// No groups and no sentence where the trace has no dump of a flight recorder.
Hang FindHang(const query::Snapshot& snapshot);

std::string_view Name(Mismatch::Kind kind);

// "all_gather" of "nccl:all_gather".
std::string_view CollectiveName(std::string_view recorded);

// "0, 2, 5 to 9"; `to` stands between the ends of a run of four or more.
std::string RankList(const std::vector<int32_t>& ranks, std::string_view to = " to ");

}  // namespace shardscope::analysis
