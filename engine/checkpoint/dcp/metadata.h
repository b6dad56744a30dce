// What a folder of torch.distributed.checkpoint (PyTorch DCP) says it has: `.metadata`, a pickle of
// which only data are read (trace/base/pickle). Form: torch/distributed/checkpoint/metadata.py and
// filesystem.py of PyTorch 2.11, and what 2.1 and later wrote.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "trace/base/status.h"

namespace shardscope::checkpoint {

// A box of a tensor, and where in which file a torch.save() of it lies.
struct DcpChunk {
  std::vector<int64_t> offsets;
  std::vector<int64_t> sizes;
  std::string file;
  int64_t offset = 0;
  int64_t length = 0;
};

struct DcpTensor {
  std::string dtype;  // as in safetensors; as PyTorch calls it where these have no such type
  std::vector<int64_t> shape;
  std::vector<DcpChunk> chunks;
};

struct DcpMetadata {
  std::map<std::string, DcpTensor> tensors;  // by name
  std::vector<std::string> objects;          // names of what is no tensor
};

// Errors name the file: not there, no pickle of this kind, or one that asks for more than data.
Result<DcpMetadata> ReadDcpMetadata(const std::string& folder);

}  // namespace shardscope::checkpoint
