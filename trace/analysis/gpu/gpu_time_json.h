// GpuTime as JSON: keys as docs/import.md has them, times in nanoseconds.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "trace/analysis/gpu/gpu_time.h"

namespace shardscope::analysis {

nlohmann::ordered_json GpuTimeJson(const GpuTime& gpu);

}  // namespace shardscope::analysis
