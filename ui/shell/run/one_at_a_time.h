// OneAtATime: answers requests one at a time on a thread of its own; a new request takes the place
// of what runs or waits.
//
// Threads: Prepare(), Make() and Keep() run on the worker's thread, all else on the owner's.
#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include "trace/base/mutex.h"

namespace shardscope::shell {

// A class that derives from it calls Begin() last in its constructor and End() first in its
// destructor, for the thread uses what it has. What it keeps for both threads is guarded by
// `mutex_`.
template <typename Request, typename Answer>
class OneAtATime {
 public:
  OneAtATime(const OneAtATime&) = delete;
  OneAtATime& operator=(const OneAtATime&) = delete;

 protected:
  // `wake` is called on the worker's thread when there is something new; it may be empty.
  explicit OneAtATime(std::function<void()> wake) : wake_(std::move(wake)) {}
  virtual ~OneAtATime() = default;

  void Begin() {
    thread_ = std::thread([this] { Run(); });
  }
  // Cancels what runs, and waits for its end.
  void End() {
    {
      const MutexLock lock(mutex_);
      ends_ = true;
      cancel_.request_stop();
    }
    requested_.notify_one();
    thread_.join();
  }

  // Instead of what runs or waits.
  void Ask(Request request) REQUIRES(mutex_) {
    next_ = std::move(request);
    cancel_.request_stop();
    requested_.notify_one();
  }
  // What runs or waits is wanted no more. Returns what waits, which is never begun.
  std::optional<Request> Withdraw() REQUIRES(mutex_) {
    cancel_.request_stop();
    return std::exchange(next_, std::nullopt);
  }
  // What waits, else what runs.
  std::optional<Request> Asked() const REQUIRES(mutex_) { return next_ ? next_ : running_; }

  mutable Mutex mutex_;

 private:
  // Once, before the first request.
  virtual void Prepare() = 0;
  virtual Answer Make(const Request& request, const std::stop_token& stop) = 0;
  // `is_cancelled`: a newer request came, or Withdraw(). false: there is nothing new in it.
  virtual bool Keep(const Request& request, Answer answer, bool is_cancelled) REQUIRES(mutex_) = 0;

  void Run() {
    Prepare();
    if (wake_) wake_();
    MutexLock lock(mutex_);
    while (true) {
      requested_.wait(lock, [this]() REQUIRES(mutex_) { return ends_ || next_.has_value(); });
      if (ends_) return;
      running_ = std::exchange(next_, std::nullopt);
      cancel_ = std::stop_source();
      const Request request = *running_;
      const std::stop_token stop = cancel_.get_token();
      lock.unlock();
      Answer answer = Make(request, stop);
      lock.lock();
      running_.reset();
      if (!Keep(request, std::move(answer), stop.stop_requested())) continue;
      lock.unlock();
      if (wake_) wake_();
      lock.lock();
    }
  }

  const std::function<void()> wake_;
  CondVar requested_;
  std::optional<Request> next_ GUARDED_BY(mutex_);
  std::optional<Request> running_ GUARDED_BY(mutex_);
  std::stop_source cancel_ GUARDED_BY(mutex_);  // of what runs
  bool ends_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace shardscope::shell
