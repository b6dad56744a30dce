// Writes what a recording tells beside what its threads and devices did: blocks of an allocator,
// markers, and what a flight recorder remembers.
#pragma once

#include <cstdint>
#include <functional>

#include "trace/base/status.h"
#include "trace/import/recording.h"
#include "trace/import/recording_rows.h"
#include "trace/store/finished_writer.h"

namespace shardscope::imports {

// A moment that rows can have.
int64_t Moment(int64_t time_ns);

Status WriteAllocator(const RunFacts& facts, Recording* recording, store::FinishedWriter* writer);
// `step_at`: the number of the step at a moment, -1 outside of all.
Status WriteMarkers(const Recording& recording, const std::function<int64_t(int64_t)>& step_at,
                    store::FinishedWriter* writer);
Status WriteFlight(const RunFacts& facts, const Recording& recording,
                   store::FinishedWriter* writer);

}  // namespace shardscope::imports
