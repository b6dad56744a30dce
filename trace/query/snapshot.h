// limit: one field a table or fact of the trace
// Snapshot: an immutable view of a run's rows, shared by analysis, app and CLI.
//
// A LiveTrace (trace/query/live_trace.h) tails the files of a run and publishes a new Snapshot when
// rows came. Rows already published never change; a newer Snapshot shares their storage.
// Any thread may read a Snapshot it holds.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trace/query/flight.h"
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
  std::vector<Pause> pauses;                // that are over; ascending
  std::vector<CheckpointPart> checkpoints;  // written or given up; ascending
  std::vector<Evaluation> evaluations;      // as pauses
  RowList<Collective> collectives;
  RowList<MemoryEvent> memory;
  RowList<Span> spans;        // but those of gpu_work and nccl
  RowList<GpuWork> gpu_work;  // nearly in the order of their starts on each track
  RowList<NcclOperation> nccl;
  RowList<EventEdge> event_edges;      // waits of its streams
  RowList<MemorySegment> segments;     // of the GPU's own memory
  RowList<MemoryCounter> reserved;     // what its allocators held, at the end of steps
  RowList<MemoryCounter> device_used;  // of its GPU's memory, other processes included
};

// Of a Snapshot with only some rows: larger than that of any complete one.
inline constexpr uint64_t kLoadingGeneration = uint64_t{1} << 62;

// Generations whose rows are not those of the ones before differ above these bits.
inline constexpr int kGenerationBits = 40;
inline bool HaveSameRows(uint64_t a, uint64_t b) {
  return a >> kGenerationBits == b >> kGenerationBits;
}

struct DerivedRows;  // trace/query/summary.h

// What a Snapshot has of a run that does not fit into memory: these steps, as if it had no others.
// Of other times are there the changes of knobs before them, as the configuration, errors, and what
// memory held, as one event a rank, category and unit.
struct RunPart {
  struct StepStart {
    int32_t step = 0;
    int64_t start_ns = 0;  // on the rank that began first
  };

  int64_t first_step = 0;
  int64_t last_step = 0;
  int64_t first_of_run = 0;
  int64_t last_of_run = 0;
  int64_t needed_bytes = 0;  // of memory, for all steps
  int64_t start_ns = 0;      // of all of the run, as Snapshot::start_ns
  int64_t end_ns = 0;        // of its last step
  std::shared_ptr<const std::vector<StepStart>> step_starts;  // ascending; null: not known yet

  bool Contains(int64_t step) const { return step >= first_step && step <= last_step; }
  // The step that ran then, of all of the run, or the one before; nullopt: none had begun.
  std::optional<int32_t> StepAt(int64_t time_ns) const;
  // nullopt: the run has no such step.
  std::optional<int64_t> StartOf(int32_t step) const;
};

struct Snapshot {
  // Grows with every published Snapshot of a LiveTrace. A smaller one than before means that rows
  // were replaced: what was made of them is made anew.
  uint64_t generation = 0;
  // Only some steps of a large finished trace, without memory events: the whole is still being
  // read.
  bool loading = false;
  // Of any other run: rows that were there when it was opened are still being read. Its steps come
  // when all others have.
  bool is_behind = false;
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
  std::vector<std::string> memory_units = {""};  // of memory events; what is beyond
                                                 // kMostMemoryUnits is not told apart
  std::vector<GpuStream> gpu_streams;
  RowList<std::string> names;  // of spans, kernels and NCCL's functions
  std::map<ScheduleId, Schedule> schedules;
  std::map<PlanOpId, PlanOp> plan_ops;
  std::vector<RankRows> ranks;  // ascending rank
  std::vector<Marker> markers;
  std::vector<Capability> capabilities;
  std::map<int64_t, Process> processes;
  std::vector<Clock> clocks;         // of a run of several files, the common one first; else none
  std::vector<GpuClock> gpu_clocks;  // within what the times of GPUs are right
  std::vector<OverheadStep> overhead_steps;
  RowList<FlightEntry> flight_entries;  // of flight recorders' dumps, of each rank in its order
  RowList<FlightGroup> flight_groups;
  // What the file keeps of its steps (trace/query/summary.h); null: none, or not all steps are
  // here.
  std::shared_ptr<const DerivedRows> derived;
  // Op runs of the whole run, of a summary: it has derived rows instead of what they are made of.
  std::optional<int64_t> summed_op_runs;
  std::optional<RunPart> part;  // none: all of the run

  // Another program's trace: its ops and what they waited for are inferred (trace/import).
  bool IsImported() const { return meta.contains("imported"); }

  // nullptr if there is none.
  const PlanOp* FindPlanOp(PlanOpId id) const {
    const auto found = plan_ops.find(id);
    return found == plan_ops.end() ? nullptr : &found->second;
  }
  const RankRows* FindRank(int32_t rank) const {
    for (const RankRows& rows : ranks) {
      if (rows.rank == rank) return &rows;
    }
    return nullptr;
  }

  // Of all of the run: what its times are told from, and to.
  int64_t RunStartNs() const { return part ? part->start_ns : start_ns; }
  int64_t RunEndNs() const { return part ? std::max(part->end_ns, end_ns) : end_ns; }
};

using SnapshotPtr = std::shared_ptr<const Snapshot>;

}  // namespace shardscope::query
