// What a finished file's derived rows give without reading all of its rows: figures of the whole
// run, and a picture of some of its steps.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trace/base/status.h"
#include "trace/query/kept_stalls.h"
#include "trace/query/snapshot.h"
#include "trace/schema/rows.h"

namespace shardscope::query {

// What a finished trace keeps of its steps, so that figures of all of them need not read all of its
// rows. trace/analysis/derived.h makes and uses them.
struct DerivedRows {
  std::vector<schema::StepPartRow> step_parts;              // by step, rank
  KeptStalls stalls;                                        // by step
  std::vector<schema::SlowCollectiveRow> slow_collectives;  // by step, longest first
  std::vector<schema::MemoryPeakRow> memory_peaks;          // by rank
  std::vector<schema::FrontPartRow> front_parts;            // by step, in order of stages
  std::vector<schema::PathPartRow> path_parts;              // by step
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

// A finished run with `derived` rows and all steps, but without memory events and with the op runs
// and collectives of its first step only, which put its communicators in order. Null: it has no
// derived rows, so that only ReadSnapshot() gives its figures.
Result<SnapshotPtr> ReadSummary(const std::string& path);

// Both ends are inside.
struct TimeRange {
  int64_t from_ns = 0;
  int64_t to_ns = 0;
};

// What is read in parts, because all of it takes seconds.
inline constexpr int64_t kLargeRunBytes = 32 << 20;

// What of a run is looked at, by its summary; nullopt: perhaps all of it.
using ChooseTimes = std::function<std::optional<std::vector<TimeRange>>(const Snapshot& summary)>;

// The summary of a large finished run with all rows of the steps that touch the chosen times, of
// those beside them and of unfinished ones; memory events of other times are there as their sums,
// one a rank and category in front of what is looked at. A picture of these times is that of
// ReadSnapshot(). Null: the file is smaller than `least_bytes`, has no derived rows, or has spans,
// which reach over steps.
Result<SnapshotPtr> ReadSummaryAround(const std::string& path, const ChooseTimes& choose,
                                      int64_t least_bytes = kLargeRunBytes);

}  // namespace shardscope::query
