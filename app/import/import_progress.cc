#include "app/import/import_progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>

#include "trace/base/time.h"
#include "trace/base/units.h"
#include "trace/import/cache.h"

namespace shardscope::app {
namespace {

constexpr int64_t kShowEveryNs = 200 * kNsPerMs;
constexpr std::array kStopSignals = {SIGINT, SIGTERM, SIGHUP};

std::atomic<int> g_stop_signal{0};

extern "C" void OnStopSignal(int number) { g_stop_signal.store(number); }

}  // namespace

ImportProgress::ImportProgress()
    : started_ns_(MonotonicNs()), is_terminal_(isatty(STDERR_FILENO) != 0) {
  for (size_t i = 0; i < kStopSignals.size(); ++i) {
    struct sigaction action = {};
    action.sa_handler = OnStopSignal;
    action.sa_flags = static_cast<int>(SA_RESETHAND);  // the second is the default one's
    sigaction(kStopSignals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_IGN) sigaction(kStopSignals[i], &action, nullptr);
  }
}

imports::ImportOptions ImportProgress::Options() {
  imports::ImportOptions options;
  options.progress = [this](int64_t read_bytes, int64_t all_bytes) {
    Show(read_bytes, all_bytes);
    return g_stop_signal.load() == 0;
  };
  return options;
}

void ImportProgress::Show(int64_t read_bytes, int64_t all_bytes) {
  if (!is_terminal_ || read_bytes <= 0) return;
  const MutexLock lock(mutex_);
  const int64_t now_ns = MonotonicNs();
  if (now_ns - started_ns_ < kNsPerSecond || now_ns - shown_ns_ < kShowEveryNs) return;
  shown_ns_ = now_ns;
  is_shown_ = true;
  const double share = static_cast<double>(read_bytes) / static_cast<double>(all_bytes);
  const double left_ns = static_cast<double>(now_ns - started_ns_) * (1 - share) / share;
  (void)std::fprintf(stderr, "%s",
                     fmt::format("\r\033[Kimporting: {:.0f} %, {} left", 100 * share,
                                 FormatDuration(static_cast<int64_t>(left_ns)))
                         .c_str());
}

void ImportProgress::End() {
  {
    const MutexLock lock(mutex_);
    if (is_shown_) (void)std::fprintf(stderr, "\r\033[K");
    is_shown_ = false;
  }
  for (size_t i = 0; i < kStopSignals.size(); ++i) sigaction(kStopSignals[i], &before_[i], nullptr);
  const int number = g_stop_signal.exchange(0);
  if (number != 0) (void)raise(number);
}

Result<std::string> RunOfPath(const std::string& path) {
  ImportProgress progress;
  Result<std::string> run = imports::RunOf(path, progress.Options());
  progress.End();
  return run;
}

}  // namespace shardscope::app
