#include "trace/base/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <new>
#include <stdexcept>
#include <system_error>
#include <thread>

namespace shardscope {
namespace {

using testing::AllOf;
using testing::HasSubstr;

bool IsBlocked(int signal) {
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  return sigismember(&blocked, signal) == 1;
}

TEST(ThreadWithoutSignalsTest, BlocksThemThereAndNotHere) {
  ASSERT_FALSE(IsBlocked(SIGTERM));
  bool is_blocked_there = false;
  ThreadWithoutSignals([&] { is_blocked_there = IsBlocked(SIGTERM) && IsBlocked(SIGINT); }).join();
  EXPECT_TRUE(is_blocked_there);
  EXPECT_FALSE(IsBlocked(SIGTERM));
}

TEST(Shortage, SaysWhatIsShortAndWhatToDo) {
  EXPECT_THAT(ErrorText(std::bad_alloc()), AllOf(HasSubstr("memory"), HasSubstr("fewer ranks")));
  const std::system_error no_thread(std::make_error_code(std::errc::resource_unavailable_try_again),
                                    "thread");
  EXPECT_THAT(ErrorText(no_thread), AllOf(HasSubstr("threads"), HasSubstr("fewer ranks")));
  EXPECT_THAT(ErrorText(std::runtime_error("DefaultCPUAllocator: can't allocate memory")),
              AllOf(HasSubstr("memory"), HasSubstr("fewer ranks")));
  EXPECT_EQ(ErrorText(std::runtime_error("rank 3 left")), "rank 3 left");
}

// In a thread whose code is not ours.
TEST(ShortageDeathTest, WhatNobodyCatchesIsSaidAndEndsWithoutASignal) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto die = [] {
    EndOnShortage();
    std::thread([] { throw std::bad_alloc(); }).join();
  };
  EXPECT_EXIT(die(), testing::ExitedWithCode(1), "error: there is no more memory");
}

}  // namespace
}  // namespace shardscope
