// Runs a program in the foreground as if its parent were not there: signals, stops and the way it
// ends pass through.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "trace/base/status.h"

namespace shardscope::app {

// One a process, made before any thread: it takes all signals of the process, so that none ends it
// before the child has ended. Its destructor gives them back.
class ChildProcess {
 public:
  ChildProcess();
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // The program is looked for as a shell does. `environment` is the child's whole. Once.
  Status Start(const std::vector<std::string>& command, std::vector<std::string> environment);
  // errno of a failed Start.
  int start_error() const { return start_error_; }
  pid_t pid() const { return pid_; }

  // Passes signals on until the child has ended; its status as waitpid gives it.
  int Wait();

 private:
  void PassOn(const siginfo_t& signal);
  // Stops this process as its child stopped, so that a shell sees it; returns when continued.
  static void StopToo();

  sigset_t before_;
  pid_t pid_ = -1;
  int start_error_ = 0;
};

// Ends this process as a process with this status ended: with the same exit code, or by the same
// signal.
[[noreturn]] void EndLike(int status);

// "exit code 3", "signal 15 (Terminated)".
std::string EndText(int status);

}  // namespace shardscope::app
