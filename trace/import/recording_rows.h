// Writes a Recording as the trace of one rank.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "trace/base/status.h"
#include "trace/import/recording.h"
#include "trace/store/trace_file.h"

namespace shardscope::imports {

struct RunFacts {
  std::string run_id;
  std::string name;
  std::string_view format;  // its key
  int32_t rank = 0;         // of this recording
  int num_ranks = 1;        // of those that are there
};

// What is asked now and then while it is written, with the share that is done; false: the error is
// kCancelled.
using GoOn = std::function<bool(double share)>;

// The recording is put into order, and is of no more use afterwards.
Status WriteRecording(const RunFacts& facts, Recording* recording, const store::TraceFile& file,
                      const GoOn& go_on);

}  // namespace shardscope::imports
