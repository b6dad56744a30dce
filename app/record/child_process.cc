#include "app/record/child_process.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>

#include "app/spawn.h"

namespace shardscope::app {
namespace {

// Signals of our own faults must not wait.
sigset_t AllButFaults() {
  sigset_t signals;
  sigfillset(&signals);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS}) {
    sigdelset(&signals, fault);
  }
  return signals;
}

}  // namespace

// Blocked, not handled: a child inherits handlers' defaults and ignored signals as they were.
ChildProcess::ChildProcess() {
  const sigset_t all = AllButFaults();
  sigprocmask(SIG_BLOCK, &all, &before_);
  // Ignored, it leaves no exit status of a child to wait for.
  ::signal(SIGCHLD, SIG_DFL);
}

ChildProcess::~ChildProcess() {
  // A trace that may not grow is an error of ours, which is said, and no signal to end by.
  sigset_t grown;
  sigemptyset(&grown);
  sigaddset(&grown, SIGXFSZ);
  const timespec no_time = {};
  sigtimedwait(&grown, nullptr, &no_time);
  sigprocmask(SIG_SETMASK, &before_, nullptr);
}

Status ChildProcess::Start(const std::vector<std::string>& command,
                           std::vector<std::string> environment) {
  const SpawnOptions options = {.environment = std::move(environment), .signal_mask = &before_};
  start_error_ = Spawn(command.front(), command, options, &pid_);
  if (start_error_ == ENOEXEC) {
    // A script without a first line that names its interpreter: shells, env and nohup have sh run
    // it.
    std::vector<std::string> words = command;
    words.insert(words.begin(), "sh");
    start_error_ = Spawn("/bin/sh", std::move(words), options, &pid_);
  }
  if (start_error_ == 0) return Status::Ok();
  return Status::Error(
      fmt::format("cannot start '{}': {}", command.front(), std::strerror(start_error_)));
}

int ChildProcess::Wait() {
  const sigset_t all = AllButFaults();
  while (true) {
    siginfo_t signal = {};
    if (sigwaitinfo(&all, &signal) < 0) continue;  // interrupted by a fault's handler: none of ours
    if (signal.si_signo != SIGCHLD) {
      PassOn(signal);
      continue;
    }
    int status = 0;
    while (waitpid(pid_, &status, WNOHANG | WUNTRACED) == pid_) {
      if (!WIFSTOPPED(status)) return status;
      StopToo();
      kill(pid_, SIGCONT);
    }
  }
}

void ChildProcess::PassOn(const siginfo_t& signal) {
  // What the terminal sends (Ctrl-C, Ctrl-Z, a new size) it sends to the whole foreground group:
  // the child has it already. Only that it is gone it tells the leader of the session alone, which
  // we are under `ssh -t HOST shardscope record`.
  const bool is_hangup = signal.si_signo == SIGHUP && getsid(0) == getpid();
  if (signal.si_code == SI_KERNEL && !is_hangup) return;
  // What the child sends to its whole group it has had itself. Of others it is not known whether
  // they meant the group or us.
  if (signal.si_code <= 0 && signal.si_pid == pid_) return;
  kill(pid_, signal.si_signo);
}

void ChildProcess::StopToo() {
  sigset_t cont;
  sigemptyset(&cont);
  sigaddset(&cont, SIGCONT);
  raise(SIGSTOP);
  // The SIGCONT that woke us waits; the caller passes it on itself.
  const timespec no_time = {};
  sigtimedwait(&cont, nullptr, &no_time);
}

void EndLike(int status) {
  if (WIFEXITED(status)) std::exit(WEXITSTATUS(status));
  const int number = WTERMSIG(status);
  // The child has left its core; ours would replace it.
  const rlimit no_core = {};
  setrlimit(RLIMIT_CORE, &no_core);
  std::fflush(nullptr);
  ::signal(number, SIG_DFL);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, number);
  sigprocmask(SIG_UNBLOCK, &only, nullptr);
  raise(number);
  std::exit(128 + number);
}

std::string EndText(int status) {
  if (WIFEXITED(status)) return fmt::format("exit code {}", WEXITSTATUS(status));
  return fmt::format("signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
}

}  // namespace shardscope::app
