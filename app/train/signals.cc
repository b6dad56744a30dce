#include "app/train/signals.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "engine/runtime/steering.h"

namespace shardscope::app {
namespace {

struct Caught {
  int number = 0;
  const char* name = "";
};
constexpr std::array kCaught = {Caught{SIGHUP, "SIGHUP"}, Caught{SIGINT, "SIGINT"},
                                Caught{SIGPIPE, "SIGPIPE"}, Caught{SIGTERM, "SIGTERM"}};
constexpr const char* kWaits =
    ": ends after the running step and finishes the trace; a second signal ends at once\n";

std::atomic<int> g_signal{0};
std::atomic<runtime::Steering*> g_steering{nullptr};
std::atomic<bool> g_is_terminal{false};

// In one piece, so that no other output comes between. Async-signal-safe, as is all that a handler
// calls.
void SayThatItWaits(const char* name) {
  char text[128] = "";
  if (g_is_terminal.load()) std::strcpy(text, "\n");  // below the line that is being updated
  std::strcat(std::strcat(text, name), kWaits);
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, std::strlen(text));
}

// Whether it is the first.
bool Note(int number) {
  int none = 0;
  if (!g_signal.compare_exchange_strong(none, number)) return false;
  if (runtime::Steering* steering = g_steering.load()) steering->Interrupt(number);
  return true;
}

extern "C" void OnSignal(int number, siginfo_t* info, void*) {
  // Of a write of our own without a reader: the write itself reports it.
  if (number == SIGPIPE && info->si_pid == getpid()) return;
  if (!Note(number)) _exit(kExitOfSignals + number);
  const int before = errno;
  for (const Caught& caught : kCaught) {
    if (caught.number == number) SayThatItWaits(caught.name);
  }
  errno = before;
}

bool IsIgnored(int number) {
  struct sigaction action = {};
  return sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

const std::atomic<int>& StopSignal() { return g_signal; }

void CatchSignals() {
  g_is_terminal.store(isatty(STDOUT_FILENO) == 1);
  struct sigaction action = {};
  action.sa_sigaction = OnSignal;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  for (const Caught& caught : kCaught) {
    if (caught.number == SIGHUP && IsIgnored(SIGHUP)) continue;
    sigaction(caught.number, &action, nullptr);
  }
}

void TellSignalsTo(runtime::Steering* steering) {
  g_steering.store(steering);
  const int number = g_signal.load();
  if (steering != nullptr && number != 0) steering->Interrupt(number);
}

void StopBy(int number) { Note(number); }

void IgnoreLostPeers() { std::signal(SIGPIPE, SIG_IGN); }

}  // namespace shardscope::app
