#include "ui/shell/run/session_closer.h"

#include <utility>

namespace shardscope::shell {

void SessionCloser::Close(std::unique_ptr<RunSession> session) {
  if (session == nullptr) return;
  {
    const MutexLock lock(mutex_);
    sessions_.push_back(std::move(session));
  }
  if (!thread_.joinable()) {
    thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
  }
  left_.notify_one();
}

void SessionCloser::Run(const std::stop_token& stop) {
  MutexLock lock(mutex_);
  // Asked to stop it still ends what was left before.
  while (left_.wait(lock, stop, [this]() REQUIRES(mutex_) { return !sessions_.empty(); })) {
    std::vector<std::unique_ptr<RunSession>> ending = std::exchange(sessions_, {});
    lock.unlock();
    ending.clear();
    lock.lock();
  }
}

}  // namespace shardscope::shell
