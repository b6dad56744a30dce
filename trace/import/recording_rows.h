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

// The recording is put into order, and is of no more use afterwards. `go_on` is asked now and then;
// false: the error is kCancelled.
Status WriteRecording(const RunFacts& facts, Recording* recording, const store::TraceFile& file,
                      const std::function<bool()>& go_on);

}  // namespace shardscope::imports
