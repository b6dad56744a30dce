#include "ui/shell/run/lens_workers.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/lesson/lesson_snapshot.h"

namespace shardscope::shell {
namespace {

TEST(MomentsWorker, MakesTheMomentsThatAreAskedForLast) {
  const query::SnapshotPtr snapshot = analysis::MakeLessonSnapshot(2, 6, 99);
  MomentsWorker worker(MakeMoments, {});
  EXPECT_EQ(worker.Latest(), nullptr);
  MomentsRequest request;
  for (int32_t step = 0; step < 6; ++step) {
    request = {snapshot, analysis::TimesOfStep(*snapshot, step).value()};
    worker.Ask(request);
  }
  for (int i = 0; i < 4000 && !request.IsAnsweredBy(worker.Latest()); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ASSERT_TRUE(request.IsAnsweredBy(worker.Latest()));
  EXPECT_EQ(worker.Latest()->At(request.range.start_ns).ranks.size(), 2u);
  // Of a preview not all is known.
  auto preview = std::make_shared<query::Snapshot>(*snapshot);
  preview->loading = true;
  EXPECT_FALSE((MomentsRequest{preview, request.range}).IsAnsweredBy(worker.Latest()));
  EXPECT_FALSE((MomentsRequest{snapshot, {0, 1}}).IsAnsweredBy(worker.Latest()));
}

}  // namespace
}  // namespace shardscope::shell
