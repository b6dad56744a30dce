// TrainerProcess: starts shardscope-train as a detached child: it goes on when the app is closed or
// crashes. Its output goes to output.txt in the run folder; where it is refused with an error and
// makes no run, that and the folder are removed.
//
// Owner's thread only.
#pragma once

#include <string>
#include <vector>

#include "trace/base/status.h"
#include "ui/commands.h"

namespace shardscope::shell {

// The command line for a new run; pure.
std::vector<std::string> TrainerArguments(const std::string& trainer, const ui::StartRun& start);

class TrainerProcess {
 public:
  // Errors: the folder cannot be made or holds a run, the program cannot be started.
  static Result<TrainerProcess> Launch(const std::string& trainer, const ui::StartRun& start);

  TrainerProcess(TrainerProcess&& other) noexcept;
  TrainerProcess& operator=(TrainerProcess&& other) noexcept;
  ~TrainerProcess();  // leaves the child running

  enum class State { kStarting, kReady, kFailed };
  // kReady once a trace is there to open; kFailed once the child has ended without one.
  State Poll();
  // Whether the child is gone; error() then has the end of its output.
  bool Ended();
  const std::string& error() const { return error_; }  // of kFailed: the end of the child's output
  const std::string& folder() const { return folder_; }

 private:
  TrainerProcess() = default;

  std::string folder_;
  std::string error_;
  bool made_folder_ = false;  // it was not there before
  int alive_ = -1;  // read end of a pipe that the child holds open: end of file when it has ended
};

}  // namespace shardscope::shell
