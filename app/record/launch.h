// What the processes of a recorded program find in their environment.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/base/status.h"
#include "trace/schema/rows.h"

namespace shardscope::app {

struct Launch {
  std::vector<std::string> environment;  // NAME=value
  // Sources that another tool has already, as its variables say.
  std::vector<schema::CapabilityRow> taken;
  // The others, whose records come to us.
  std::vector<std::string> sources;
  // The run of a `shardscope record` around this one, which gets none of them; empty: there is
  // none.
  std::string outer_run;
};

// libshardscope_inject.so beside this program.
Result<std::string> FindInjectedLibrary();

// This process's environment with what the injected library needs; `until_ns` of CLOCK_MONOTONIC,
// 0: no limit. Variables that the user set are kept.
Launch MakeLaunch(const std::string& library, const std::string& run_folder, int64_t until_ns);

// Whether a shell would find `command`.
bool ProgramExists(const std::string& command);

}  // namespace shardscope::app
