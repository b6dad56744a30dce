// RunPart's rows: of a run that does not fit into memory those of some steps, as if it had no
// others.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_set>
#include <vector>

#include "trace/query/snapshot.h"
#include "trace/store/finished_source.h"
#include "trace/store/held_memory.h"
#include "trace/store/row_batch.h"

namespace shardscope::query {

// What a Snapshot of a finished run takes, by the size of its files: measured, see
// docs/benchmarks.md.
int64_t MemoryForRows(int64_t file_bytes);

// The same of the app, with what it makes of it.
struct RunMemory {
  int64_t by_rows = 0;   // as much less as there are fewer steps
  int64_t by_ranks = 0;  // their lanes, however many steps

  int64_t all() const { return by_rows + by_ranks; }
};
RunMemory MemoryForRun(int64_t file_bytes, int64_t num_ranks);

// As many steps of [first_of_run, last_of_run] as two thirds of what `memory_bytes` leave for their
// rows are enough for: these may be there still while the next ones come. At least some, as not
// every step has a row. `around` is in their middle where the run goes on on both sides. nullopt:
// all fit into `memory_bytes`, or are so few.
std::optional<RunPart> PartThatFits(int64_t first_of_run, int64_t last_of_run, int64_t around,
                                    const RunMemory& needed, int64_t memory_bytes);

// Appends when the steps of `rows` began that are later than those that the part has.
void AddStepStarts(const Snapshot& rows, RunPart* part);

// Of the step rows of a part, of all ranks; `steps` may have others.
struct PartTimes {
  int64_t from_ns = INT64_MAX;        // first start
  int64_t to_ns = INT64_MIN;          // last end
  int64_t first_end_ns = INT64_MAX;   // of the first of its steps, on the rank that was done first
  int64_t last_start_ns = INT64_MIN;  // of the last of its steps, on the rank that began last
};
PartTimes TimesOfPart(const RunPart& part, const std::vector<schema::StepRow>& steps);

// One thread.
class PartFilter {
 public:
  // A part at an end of the run has what lies beyond all finished steps.
  PartFilter(const RunPart& part, const PartTimes& times);

  // Within which all is that Keep() keeps, but for changes, errors and what memory held.
  store::RowLimits limits() const { return limits_; }

  // Takes out what is of other steps. Batches come in the order of commits in each file, whole or
  // table by table.
  void Keep(store::RowBatch* batch);

  // What memory holds on ranks that have had no event of the part yet, as events at its begin.
  store::RowBatch TakeHeld();

  // Rows that wait for others, once all batches have passed.
  store::RowBatch TakeRest();

 private:
  // A kernel or an operation of NCCL and its span come as two rows with one id, in either order.
  template <typename Row>
  using Waiting = std::map<schema::SpanId, Row>;

  bool IsIn(int64_t time_ns) const {
    return time_ns >= limits_.from_ns && time_ns <= limits_.to_ns;
  }
  // The next step begins where the last one of the part ends.
  bool BeginsIn(int64_t start_ns) const {
    return start_ns >= limits_.from_ns && start_ns < limits_.to_ns;
  }
  bool HasStep(int64_t step) const {
    return step >= limits_.first_step && step <= limits_.last_step;
  }
  bool IsBehindFirst(int64_t step) const { return HasStep(step) && step > limits_.first_step; }
  bool IsOfSteps(const schema::StepRow& row) const { return HasStep(row.step); }
  bool IsOfSteps(const schema::OpRunRow& row) const;
  bool IsOfSteps(const schema::CollectiveRow& row) const;
  // By the rule that the table has (schema::PartRule).
  template <typename Row>
  void KeepRows(store::RowBatch* batch);
  void KeepMarkers(std::vector<schema::MarkerRow>* markers, std::vector<schema::ConfigRow>* config);
  void KeepMemory(std::vector<schema::MemoryEventRow>* rows);
  void KeepSegments(std::vector<schema::MemorySegmentRow>* rows) const;
  void KeepSpans(std::vector<schema::SpanRow>* rows);
  bool MayBeIn(const schema::GpuWorkRow& row) const;
  bool MayBeIn(const schema::NcclOperationRow& /*row*/) const { return true; }
  template <typename Row>
  void KeepBesideSpans(std::vector<Row>* rows);

  store::RowLimits limits_;
  // Evaluations of the part lie between these.
  int64_t first_end_ns_;
  int64_t last_start_ns_;
  // Of work of the part: as long before it as it takes.
  int64_t earliest_launch_ns_;
  std::map<std::string, std::string> changed_;  // keys before the part
  store::HeldMemory held_;
  std::set<int64_t> begun_;                   // ranks of which an event of the part has come
  std::unordered_set<schema::SpanId> spans_;  // kept, whose other row has not come
  std::map<int64_t, int64_t> newest_spans_;   // by file (store::kIdsPerFile)
  std::tuple<Waiting<schema::GpuWorkRow>, Waiting<schema::NcclOperationRow>> waiting_;
  bool is_end_ = false;  // no more spans come
};

}  // namespace shardscope::query
