#include "trace/base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

namespace shardscope {
namespace {

TEST(ForEachIndex, CallsEachOnceOnAnyNumberOfThreads) {
  for (const size_t num_threads : {0, 1, 3, 50}) {
    std::vector<std::atomic<int>> calls(20);
    const Status status = ForEachIndex(calls.size(), num_threads, [&calls](size_t index) {
      ++calls[index];
      return Status::Ok();
    });
    EXPECT_TRUE(status.ok());
    for (const std::atomic<int>& of_index : calls) EXPECT_EQ(of_index, 1);
  }
}

TEST(ForEachIndex, CallsEachOnceOnEveryCore) {
  EXPECT_GE(NumCores(), 1u);
  std::vector<std::atomic<int>> calls(20);
  ForEachIndex(calls.size(), [&calls](size_t index) { ++calls[index]; });
  for (const std::atomic<int>& of_index : calls) EXPECT_EQ(of_index, 1);
}

TEST(ForEachIndex, ReturnsAnErrorAndBeginsNoMore) {
  std::atomic<size_t> num_calls = 0;
  const Status status = ForEachIndex(1'000'000, 2, [&num_calls](size_t index) {
    ++num_calls;
    return index == 3 ? Status::Error("three") : Status::Ok();
  });
  EXPECT_EQ(status.message(), "three");
  EXPECT_LT(num_calls, 1'000'000U);
}

TEST(ForEachIndex, ThrowsOnWhatIsThrownOnAnyThreadAndBeginsNoMore) {
  for (const size_t num_threads : {1, 2, 8}) {
    std::atomic<size_t> num_calls = 0;
    const auto work = [&num_calls](size_t index) {
      ++num_calls;
      if (index >= 3) throw std::length_error("three");
      return Status::Ok();
    };
    EXPECT_THROW((void)ForEachIndex(1'000'000, num_threads, work), std::length_error);
    EXPECT_LT(num_calls, 1'000'000U);
  }
}

TEST(ForEachIndex, OfNothingThereIsNothingToDo) {
  EXPECT_TRUE(ForEachIndex(0, 4, [](size_t) { return Status::Error("never"); }).ok());
}

}  // namespace
}  // namespace shardscope
