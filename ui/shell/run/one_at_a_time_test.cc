#include "ui/shell/run/one_at_a_time.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

namespace shardscope::shell {
namespace {

constexpr int kForever = -1;

// Doubles numbers; kForever runs until it is cancelled.
class Doubler final : public OneAtATime<int, int> {
 public:
  Doubler() : OneAtATime([this] { Wake(); }) { Begin(); }
  ~Doubler() override { End(); }

  void Double(int number) {
    const MutexLock lock(mutex_);
    Ask(number);
  }
  std::optional<int> Stop() {
    const MutexLock lock(mutex_);
    return Withdraw();
  }
  std::optional<int> Pending() const {
    const MutexLock lock(mutex_);
    return Asked();
  }

  struct Kept {
    int request = 0;
    int answer = 0;
    bool is_cancelled = false;
    bool operator==(const Kept&) const = default;
  };
  struct Seen {
    bool is_prepared = false;
    int begun = 0;  // requests
    int wakes = 0;
    std::vector<Kept> kept;
  };
  // What there is once `is_there`; waits for the worker, not for a time.
  Seen Until(const std::function<bool(const Seen&)>& is_there) {
    MutexLock lock(mutex_);
    while (!is_there(seen_)) changed_.wait(lock);
    return seen_;
  }
  void ForgetCancelled() {
    const MutexLock lock(mutex_);
    forgets_ = true;
  }

 private:
  void Wake() {
    const MutexLock lock(mutex_);
    ++seen_.wakes;
    changed_.notify_all();
  }
  void Prepare() override {
    const MutexLock lock(mutex_);
    seen_.is_prepared = true;
  }
  int Make(const int& request, const std::stop_token& stop) override {
    {
      const MutexLock lock(mutex_);
      ++seen_.begun;
      changed_.notify_all();
    }
    while (request == kForever && !stop.stop_requested()) std::this_thread::yield();
    return 2 * request;
  }
  bool Keep(const int& request, int answer, bool is_cancelled) override REQUIRES(mutex_) {
    if (is_cancelled && forgets_) return false;
    seen_.kept.push_back({request, answer, is_cancelled});
    return true;
  }

  CondVar changed_;
  Seen seen_ GUARDED_BY(mutex_);
  bool forgets_ GUARDED_BY(mutex_) = false;
};

TEST(OneAtATime, PreparesAndAnswers) {
  Doubler doubler;
  const Doubler::Seen prepared = doubler.Until([](const auto& seen) { return seen.wakes == 1; });
  EXPECT_TRUE(prepared.is_prepared);
  EXPECT_TRUE(prepared.kept.empty());
  doubler.Double(21);
  const Doubler::Seen answered = doubler.Until([](const auto& seen) { return seen.wakes == 2; });
  EXPECT_EQ(answered.kept, (std::vector<Doubler::Kept>{{21, 42, false}}));
  EXPECT_FALSE(doubler.Pending().has_value());
}

TEST(OneAtATime, CancelStopsWhatRuns) {
  Doubler doubler;
  doubler.Double(kForever);
  doubler.Until([](const auto& seen) { return seen.begun == 1; });
  EXPECT_EQ(doubler.Pending(), kForever);
  EXPECT_FALSE(doubler.Stop().has_value());  // nothing waits
  const Doubler::Seen seen = doubler.Until([](const auto& now) { return !now.kept.empty(); });
  EXPECT_EQ(seen.kept, (std::vector<Doubler::Kept>{{kForever, 2 * kForever, true}}));
}

TEST(OneAtATime, ANewRequestTakesThePlaceOfWhatRuns) {
  Doubler doubler;
  doubler.Double(kForever);
  doubler.Until([](const auto& seen) { return seen.begun == 1; });
  doubler.Double(4);
  const Doubler::Seen seen = doubler.Until([](const auto& now) { return now.kept.size() == 2; });
  EXPECT_EQ(seen.kept, (std::vector<Doubler::Kept>{{kForever, 2 * kForever, true}, {4, 8, false}}));
}

// Nobody is woken for what nobody wants.
TEST(OneAtATime, WhatIsNotKeptWakesNobody) {
  Doubler doubler;
  doubler.ForgetCancelled();
  doubler.Double(kForever);
  doubler.Until([](const auto& seen) { return seen.begun == 1; });
  doubler.Double(5);
  const Doubler::Seen seen = doubler.Until([](const auto& now) { return now.wakes == 2; });
  EXPECT_EQ(seen.kept, (std::vector<Doubler::Kept>{{5, 10, false}}));
}

TEST(OneAtATime, EndsWhileItRuns) {
  for (int i = 0; i < 20; ++i) {
    Doubler doubler;
    doubler.Double(kForever);
    if (i % 2 == 0) doubler.Until([](const auto& seen) { return seen.begun == 1; });
  }
}

}  // namespace
}  // namespace shardscope::shell
