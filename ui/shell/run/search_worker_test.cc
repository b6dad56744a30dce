#include "ui/shell/run/search_worker.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>

#include "tests/lesson/lesson_snapshot.h"

namespace shardscope::shell {
namespace {

using namespace std::chrono_literals;

bool Eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(2ms);
  }
  return true;
}

bool HasFound(const SearchWorker& worker, const SearchRequest& request) {
  const FoundHitsPtr found = worker.Latest();
  return found != nullptr && found->text == request.text && found->snapshot == request.snapshot;
}

TEST(SearchWorker, FindsWhatIsAskedLastInTheNewestRows) {
  const auto first = analysis::MakeLessonSnapshot(2, 6, 3);
  const auto second = analysis::MakeLessonSnapshot(2, 8, 3);
  SearchWorker worker({});
  EXPECT_EQ(worker.Latest(), nullptr);
  for (const char* text : {"a", "al", "all", "kind:all_gather"}) worker.Ask({text, first});
  const SearchRequest typed{"kind:all_gather", first};
  ASSERT_TRUE(Eventually([&] { return HasFound(worker, typed); }));
  EXPECT_EQ(worker.Latest()->result.count, FindHits(typed)->result.count);
  EXPECT_GT(worker.Latest()->result.count, 0);
  const SearchRequest newer{"kind:all_gather", second};
  worker.Ask(newer);
  ASSERT_TRUE(Eventually([&] { return HasFound(worker, newer); }));
  // Steps 3 to 7 are alike.
  EXPECT_GT(worker.Latest()->result.count, FindHits(typed)->result.count);
}

TEST(SearchWorker, AQueryThatIsWrongIsAnAnswer) {
  SearchWorker worker({});
  const SearchRequest request{"rank:x", analysis::MakeLessonSnapshot(1, 3, 2)};
  worker.Ask(request);
  ASSERT_TRUE(Eventually([&] { return HasFound(worker, request); }));
  ASSERT_TRUE(worker.Latest()->error.has_value());
  EXPECT_EQ(worker.Latest()->error->term, "rank:x");
}

TEST(SearchWorker, ForgetsAndFindsAgain) {
  SearchWorker worker({});
  const SearchRequest request{"gather", analysis::MakeLessonSnapshot(1, 3, 2)};
  worker.Ask(request);
  ASSERT_TRUE(Eventually([&] { return HasFound(worker, request); }));
  worker.Forget();
  EXPECT_EQ(worker.Latest(), nullptr);
  worker.Ask(request);
  EXPECT_TRUE(Eventually([&] { return HasFound(worker, request); }));
}

TEST(SearchWorker, EndsWhileItIsAsked) {
  const auto snapshot = analysis::MakeLessonSnapshot(2, 24, 12);
  for (int i = 0; i < 20; ++i) {
    SearchWorker worker({});
    worker.Ask({"forward", snapshot});
  }
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(FindHits({"forward", snapshot}, stop.get_token()), nullptr);
}

}  // namespace
}  // namespace shardscope::shell
