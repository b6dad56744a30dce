#include "trace/record/writer_calls.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace shardscope::record {
namespace {

constexpr std::chrono::milliseconds kNoTime(0);
constexpr std::chrono::milliseconds kLong(600'000);

TEST(WriterCallsTest, AFlushWaitsForTheAnswerToItsOwnCall) {
  WriterCalls calls;
  calls.Begin();
  std::atomic<bool> is_written = false;
  std::thread flushing([&] {
    calls.Flush();
    EXPECT_TRUE(is_written);
  });
  WriterCalls::Call call;
  while (call.flushes == 0) call = calls.Wait(kLong);  // which does not pass: the flush wakes it
  EXPECT_EQ(call.flushes, 1u);
  EXPECT_FALSE(call.stops);
  is_written = true;
  calls.Answer(call);
  flushing.join();
  EXPECT_EQ(calls.Wait(kNoTime).flushes, 1u);  // nothing new
}

TEST(WriterCallsTest, NobodyWaitsForAWriterThatIsNotThere) {
  WriterCalls calls;
  calls.Flush();  // it has not begun
  calls.Begin();
  calls.Stop();
  EXPECT_TRUE(calls.Wait(kLong).stops);
  calls.Flush();  // it ends
  EXPECT_EQ(calls.Wait(kNoTime).flushes, 0u);
}

TEST(WriterCallsTest, AWriterThatEndedByAnErrorIsNotWaitedFor) {
  WriterCalls calls;
  calls.Begin();
  calls.AnswerAll();
  calls.Flush();
  calls.Flush();
  EXPECT_EQ(calls.Wait(kNoTime).flushes, 2u);  // it went on without waiting
}

}  // namespace
}  // namespace shardscope::record
