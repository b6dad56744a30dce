#include "engine/transport/gloo/stop_reason.h"

#include <chrono>
#include <thread>

#include "trace/base/mutex.h"

namespace shardscope::transport {
namespace {

constexpr int64_t kPollNs = 5 * kNsPerMs;          // of the store
constexpr const char* kReasonKey = "abort";        // why the first rank stopped
constexpr const char* kReadersKey = "abort_read";  // how many processes have it

void Pause() { std::this_thread::sleep_for(std::chrono::nanoseconds(kPollNs)); }

}  // namespace

std::optional<std::string> StopReason::Get() const {
  const MutexLock lock(mutex_);
  return reason_;
}

void StopReason::ThrowIfSet() const {
  if (const std::optional<std::string> reason = Get()) {
    throw TransportError("aborted: " + *reason);
  }
}

bool StopReason::Set(const std::string& reason, bool tell) {
  {
    const MutexLock lock(mutex_);
    if (reason_) return false;
    reason_ = reason;
  }
  if (tell) store_->Set(kReasonKey, reason);
  return true;
}

std::optional<std::string> StopReason::WaitFor(int64_t longest_ns) {
  const int64_t until_ns = MonotonicNs() + longest_ns;
  do {
    if (const std::optional<std::string> own = Get()) return own;
    if (const std::string reason = store_->Get(kReasonKey); !reason.empty()) {
      store_->Add(kReadersKey, 1);
      return reason;
    }
    Pause();
  } while (MonotonicNs() < until_ns);
  return std::nullopt;
}

void StopReason::WaitForReaders(const std::function<int64_t()>& num_there,
                                int64_t longest_ns) const {
  if (!store_->is_server()) return;
  const int64_t until_ns = MonotonicNs() + longest_ns;
  while (MonotonicNs() < until_ns && store_->Add(kReadersKey, 0) < num_there() - 1) Pause();
}

}  // namespace shardscope::transport
