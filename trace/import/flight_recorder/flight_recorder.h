// Dumps of PyTorch's flight recorder, one a rank: the last collectives that a rank asked for, as
// pickles or JSON (TORCH_NCCL_DUMP_ON_TIMEOUT). Fields: pytorch/pytorch
// torch/csrc/distributed/c10d/FlightRecorderDetail.hpp, versions 1.5 to 2.10.
#pragma once

#include "trace/base/status.h"
#include "trace/import/format.h"

namespace shardscope::imports {

// Which files these are says IsFlightRecorder() (trace/base/file_heads.h).
Status ReadFlightRecorder(const Input& input, const ReadProgress& progress,
                          const TakeRecording& take);

}  // namespace shardscope::imports
