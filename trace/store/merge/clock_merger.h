// ClockMerger: the rows of several files of one run, put on one clock.
//
// Processes of one host share CLOCK_MONOTONIC, so their files share a clock and pass unchanged; the
// clock of the first file is the common one. Other clocks are placed by the collectives that they
// share with a placed clock, or, without any, by the time of day. Until a clock is placed the rows
// of its files wait, but not for ever while a run is live. Used by one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "trace/base/time.h"
#include "trace/store/merge/clock_estimate.h"
#include "trace/store/merge/clock_facts.h"
#include "trace/store/row_batch.h"

namespace shardscope::store {

// One collective on one clock, in that clock's time, over all ranks that have it.
struct CollectiveTimes {
  size_t clock = 0;
  int64_t last_start_ns = 0;
  int64_t first_end_ns = 0;
  int64_t last_end_ns = 0;
};

// One collective that all its ranks ended; two clocks at least, ascending.
using SharedCollective = std::vector<CollectiveTimes>;

// Brings together the times of one collective on several clocks, by (communicator,
// sequence). Memory is bounded: collectives that stay incomplete are forgotten, the oldest first.
class CollectiveMatcher {
 public:
  // Collectives and op runs of a file, from these positions on; ids are distinct over all files.
  void Add(size_t clock, const RowBatch& rows, size_t first_collective, size_t first_op_run);

  // What became complete since the last call.
  std::vector<SharedCollective> Take() { return std::exchange(complete_, {}); }

 private:
  using Key = std::pair<int32_t, int64_t>;  // communicator, sequence
  struct Row {
    Key key;
    int64_t group_size = 0;
  };
  struct Partial {
    int64_t num_ranks = 0;
    SharedCollective times;
  };
  void AddCollective(const schema::CollectiveRow& row);
  void AddOpRun(size_t clock, const schema::OpRunRow& run);
  void Forget();

  std::map<std::string, int32_t, std::less<>> communicators_;
  std::unordered_map<schema::OpRunId, Row> rows_;  // by op run that did not come yet
  std::map<Key, Partial> partial_;
  std::deque<Key> order_;  // of partial_, the oldest first; may name complete ones
  std::vector<SharedCollective> complete_;
};

class ClockMerger {
 public:
  enum class Outlook : uint8_t {
    kMoreRows,  // the files have more rows to give at once
    kLive,      // all that was there is read; more may come
    kLast       // no rows will come
  };

  // `longest_wait_ns`: how long rows of a live run may wait for their clock to be placed.
  explicit ClockMerger(int64_t longest_wait_ns = kNsPerSecond)
      : longest_wait_ns_(longest_wait_ns) {}

  // While there is only file 0: its rows, as they are.
  void PassOnly(RowBatch rows, RowBatch* batch);

  // Takes the new rows of a file, ids made distinct already. Files count from 0.
  void Add(size_t file, RowBatch rows);

  // Appends to *batch the rows whose clock is placed, in the order they came, and what is known of
  // the clocks as rows of meta.
  void Take(Outlook outlook, RowBatch* batch);

 private:
  static constexpr size_t kNone = ~size_t{0};

  struct File {
    size_t clock = kNone;
    std::string host;
    std::string pid;
    std::vector<schema::ClockRow> readings;  // the first ones
    RowBatch passing;                        // rows without times
    RowBatch waiting;                        // rows with times
    size_t num_waiting = 0;
    size_t seen_collectives = 0;  // of `waiting`, by the matcher
    size_t seen_op_runs = 0;
    int64_t waiting_since_ns = 0;
  };
  struct Clock {
    std::vector<size_t> files;
    ClockEstimate estimate;
    ClockMethod method = ClockMethod::kUnknown;
    Residuals residuals;
    bool placed() const { return method == ClockMethod::kReference || estimate.placed(); }
  };
  struct Shared {
    SharedCollective times;
    bool compared = false;  // became pairs of ends
  };

  void Note(File* file, const RowBatch& rows);
  void Identify(size_t index, bool must);
  bool SameClock(const File& a, const File& b) const;
  void Match();
  void Compare();
  bool CompareOne(const SharedCollective& times);
  void Place(Outlook outlook);
  void PlaceByTimeOfDay(Clock* clock);
  bool Overdue(const Clock& clock, Outlook outlook) const;
  void Release(Outlook outlook, RowBatch* batch);
  void Measure(Outlook outlook);
  void Tell(Outlook outlook, RowBatch* batch);
  ClockFacts FactsOf(const Clock& clock) const;

  const int64_t longest_wait_ns_;
  std::vector<File> files_;
  std::vector<Clock> clocks_;
  CollectiveMatcher matcher_;
  std::vector<Shared> shared_;  // not measured yet
  int64_t next_tell_ns_ = 0;
  std::vector<std::string> told_;
};

}  // namespace shardscope::store
