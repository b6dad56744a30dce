// What each source of records could do, and in which processes of the run. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/query/snapshot.h"

namespace shardscope::analysis {

// One status of one source, with its reason.
struct SourceState {
  std::string source;  // "cupti"
  std::string status;  // as query::Capability::status
  std::string reason;
  int64_t dropped = 0;  // records lost for this reason
  // Where it is so; both empty if it is in every process that has a row of this source.
  std::vector<int32_t> ranks;          // ascending
  std::vector<std::string> processes;  // "host-pid" of those without a rank
};

// Every (source, status, reason) once, those of one source one after the other, otherwise in the
// order of the trace. What says that a file could not be finished is left out: it is about no
// source (UnfinishedOf() has it).
std::vector<SourceState> SourcesOf(const query::Snapshot& snapshot);

// Which imported files are not whole, and why: "torch.profiler (rank 1): its JSON ends early". A
// file of several ranks is one, files that end alike are several.
std::vector<std::string> CutFilesOf(const query::Snapshot& snapshot);

// "rank 1", "ranks 0, 2-5, host-4711"; empty if it is so everywhere.
std::string PlacesOf(const SourceState& state);

// The section of a report; empty if there is none.
std::string PrintSources(const std::vector<SourceState>& sources);

}  // namespace shardscope::analysis
