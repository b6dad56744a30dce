// RunPart's rows: of a run that does not fit into memory those of some steps, as if it had no
// others.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_set>
#include <vector>

#include "trace/query/snapshot.h"
#include "trace/store/row_batch.h"

namespace shardscope::query {

// What a Snapshot of a finished run takes, and the app with what it makes of it, by the size of its
// files: measured, see docs/benchmarks.md.
int64_t MemoryForRows(int64_t file_bytes);
int64_t MemoryForRun(int64_t file_bytes);

// As many steps of [first_of_run, last_of_run] as two thirds of `memory_bytes` are enough for, at
// least one: these may be there still while the next ones come. `around` is in their middle where
// the run goes on on both sides. nullopt: all fit into `memory_bytes`.
std::optional<RunPart> PartThatFits(int64_t first_of_run, int64_t last_of_run, int64_t around,
                                    int64_t needed_bytes, int64_t memory_bytes);

// One thread.
class PartFilter {
 public:
  // From the first start to the last end of the part's steps. A part at an end of the run has what
  // lies beyond all finished steps.
  PartFilter(const RunPart& part, int64_t from_ns, int64_t to_ns);

  // Takes out what is of other steps. Batches come in the order of commits, whole or table by
  // table.
  void Keep(store::RowBatch* batch);

  // What memory of ranks held of which nothing more came: once all batches have passed.
  store::RowBatch TakeHeld();

 private:
  struct MemoryOf {
    schema::ShortText device;
    schema::ShortText category;
    schema::ShortText unit;
    friend bool operator<(const MemoryOf& a, const MemoryOf& b) {
      return std::tuple(a.device.view(), a.category.view(), a.unit.view()) <
             std::tuple(b.device.view(), b.category.view(), b.unit.view());
    }
  };
  struct Rank {
    std::map<MemoryOf, int64_t> held;  // bytes
    bool has_begun = false;            // an event of the part has come
  };

  bool IsIn(int64_t time_ns) const { return time_ns >= from_ns_ && time_ns <= to_ns_; }
  // The next step begins where the last one of the part ends.
  bool BeginsIn(int64_t start_ns) const { return start_ns >= from_ns_ && start_ns < to_ns_; }
  void KeepChanges(store::RowBatch* batch);
  void KeepMemory(store::RowBatch* batch);
  void TakeHeldOf(int64_t number, Rank* rank, std::vector<schema::MemoryEventRow>* rows) const;
  void KeepSegments(store::RowBatch* batch);
  void KeepSpans(store::RowBatch* batch);

  int64_t first_step_;
  int64_t last_step_;
  int64_t from_ns_;
  int64_t to_ns_;
  std::map<int64_t, Rank> ranks_;
  std::unordered_set<schema::SpanId> spans_;  // kept, whose other row has not come
  int64_t newest_span_ = -1;
};

}  // namespace shardscope::query
