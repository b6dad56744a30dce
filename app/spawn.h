// Starts programs as children of this process, without a shell.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace shardscope::app {

struct SpawnOptions {
  std::optional<std::vector<std::string>> environment = {};  // the child's whole; none: ours
  const sigset_t* signal_mask = nullptr;                     // null: this thread's
  int standard_input = -1;                                   // the descriptor it becomes; -1: ours
  std::string output = {};  // a new file for all that it prints; empty: where we print
};

// `program` is looked for as a shell does; `words` are what it is called by and its arguments.
// Returns 0, with the process in `pid`, or errno. Once the child runs no memory is asked for.
int Spawn(const std::string& program, std::vector<std::string> words, const SpawnOptions& options,
          pid_t* pid);

}  // namespace shardscope::app
