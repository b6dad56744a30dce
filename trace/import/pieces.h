// Pieces: what of a recording becomes ops: kernels and copies of its device, or without one the
// operators of its host, with what the host was doing when it asked for them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/base/words.h"
#include "trace/import/host_context.h"
#include "trace/import/recording.h"
#include "trace/import/steps.h"

namespace shardscope::imports {

// A kernel or copy; without a device, an operator of the host, or a collective that one of its
// threads carries out.
struct Piece {
  int64_t issued_ns = 0;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  HostContext context;
  uint32_t track = 0;
  int32_t step = -1;
  int32_t work = -1;        // index into Recording::works
  int32_t collective = -1;  // index into Recording::collectives
  words::Category category = words::Category::kCompute;
};

// In no order. `launch_of_work` as of InferOps(). Adds names and collectives to the recording.
std::vector<Piece> FindPieces(Recording* recording, const HostSteps& steps,
                              const std::vector<int32_t>& launch_of_work);

// As plan_op.kind: "forward", "all_gather", "copy_in", ...
std::string KindOf(const Piece& piece, const Recording& recording);

}  // namespace shardscope::imports
