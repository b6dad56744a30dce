#include "app/spawn.h"

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

namespace shardscope::app {
namespace {

// Ends with null. Valid as long as `texts` are.
std::vector<char*> PointersTo(std::vector<std::string>* texts) {
  std::vector<char*> pointers;
  for (std::string& text : *texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

int Spawn(const std::string& program, std::vector<std::string> words, const SpawnOptions& options,
          pid_t* pid) {
  const std::vector<char*> arguments = PointersTo(&words);
  std::vector<std::string> texts = options.environment.value_or(std::vector<std::string>());
  const std::vector<char*> environment = PointersTo(&texts);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (options.standard_input >= 0) {
    posix_spawn_file_actions_adddup2(&actions, options.standard_input, STDIN_FILENO);
  }
  if (!options.output.empty()) {
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, options.output.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0644);
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  }
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  if (options.signal_mask != nullptr) {
    posix_spawnattr_setsigmask(&attributes, options.signal_mask);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  }
  const int error = posix_spawnp(pid, program.c_str(), &actions, &attributes, arguments.data(),
                                 options.environment ? environment.data() : environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

}  // namespace shardscope::app
