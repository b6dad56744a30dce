// limit: one field a table or fact of the trace
// Snapshot: an immutable view of a run's rows, shared by analysis, app and CLI.
//
// A LiveTrace (trace/query/live_trace.h) tails the files of a run and publishes a new Snapshot when
// rows came. Rows already published never change or move; a newer Snapshot shares their storage.
// Any thread may read a Snapshot it holds.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "trace/query/gpu.h"
#include "trace/query/row_list.h"
#include "trace/query/rows.h"

namespace shardscope::query {

// All rows of one rank, each list in commit order (op runs end in commit order, so starts are
// nearly sorted).
struct RankRows {
  int32_t rank = 0;
  RowList<OpRun> op_runs;
  RowList<Step> steps;
  std::vector<Pause> pauses;  // that are over; ascending
  RowList<Collective> collectives;
  RowList<MemoryEvent> memory;
  RowList<Span> spans;        // but those of gpu_work and nccl
  RowList<GpuWork> gpu_work;  // nearly in the order of their starts on each track
  RowList<NcclOperation> nccl;
  RowList<EventEdge> event_edges;      // waits of its streams
  RowList<MemorySegment> segments;     // of the GPU's own memory
  RowList<MemoryCounter> reserved;     // what its allocators held, at the end of steps
  RowList<MemoryCounter> device_used;  // of its GPU's memory by whomever, other processes too
};

// Of a Snapshot with only some rows: larger than that of any complete one.
inline constexpr uint64_t kLoadingGeneration = uint64_t{1} << 62;

struct DerivedRows;  // trace/query/derived.h

struct Snapshot {
  // Grows with every published Snapshot of a LiveTrace. A smaller one than before means that rows
  // were replaced: what was made of them is made anew.
  uint64_t generation = 0;
  // Only some steps of a large finished trace, without memory events: the whole is still being
  // read.
  bool loading = false;
  TraceState state = TraceState::kLive;
  std::string run_folder;
  std::string name;
  std::map<std::string, std::string> meta;
  std::map<std::string, std::string> config;  // at the start of the run
  Truth truth = Truth::kMeasured;
  bool contended = false;  // ranks share a device or cores
  bool paused = false;     // live, and waits for its user since the end of the last step
  int64_t start_ns = 0;    // smallest time of any row; 0 if there is none
  int64_t end_ns = 0;      // largest time of any row
  std::vector<Track> tracks;
  std::vector<std::string> communicators;
  std::vector<GpuStream> gpu_streams;
  RowList<std::string> names;  // of spans, kernels and NCCL's functions
  std::map<int64_t, Schedule> schedules;
  std::map<int64_t, PlanOp> plan_ops;
  std::vector<RankRows> ranks;  // ascending rank
  std::vector<Marker> markers;
  std::vector<Capability> capabilities;
  std::map<int64_t, Process> processes;
  std::vector<Clock> clocks;         // of a run of several files, the common one first; else none
  std::vector<GpuClock> gpu_clocks;  // within what the times of GPUs are right
  std::vector<OverheadStep> overhead_steps;
  // Of a summary (trace/query/summary.h), which has these instead of the rows that they are made
  // of.
  std::shared_ptr<const DerivedRows> derived;

  // nullptr if there is none.
  const PlanOp* FindPlanOp(int64_t id) const {
    const auto found = plan_ops.find(id);
    return found == plan_ops.end() ? nullptr : &found->second;
  }
  const RankRows* FindRank(int32_t rank) const {
    for (const RankRows& rows : ranks) {
      if (rows.rank == rank) return &rows;
    }
    return nullptr;
  }
};

using SnapshotPtr = std::shared_ptr<const Snapshot>;

}  // namespace shardscope::query
