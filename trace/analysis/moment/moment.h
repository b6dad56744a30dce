// Moment: what every rank does at one time of a run: which ops run and how far they are, what holds
// up its compute stream and why, what is live. For the time lens, `shardscope moment` and
// `shardscope shot --at` alike; trace/analysis/moment/moment_words.h has the sentences.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trace/analysis/collectives/collectives.h"
#include "trace/analysis/memory/memory.h"
#include "trace/analysis/row_index.h"
#include "trace/analysis/steps/stalls.h"
#include "trace/base/interval.h"
#include "trace/base/status.h"
#include "trace/query/snapshot.h"

namespace shardscope::analysis {

// An op that has begun and not ended.
struct RunningOp {
  query::OpRunId op_run;
  const query::PlanOp* op = nullptr;  // of the snapshot
  int64_t started_ns = 0;
  int64_t ended_ns = 0;
  double done = 0;            // share of its time that is over, in [0, 1)
  int32_t awaited_rank = -1;  // of a collective that some rank has not come to: the last to come
};

enum class RankState : uint8_t {
  kNothing,       // no op of the rank is recorded around this time
  kBetweenSteps,  // it has steps before and after
  kComputes,      // an op of compute or the optimizer runs
  kWaits,         // its compute stream waits for a collective
  kWaitsForSlot,  // an op is ready, and waits for a core
  kNoCompute,     // no op computes, and no stall is known: copies, communication or nothing
};
std::string_view Name(RankState state);

struct RankMoment {
  int32_t rank = 0;
  int32_t step = -1;          // -1: in none
  int64_t step_start_ns = 0;  // of this rank
  RankState state = RankState::kNothing;
  // In the order of their starts.
  std::vector<RunningOp> compute;
  std::vector<RunningOp> copies;
  std::vector<RunningOp> communication;
  // kWaits, kWaitsForSlot: what the compute stream is in; its collective may not have begun.
  std::optional<Stall> stall;
  const query::PlanOp* awaited = nullptr;  // kWaits: that collective; of the snapshot

  // Live bytes, execution ledger; nothing without rows of memory.
  bool has_memory = false;
  int64_t live_bytes = 0;  // the host's memory left out
  CategoryBytes live{};
  // By category and unit or segment ("": of none), without those that have none.
  std::map<std::pair<query::MemoryCategory, std::string>, int64_t> live_of_units;

  // Communication counts as hidden while an op computes (steps/time_split.h).
  bool hides() const { return state == RankState::kComputes && !communication.empty(); }
  bool exposes() const { return state != RankState::kComputes && !communication.empty(); }
};

struct Moment {
  int64_t time_ns = 0;
  std::vector<RankMoment> ranks;  // ascending
};

// At most this many steps are looked at together.
inline constexpr int kMostMomentSteps = 64;

// Every moment of some steps. Making it costs what those steps have and one look at all memory
// events, a moment some microseconds a rank. Any thread may ask it.
class Moments {
 public:
  // Of the steps that `range` touches, the first kMostMomentSteps of them.
  Moments(query::SnapshotPtr snapshot, Interval range);
  Moments(const Moments&) = delete;
  Moments& operator=(const Moments&) = delete;

  // Times outside of the range have no ops.
  Moment At(int64_t time_ns) const;

  const Interval& range() const { return range_; }
  // Where an op of any rank begins or ends, the range's ends with them; ascending, each once.
  const std::vector<int64_t>& boundaries() const { return boundaries_; }
  const query::SnapshotPtr& snapshot() const { return snapshot_; }

 private:
  struct Change {  // of memory
    int64_t time_ns = 0;
    int64_t bytes = 0;
    query::MemoryCategory category = query::MemoryCategory::kOther;
    uint16_t unit = 0;
  };
  using UnitKey = std::pair<query::MemoryCategory, uint16_t>;
  struct Rank {
    const query::RankRows* rows = nullptr;
    std::vector<StepIndex> steps;  // ascending
    std::vector<Stall> stalls;     // ascending start
    std::map<UnitKey, int64_t> live_before;
    std::vector<Change> changes;  // ascending time
  };

  static const StepIndex* StepAt(const Rank& rank, int64_t time_ns);
  void TakeMemory(Rank* rank) const;
  void TakeBoundaries();
  RankMoment MomentOf(const Rank& rank, int64_t time_ns) const;
  void AddOps(const StepIndex& step, int64_t time_ns, RankMoment* moment) const;
  void AddStall(const Rank& rank, const StepIndex& step, int64_t time_ns, RankMoment* moment) const;
  void AddMemory(const Rank& rank, int64_t time_ns, RankMoment* moment) const;

  query::SnapshotPtr snapshot_;
  Interval range_;
  std::vector<Rank> ranks_;
  std::map<std::pair<int32_t, query::OpRunId>, CollectiveRun> collectives_;
  std::vector<int64_t> boundaries_;
};

// A step over all ranks; an error names the steps that there are.
Result<Interval> TimesOfStep(const query::Snapshot& snapshot, int32_t step);

// The finished step that the first rank to be in one is in at `time_ns`; -1: none.
int32_t FinishedStepAt(const query::Snapshot& snapshot, int64_t time_ns);

// "12.5s" from the start of the run, or "step=3+4.2ms" from the start of a step, which may stand
// alone. Errors say what is wrong with `text` or where the run ends.
Result<int64_t> ParseMoment(const query::Snapshot& snapshot, std::string_view text);
// The 3 of "step=3+4.2ms"; nullopt: it is told from the start of the run, or malformed.
std::optional<int32_t> StepOfMoment(std::string_view text);
// Of an option of the command line: errors begin with its name.
Result<int64_t> ParseMomentOf(std::string_view option, const query::Snapshot& snapshot,
                              std::string_view text);

}  // namespace shardscope::analysis
