// Launch: what torchrun, or any script that sets the same variables, tells a process about its
// place among the others: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT (LOCAL_WORLD_SIZE if known).
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "engine/config/config.h"
#include "trace/base/status.h"

namespace shardscope::config {

struct Launch {
  int rank = 0;
  int num_ranks = 1;
  int num_local_ranks = 1;  // on this machine; all, if it is not said
  std::string master_address;
  int master_port = 0;
  bool has_launcher_store = false;  // torchrun's agent listens at the address; else rank 0 does
  std::string attempt = "0";        // counts torchrun's restarts
  // Told a line for the user where other processes are long in coming; may be empty.
  std::function<void(const std::string&)> say;
};

// The value of an environment variable, or null.
using Environment = std::function<const char*(const char* name)>;

// Nothing if neither RANK nor WORLD_SIZE is set: ranks are threads then.
Result<std::optional<Launch>> ReadLaunch(const Environment& environment);

// Run.ranks and transport become what the launch asks for; an error if others were set.
Status ApplyLaunch(const Launch& launch, Config* config);

}  // namespace shardscope::config
