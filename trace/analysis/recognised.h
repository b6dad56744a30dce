// Recognised: which parallelism an imported run shows, as its importer found it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/query/snapshot.h"

namespace shardscope::analysis {

// A group of ranks, by its communicator.
struct Recognised {
  std::string communicator;
  std::string parallelism;  // "FSDP2", "tensor parallel", ...
  std::string evidence;     // ranges (of the framework), name (of the group), use
  int64_t num_units = 0;    // of what shards parameters; else 0
};

// By communicator; none of a run of our own.
std::vector<Recognised> RecognisedIn(const query::Snapshot& snapshot);

// One line, empty if there is nothing.
std::string PrintRecognised(const std::vector<Recognised>& groups);

}  // namespace shardscope::analysis
