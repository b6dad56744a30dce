// Arguments: the command line of shardscope-train, and the keys that it and its file set. No
// LibTorch.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/train/import_checkpoint.h"
#include "engine/config/config.h"
#include "engine/config/launch.h"
#include "trace/base/status.h"

namespace shardscope::app {

struct Arguments {
  std::string out;
  std::string config;
  std::vector<std::string> settings;  // in their order; --ranks N is run.ranks=N
  std::string resume;                 // a run or a checkpoint
  std::string dump;
  std::string losses;
  bool reference = false;
  std::optional<ImportArguments> import;  // instead of a training
  std::optional<config::Launch> launch;   // from the environment

  // Prints, and writes what there is one of.
  bool is_leader() const { return !launch || launch->rank == 0; }
};

// All but `launch`. Prints the help where it is asked for: then none.
Result<std::optional<Arguments>> ParseArguments(int argc, const char* const* argv);

// The defaults, over them the file, over that the settings in their order. Of a run that goes on
// from a checkpoint the settings of that one, but checkpoint.path, stand in place of the defaults,
// and checkpoint.resume is the checkpoint's path; config::SettleInherited() is still to be called.
Result<config::Config> ReadSettings(const Arguments& arguments);

}  // namespace shardscope::app
