// Slot: a query that is polled each frame. The answer is computed on a worker thread; until it is
// there, the old one goes on being shown. A frame never waits.
//
// Owner and user: one thread (the UI's). The function runs on the Slot's own thread and must only
// use what it was given.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace shardscope::query {

// `Key` says which answer is wanted (generation, range, filter); it is comparable with ==.
template <typename Key, typename Answer>
class Slot {
 public:
  using Function = std::function<Answer(const Key&)>;

  // `on_answer` is called on the worker's thread after each new answer (to wake the UI).
  explicit Slot(Function function, std::function<void()> on_answer = {})
      : function_(std::move(function)), on_answer_(std::move(on_answer)) {}

  ~Slot() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_one();
    if (thread_.joinable()) thread_.join();
  }
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

  // Asks for the answer to `key`, if it is not there or under way, and returns the newest answer
  // there is; null before the first. Of several keys asked while the worker is busy only the last
  // is answered.
  std::shared_ptr<const Answer> Poll(const Key& key) {
    const std::lock_guard lock(mutex_);
    if (!asked_ || !(*asked_ == key)) {
      asked_ = key;
      pending_ = key;
      if (!thread_.joinable()) thread_ = std::thread([this] { Work(); });
      wake_.notify_one();
    }
    return answer_;
  }

  // Whether the answer shown is that of the last key asked for.
  bool UpToDate() const {
    const std::lock_guard lock(mutex_);
    return !asked_ || (answered_ && *answered_ == *asked_);
  }

 private:
  void Work() {
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [this] { return stopping_ || pending_; });
      if (stopping_) return;
      const Key key = *std::exchange(pending_, std::nullopt);
      lock.unlock();
      auto answer = std::make_shared<const Answer>(function_(key));
      lock.lock();
      answer_ = std::move(answer);
      answered_ = key;
      lock.unlock();
      if (on_answer_) on_answer_();
      lock.lock();
    }
  }

  const Function function_;
  const std::function<void()> on_answer_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable wake_;
  std::optional<Key> asked_;     // last key asked for
  std::optional<Key> pending_;   // not taken by the worker yet
  std::optional<Key> answered_;  // key of answer_
  std::shared_ptr<const Answer> answer_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace shardscope::query
