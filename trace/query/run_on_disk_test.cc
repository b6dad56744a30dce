#include <gtest/gtest.h>

#include <chrono>
#include <fstream>

#include "trace/query/live_trace.h"
#include "trace/store/trace_file.h"

namespace shardscope::query {
namespace {

namespace fs = std::filesystem;

class RunOnDiskTest : public testing::Test {
 protected:
  RunOnDiskTest()
      : folder_(fs::path(testing::TempDir()) /
                testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~RunOnDiskTest() override { fs::remove_all(folder_); }
  std::string Touch(const char* name) const {
    std::ofstream(folder_ / name) << "x";
    return (folder_ / name).string();
  }
  RunOnDisk Look() const { return LookAtRun(folder_.string()); }

  const fs::path folder_;
};

TEST_F(RunOnDiskTest, AFolderWithAConfigurationOrATraceIsARun) {
  EXPECT_FALSE(Look().found);
  Touch("notes.txt");
  Touch("trace-host-7.lock");
  EXPECT_FALSE(Look().found);
  Touch("trace-host-7.db");
  EXPECT_TRUE(Look().found);
  EXPECT_FALSE(Look().live);
  EXPECT_FALSE(LookAtRun((folder_ / "gone").string()).found);
}

TEST_F(RunOnDiskTest, IsLiveOnlyWhileTheWriterHoldsItsLock) {
  const std::string path = Touch("trace-host-7.live.db");
  EXPECT_TRUE(Look().found);
  EXPECT_FALSE(Look().live);  // killed before its lock was made
  {
    auto lock = store::TraceLock::TryTake(store::TraceFileOf(path));
    ASSERT_TRUE(lock.ok() && lock->held());
    EXPECT_TRUE(Look().live);
    EXPECT_TRUE(LookAtRun(path).live);  // one file of it, too
    Touch("trace-host-8.db");
    EXPECT_TRUE(Look().live);  // one of two processes
  }
  ASSERT_TRUE(fs::exists(folder_ / "trace-host-7.lock"));
  EXPECT_FALSE(Look().live);  // killed: the lock file stays, nothing holds it
}

TEST_F(RunOnDiskTest, ASegmentOfALongRunIsAsLiveAsItsFirst) {
  const std::string path = Touch("trace-host-7.live.5.db");
  auto lock = store::TraceLock::TryTake(store::TraceFileOf(path));
  ASSERT_TRUE(lock.ok() && lock->held());
  EXPECT_TRUE(Look().found);
  EXPECT_TRUE(Look().live);
}

TEST_F(RunOnDiskTest, BeganWithItsFirstFile) {
  Touch("trace-host-7.db");
  Touch("run.toml");
  const auto hour = std::chrono::hours(1);
  const fs::file_time_type now = fs::file_time_type::clock::now();
  fs::last_write_time(folder_ / "run.toml", now - 2 * hour);
  fs::last_write_time(folder_ / "trace-host-7.db", now - hour);
  EXPECT_EQ(Look().began, fs::last_write_time(folder_ / "run.toml"));
}

}  // namespace
}  // namespace shardscope::query
