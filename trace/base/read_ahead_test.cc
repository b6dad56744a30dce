#include "trace/base/read_ahead.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "trace/base/mapped_file.h"
#include "trace/base/output_file.h"

namespace shardscope {
namespace {

class ReadAheadTest : public testing::Test {
 protected:
  static constexpr size_t kBytes = 1'700'003;

  void SetUp() override { ASSERT_TRUE(WriteFile(path_, std::string(kBytes, 'x')).ok()); }
  void TearDown() override { unlink(path_.c_str()); }

  // What the system has of the file in its cache leaves it, where that is on a disk.
  void Forget() const {
    const int descriptor = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_GE(descriptor, 0);
    ASSERT_EQ(fsync(descriptor), 0);
    ASSERT_EQ(posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED), 0);
    close(descriptor);
  }

  bool IsCached(size_t first, size_t count) const {
    const auto mapped = MappedFile::Open(path_);
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    std::vector<unsigned char> pages((kBytes + page - 1) / page);
    auto* const data = const_cast<std::byte*>(mapped->bytes().data());
    EXPECT_EQ(mincore(data, kBytes, pages.data()), 0);
    return std::all_of(pages.begin() + static_cast<std::ptrdiff_t>(first / page),
                       pages.begin() + static_cast<std::ptrdiff_t>((first + count - 1) / page) + 1,
                       [](unsigned char is_cached) { return (is_cached & 1) != 0; });
  }

  const std::string path_ = testing::TempDir() + "read_ahead_test_" + std::to_string(getpid());
};

TEST_F(ReadAheadTest, WhatWasAskedForIsCachedOnceItWasWaitedFor) {
  for (const auto& [first, count] :
       {std::pair<size_t, size_t>{0, 1}, {700'000, 900'000}, {kBytes - 1, 1}, {0, kBytes}}) {
    Forget();
    ReadAhead ahead(path_);
    ahead.Ask(first, count);
    ahead.WaitFor(first, count);
    EXPECT_TRUE(IsCached(first, count)) << first;
  }
}

// This test and the next would hang if they failed.
TEST_F(ReadAheadTest, NobodyWaitsForWhatWasNotAskedFor) {
  ReadAhead ahead(path_);
  ahead.WaitFor(0, kBytes);
  ahead.Ask(0, 0);
  ahead.Ask(1'600'000, 1'000);
  ahead.WaitFor(0, 1'000'000);
  ahead.WaitFor(2 * kBytes, kBytes);
}

TEST_F(ReadAheadTest, OfAFileThatIsNotThereOrShorterNothingIsWaitedFor) {
  ReadAhead none(path_ + "_none");
  none.Ask(0, kBytes);
  none.WaitFor(0, kBytes);
  ReadAhead ahead(path_);
  ahead.Ask(kBytes, 10 * kBytes);
  ahead.WaitFor(0, 20 * kBytes);
}

TEST_F(ReadAheadTest, ManyMayAskAndWaitAgainAndAgain) {
  Forget();
  {
    ReadAhead ahead(path_);
    std::vector<std::thread> threads;
    for (size_t thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&ahead, thread] {
        for (size_t at = thread * 1'000; at < kBytes; at += 100'000) {
          ahead.Ask(at, 50'000);
          ahead.WaitFor(at > 200'000 ? at - 200'000 : 0, 100'000);
        }
        ahead.WaitFor(0, kBytes);
      });
    }
    for (std::thread& thread : threads) thread.join();
    ahead.Ask(0, kBytes);  // and ends meanwhile
  }
}

}  // namespace
}  // namespace shardscope
