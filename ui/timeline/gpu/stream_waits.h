// Waits of one GPU stream for another around one kernel or one op: what it waited for, what waited
// for it, and whether the Schedule plans that. For details and the lines in the timeline. No ImGui.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/analysis/gpu/edge_check.h"
#include "trace/query/snapshot.h"
#include "ui/timeline/run_index.h"

namespace shardscope::timeline {

// One side of a wait: where it stands and what it is called.
struct WaitEnd {
  int32_t rank = 0;
  query::TrackId track = query::TrackId::None();  // of the op run, or of the GPU stream
  bool is_op = false;                             // else a kernel or copy
  // One of the two; none if nothing of it was recorded.
  query::OpRunId op_run = query::OpRunId::None();
  query::SpanId span = query::SpanId::None();
  int64_t time_ns = 0;  // end of what was waited for, start of what waited
  std::string name;     // "AG block1", "gemm"

  bool was_recorded() const { return !op_run.is_none() || !span.is_none(); }
  // In the names of what was drawn.
  int64_t number() const { return is_op ? op_run.value() : span.value(); }
};

struct StreamWait {
  enum class Verdict : uint8_t {
    kUnknown,  // in no Schedule
    kPlanned,
    kExtra,   // seen, and nothing planned is as strong
    kMissing  // planned, and nothing as strong was seen: drawn where it should have been
  };
  Verdict verdict = Verdict::kUnknown;
  bool incoming = true;  // the selection waited; else it was waited for
  WaitEnd from;
  WaitEnd to;
  int64_t waited_ns = 0;  // when the host asked for it; 0 of a missing one

  bool differs() const { return verdict == Verdict::kExtra || verdict == Verdict::kMissing; }
};

// Those of a row of gpu_work: both ends are kernels and copies. `check` may be null.
std::vector<StreamWait> WaitsOfWork(const query::Snapshot& snapshot, const RunIndex& index,
                                    const analysis::EdgeCheck* check, int32_t rank, uint32_t row);

// Those of an op run, by all of its kernels: both ends are op runs; and the missing ones.
std::vector<StreamWait> WaitsOfOp(const query::Snapshot& snapshot, const analysis::EdgeCheck* check,
                                  int32_t rank, const query::OpRun& run);

}  // namespace shardscope::timeline
