#include "trace/record/inject/guarded.h"

#include <pthread.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <ctime>

namespace shardscope::inject {
namespace {

// Signals that a write brings to the thread that makes it.
constexpr std::array kSignalsOfWrites = {SIGPIPE, SIGXFSZ};

iovec Part(std::string_view text) { return {const_cast<char*>(text.data()), text.size()}; }

}  // namespace

QuietWrites::QuietWrites() {
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state_);
  sigset_t writes;
  sigemptyset(&writes);
  for (const int signal : kSignalsOfWrites) sigaddset(&writes, signal);
  pthread_sigmask(SIG_BLOCK, &writes, &before_);
  sigpending(&was_pending_);
}

void QuietWrites::BlockAll() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
}

QuietWrites::~QuietWrites() {
  sigset_t ours;
  sigemptyset(&ours);
  for (const int signal : kSignalsOfWrites) {
    if (sigismember(&was_pending_, signal) == 0) sigaddset(&ours, signal);
  }
  const timespec no_time = {};
  while (sigtimedwait(&ours, nullptr, &no_time) > 0) {
  }
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  pthread_setcancelstate(cancel_state_, nullptr);
}

// Without stdio, whose lock and whose buffer are the program's.
void Say(std::string_view text) noexcept {
  const Undisturbed undisturbed;
  const std::array parts = {Part("shardscope record: "), Part(text), Part("\n")};
  (void)!writev(STDERR_FILENO, parts.data(), static_cast<int>(parts.size()));
}

}  // namespace shardscope::inject
