#include "ui/shell/run/newest_worker.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <stop_token>
#include <thread>
#include <vector>

#include "tests/lesson/lesson_snapshot.h"
#include "ui/shell/run/report_worker.h"

namespace shardscope::shell {
namespace {

struct NumberRequest {
  int number = 0;
  bool is_always_alike = false;
  std::shared_ptr<const int> snapshot;
  bool Asks(const NumberRequest& other) const { return is_always_alike || number == other.number; }
  bool operator==(const NumberRequest&) const = default;
};

// Asks for 2 while 1 is in the making; returns what became an answer, up to 2.
std::vector<int> AnswersWhenAskedMeanwhile(bool is_always_alike) {
  Mutex mutex;
  CondVar changed;
  bool is_begun = false;
  bool may_end = false;
  const auto make = [&](const NumberRequest& request,
                        const std::stop_token&) -> std::shared_ptr<const int> {
    MutexLock lock(mutex);
    is_begun = true;
    changed.notify_all();
    while (!may_end) changed.wait(lock);
    return std::make_shared<const int>(request.number);
  };
  std::vector<int> answers;
  const NewestWorker<NumberRequest, int>* shown = nullptr;
  const auto wake = [&] {
    const MutexLock lock(mutex);
    answers.push_back(*shown->Latest());
    changed.notify_all();
  };
  NewestWorker<NumberRequest, int> worker(make, wake, std::chrono::milliseconds(1));
  shown = &worker;
  worker.Ask({1, is_always_alike, nullptr});
  MutexLock lock(mutex);
  while (!is_begun) changed.wait(lock);
  lock.unlock();
  worker.Ask({2, is_always_alike, nullptr});
  lock.lock();
  may_end = true;
  changed.notify_all();
  while (answers.empty() || answers.back() != 2) changed.wait(lock);
  return answers;
}

TEST(NewestWorker, AnotherQuestionStopsTheAnswerInTheMaking) {
  EXPECT_EQ(AnswersWhenAskedMeanwhile(false), (std::vector<int>{2}));
}

TEST(NewestWorker, NewerRowsLetTheAnswerInTheMakingEnd) {
  EXPECT_EQ(AnswersWhenAskedMeanwhile(true), (std::vector<int>{1, 2}));
}

// While a scope is dragged the report in the making is shown.
TEST(ReportWorker, FiguresOfAnotherScopeAreNoOtherQuestion) {
  const query::SnapshotPtr lesson = analysis::MakeLessonSnapshot(2, 6, 3);
  const analysis::Scope part{.kind = analysis::ScopeKind::kSteps, .first = 3, .last = 5};
  EXPECT_TRUE((FindingsRequest{.snapshot = lesson, .scope = part}).Asks({.snapshot = lesson}));
  ReportWorker worker({});
  EXPECT_EQ(worker.Latest(), nullptr);
  worker.Ask({.snapshot = lesson});
  worker.Ask({.snapshot = lesson, .scope = part});
  const auto is_part = [&] {
    const FindingsPtr findings = worker.Latest();
    return findings != nullptr && findings->figures->scope.first == 3;
  };
  for (int i = 0; i < 4000 && !is_part(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_TRUE(is_part());
}

}  // namespace
}  // namespace shardscope::shell
