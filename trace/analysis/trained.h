// Which share of a model a run trains, and what that spares its ranks. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "trace/query/snapshot.h"

namespace shardscope::analysis {

struct Trained {
  int64_t parameters = 0;  // elements
  int64_t trained = 0;     // of these
  // Bytes that a rank does not keep between steps, as the run began.
  int64_t spared_gradient_bytes = 0;
  int64_t spared_optimizer_bytes = 0;
};

// None: all of the model is trained, or nothing is known of that.
std::optional<Trained> TrainedOf(const query::Snapshot& snapshot);

// A line of a report; empty without.
std::string Describe(const std::optional<Trained>& trained);

}  // namespace shardscope::analysis
