// `shardscope-train import`: a checkpoint of another program as one of this one. No LibTorch.
#pragma once

#include <string>
#include <vector>

#include "trace/base/status.h"

namespace shardscope::app {

struct ImportArguments {
  std::string dcp;                    // a folder of torch.distributed.checkpoint
  std::string out;                    // the checkpoint to be
  std::vector<std::string> settings;  // key=value, of the run that goes on from it
};

// Says what was imported and what was left out.
Status ImportCheckpoint(const ImportArguments& arguments);

}  // namespace shardscope::app
