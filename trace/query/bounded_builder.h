// BoundedBuilder: Snapshots of a run that goes on, within memory: its last steps.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "trace/query/run_part.h"
#include "trace/query/snapshot.h"
#include "trace/query/snapshot_builder.h"
#include "trace/store/row_batch.h"
#include "trace/store/source.h"

namespace shardscope::query {

// What rows of a run that goes on take in the app, with what it makes of them: measured, see
// docs/benchmarks.md.
int64_t MemoryForLiveRows(int64_t num_rows);

// Snapshots have all rows until these take three quarters of the memory. From one half on, rows are
// taken twice: once more by a builder that has none of the steps before (`part`). Once both take
// all of the memory it takes the place of the first one; so Snapshots have a quarter of it to
// three. Nothing is read again, and no list loses rows at its front.
//
// Not bounded are a run without steps, and what was there before it was opened until it is read.
//
// One thread.
class BoundedBuilder {
 public:
  BoundedBuilder(std::string run_folder, std::string name, int64_t memory_bytes);

  // Of a run that has ended: all rows stay.
  void KeepAll() { most_rows_ = INT64_MAX; }

  // Takes new rows, as SnapshotBuilder::Add(). `more`: others wait to be read, and not all tables
  // have got as far.
  void Add(store::RowBatch batch, bool more);

  // No more rows come, though some were not read.
  void GiveUp() { is_behind_ = false; }

  // A Snapshot of the rows that are kept. Its generation is smaller than the one before where rows
  // of other steps take its place.
  SnapshotPtr Publish(store::SourceState state);

 private:
  // One that has rows from some step on.
  struct Part {
    std::unique_ptr<SnapshotBuilder> builder;
    std::optional<PartFilter> filter;  // none: of all steps
    RunPart steps;                     // of a filter
    int64_t num_rows = 0;
  };

  static void AddTo(Part* part, store::RowBatch* batch);
  void Remember(const store::RowBatch& batch);
  void BeginNext();
  // The next part, if its first step is over on all ranks.
  void TryNext();
  store::RowBatch RowsBefore() const;
  // Steps of the run up to the newest one, for a part that begins at `first_step`.
  RunPart StepsFrom(int64_t first_step) const;
  std::unique_ptr<SnapshotBuilder> NewBuilder();
  int64_t NeededBytes() const;  // for all rows that came

  const std::string run_folder_;
  const std::string name_;
  int64_t most_rows_;
  uint64_t num_builders_ = 0;
  Part shown_;
  Part next_;                             // no builder: none; no filter: it waits
  int64_t next_first_ = 0;                // its first step
  std::vector<store::RowBatch> waiting_;  // for next_, all since its first step was chosen
  int64_t num_waiting_ = 0;               // their rows
  int64_t patience_rows_ = 0;             // of shown_, before a next part is tried again
  store::RowBatch known_;                 // of tables that tell what rows mean, all that came
  int64_t num_rows_ = 0;                  // of all that came
  bool is_behind_ = true;                 // until all that were there have been read
};

}  // namespace shardscope::query
