// Ops of an imported run: what a device did, or without one the host, put together to what our own
// traces call ops, with the unit and part of the step they belong to and what they waited for.
//
// All of it is inferred, and says so in the trace (docs/import.md).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "trace/base/words.h"
#include "trace/import/recording.h"
#include "trace/import/steps.h"

namespace shardscope::imports {

// Pieces of work this close to each other, for the same unit and of the same kind, are one op. The
// smallest gap that counts as a stall.
inline constexpr int64_t kSameOpNs = 20'000;

// Copies of one action of the host, which a thread makes one after the other.
inline constexpr int64_t kSameHostCopyNs = 1'000'000;

// Of a collective that a copy or a stall waited for: how late what it held up may begin behind it.
inline constexpr int64_t kBehindNs = 100'000;

struct InferredOp {
  std::string name;  // "B layers.0 all_gather"
  std::string kind;  // as plan_op.kind
  std::string unit;
  words::Phase phase = words::Phase::kForward;
  words::Category category = words::Category::kCompute;
  int32_t collective = -1;  // of its first run; index into Recording::collectives
};

struct InferredRun {
  uint32_t op = 0;
  uint32_t lane = 0;
  int32_t step = 0;  // index of a step
  int64_t issued_ns = 0;
  int64_t ready_ns = 0;
  int64_t started_ns = 0;
  int64_t ended_ns = 0;
  int32_t blocker = -1;  // index of a run; -1: none
  words::BlockingKind blocking = words::BlockingKind::kNone;
  int32_t collective = -1;
};

struct InferredLane {
  std::string name;
  words::TrackRole role = words::TrackRole::kCompute;
  uint32_t track = 0;  // of the recording: the stream or thread whose work it shows
};

struct InferredOps {
  std::vector<InferredLane> lanes;                   // in the order in which they are to stand
  std::vector<InferredOp> ops;                       // in the order of their first runs
  std::vector<InferredRun> runs;                     // by start
  std::vector<std::pair<uint32_t, uint32_t>> edges;  // of ops: what waits, and for what
  std::vector<int32_t> run_of_work;  // by index into Recording::works; -1: in no step
};

// Spans and works of the recording are in order: by start, what encloses first. `launch_of_work`:
// an index into its launches, or -1, for each work.
InferredOps InferOps(Recording* recording, const HostSteps& steps,
                     const std::vector<int32_t>& launch_of_work);

}  // namespace shardscope::imports
