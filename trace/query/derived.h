// Derived rows: what a finished trace keeps of its steps, so that figures of all of them need not
// read all of its rows. trace/analysis/derived/ makes and uses them.
#pragma once

#include <cstdint>
#include <vector>

#include "trace/query/snapshot.h"
#include "trace/schema/rows.h"

namespace shardscope::query {

struct DerivedRows {
  int64_t num_op_runs = 0;                                  // of the whole run
  std::vector<schema::StepPartRow> step_parts;              // by step, rank
  std::vector<schema::StallRow> stalls;                     // by step
  std::vector<schema::SlowCollectiveRow> slow_collectives;  // by step, longest first
  std::vector<schema::MemoryPeakRow> memory_peaks;          // by rank
};

// How they are made; both append.
struct Deriver {
  // `part`: all rows of some steps, but memory events.
  void (*derive_steps)(const Snapshot& part, DerivedRows* rows) = nullptr;
  // `memory`: all steps and memory events of the trace.
  void (*derive_memory)(const Snapshot& memory, DerivedRows* rows) = nullptr;
};

// From now on this process derives rows of every trace that it finishes, but those of GPUs and
// those that are a part of their run. For main(), before other threads are there.
void DeriveWhileFinishing(const Deriver& deriver);

}  // namespace shardscope::query
