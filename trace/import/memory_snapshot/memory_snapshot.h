// Snapshots of PyTorch's allocator for GPU memory (torch.cuda.memory._dump_snapshot), as pickles or
// JSON. Fields: pytorch/pytorch torch/csrc/cuda/memory_snapshot.cpp and torch/cuda/_memory_viz.py.
#pragma once

#include "trace/base/status.h"
#include "trace/import/format.h"

namespace shardscope::imports {

// Which files these are says IsMemorySnapshot() (trace/base/file_heads.h).
Status ReadMemorySnapshot(const Input& input, const ReadProgress& progress,
                          const TakeRecording& take);

}  // namespace shardscope::imports
