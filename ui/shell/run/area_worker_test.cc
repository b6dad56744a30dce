#include "ui/shell/run/area_worker.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <thread>

#include "tests/lesson/lesson_snapshot.h"

namespace shardscope::shell {
namespace {

using namespace std::chrono_literals;

bool InTime(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(2ms);
  }
  return true;
}

TEST(AreaWorker, MeasuresWhatIsMarkedLast) {
  const auto snapshot = analysis::MakeLessonSnapshot(2, 6, 3);
  const int64_t start_ns = snapshot->start_ns;
  AreaWorker worker({});
  EXPECT_EQ(worker.Latest(), nullptr);
  for (int64_t length_ns = 1; length_ns <= 50; ++length_ns) {
    worker.Ask({{{start_ns, start_ns + length_ns * 1'000'000}, {}}, snapshot});
  }
  const analysis::AreaQuery last{{start_ns, start_ns + 50'000'000}, {}};
  ASSERT_TRUE(InTime([&] { return worker.Latest() != nullptr && worker.Latest()->query == last; }));
  const analysis::Area expected = MeasureArea(*snapshot, last);
  ASSERT_EQ(worker.Latest()->ranks.size(), expected.ranks.size());
  EXPECT_EQ(worker.Latest()->ranks[1].idle_ns, expected.ranks[1].idle_ns);
  EXPECT_GT(expected.ranks[1].count, 0);
}

TEST(AreaWorker, MeasuresNewerRows) {
  const auto shorter = analysis::MakeLessonSnapshot(1, 3, 2);
  const auto longer = analysis::MakeLessonSnapshot(1, 6, 2);
  const analysis::AreaQuery whole{{longer->start_ns, longer->end_ns}, {}};
  AreaWorker worker({});
  worker.Ask({whole, shorter});
  ASSERT_TRUE(InTime([&] { return worker.Latest() != nullptr; }));
  const int64_t before = worker.Latest()->ranks[0].count;
  worker.Ask({whole, longer});
  EXPECT_TRUE(InTime([&] { return worker.Latest()->ranks[0].count > before; }));
}

TEST(AreaWorker, EndsWhileItMeasures) {
  const auto snapshot = analysis::MakeLessonSnapshot(2, 24, 12);
  const analysis::AreaQuery whole{{snapshot->start_ns, snapshot->end_ns}, {}};
  for (int i = 0; i < 20; ++i) {
    AreaWorker worker({});
    worker.Ask({whole, snapshot});
  }
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(Measure({whole, snapshot}, stop.get_token()), nullptr);
}

}  // namespace
}  // namespace shardscope::shell
