// NewestWorker: answers the newest question about the newest Snapshot on a thread of its own, so
// that no frame waits for it.
//
// Threads: all calls on the owner's thread; answers are made on the worker's.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include "trace/base/mutex.h"

namespace shardscope::shell {

// A Request can be compared, Request::Asks(other) says whether it asks the same of perhaps other
// rows, and Request{} asks nothing.
template <typename Request, typename Answer>
class NewestWorker {
 public:
  using AnswerPtr = std::shared_ptr<const Answer>;
  // On the worker's thread. Null: stopped.
  using Make = std::function<AnswerPtr(const Request& request, const std::stop_token& stop)>;

  static constexpr auto kRefreshInterval = std::chrono::milliseconds(333);

  // `wake` is called on the worker's thread after an answer; it may be empty. `leaves_half`:
  // whether the rest after an answer to this request is at least as long as the answer took; empty:
  // always.
  NewestWorker(Make make, std::function<void()> wake,
               std::chrono::milliseconds interval = kRefreshInterval,
               std::function<bool(const Request&)> leaves_half = {})
      : make_(std::move(make)),
        wake_(std::move(wake)),
        interval_(interval),
        leaves_half_(std::move(leaves_half)),
        thread_([this] { Run(); }) {}

  // Stops the answer in the making.
  ~NewestWorker() {
    {
      const MutexLock lock(mutex_);
      stop_ = true;
      running_.request_stop();
    }
    requested_.notify_one();
    thread_.join();
  }
  NewestWorker(const NewestWorker&) = delete;
  NewestWorker& operator=(const NewestWorker&) = delete;

  // What is asked for already is not asked again. Another question stops the answer in the making;
  // newer rows let it end, and are looked at at most once in `interval`, with half of a core left
  // alone.
  void Ask(Request request) {
    if (request == asked_) return;
    const bool is_new = !request.Asks(asked_);
    asked_ = request;
    {
      const MutexLock lock(mutex_);
      next_ = std::move(request);
      if (is_new) running_.request_stop();
    }
    requested_.notify_one();
  }

  // Stops, and forgets the answer.
  void Forget() {
    if (asked_ == Request{}) return;
    asked_ = {};
    AnswerPtr forgotten;  // freed without the lock
    const MutexLock lock(mutex_);
    next_.reset();
    running_.request_stop();
    std::swap(forgotten, latest_);
  }

  // To the newest question that was answered; null before the first.
  AnswerPtr Latest() const {
    const MutexLock lock(mutex_);
    return latest_;
  }

 private:
  using Clock = std::chrono::steady_clock;

  void Run() {
    Request last;
    Clock::time_point rests_until;
    MutexLock lock(mutex_);
    while (true) {
      requested_.wait(lock, [this]() REQUIRES(mutex_) { return stop_ || next_.has_value(); });
      requested_.wait_until(lock, rests_until, [&, this]() REQUIRES(mutex_) {
        return stop_ || !next_.has_value() || !next_->Asks(last);
      });
      if (stop_) return;
      if (!next_.has_value()) continue;  // forgotten
      last = std::move(*std::exchange(next_, std::nullopt));
      running_ = std::stop_source();
      const std::stop_token stop = running_.get_token();
      lock.unlock();
      const bool leaves_half = !leaves_half_ || leaves_half_(last);
      const Clock::time_point begin = Clock::now();
      AnswerPtr answer = make_(last, stop);
      last.snapshot = nullptr;  // not to be freed under the lock, nor kept
      const Clock::time_point end = Clock::now();
      const Clock::duration took = leaves_half ? end - begin : Clock::duration::zero();
      rests_until = end + std::max<Clock::duration>(interval_, took);
      lock.lock();
      // One that was stopped is none, and one that ended just then is not wanted.
      const bool is_wanted = answer != nullptr && !stop.stop_requested();
      if (is_wanted) std::swap(latest_, answer);
      lock.unlock();
      answer = nullptr;  // freed without the lock
      if (is_wanted && wake_) wake_();
      lock.lock();
    }
  }

  const Make make_;
  const std::function<void()> wake_;
  const std::chrono::milliseconds interval_;
  const std::function<bool(const Request&)> leaves_half_;
  Request asked_;  // on the owner's thread
  mutable Mutex mutex_;
  CondVar requested_;
  std::optional<Request> next_ GUARDED_BY(mutex_);
  std::stop_source running_ GUARDED_BY(mutex_);
  AnswerPtr latest_ GUARDED_BY(mutex_);
  bool stop_ GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: starts when all else is there
};

}  // namespace shardscope::shell
