#include "trace/record/recording_window.h"

#include <gtest/gtest.h>

namespace shardscope::record {
namespace {

TEST(RecordingWindowTest, SaysOfEachTimeWhetherItWasOpen) {
  RecordingWindow window;
  EXPECT_TRUE(window.is_open());
  EXPECT_TRUE(window.WasOpen(0));
  const int64_t before_ns = MonotonicNs() - 1;
  window.Set(true);  // as it is
  window.Set(false);
  EXPECT_FALSE(window.is_open());
  EXPECT_TRUE(window.WasOpen(before_ns));
  EXPECT_FALSE(window.WasOpen(MonotonicNs()));
  const int64_t closed_ns = MonotonicNs();
  while (MonotonicNs() == closed_ns) {
  }
  window.Set(true);
  EXPECT_TRUE(window.is_open());
  EXPECT_FALSE(window.WasOpen(closed_ns));
  EXPECT_TRUE(window.WasOpen(MonotonicNs()));
}

TEST(RecordingWindowTest, ClosedForGoodItTakesNothingAndKeepsWhatWas) {
  RecordingWindow window;
  window.CloseForGood();
  EXPECT_FALSE(window.is_open());
  EXPECT_TRUE(window.WasOpen(MonotonicNs()));
  // As record.steps does in a run that goes on without its trace.
  window.Set(false);
  window.Set(true);
  EXPECT_FALSE(window.is_open());
}

}  // namespace
}  // namespace shardscope::record
