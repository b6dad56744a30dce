#include "engine/runtime/schedule_cache.h"

#include <gmock/gmock.h>

#include "engine/plan/text.h"
#include "engine/plan/uniform_model.h"
#include "trace/base/output_file.h"

namespace shardscope::runtime {
namespace {

TEST(ScheduleCache, BuildsAScheduleOnceWhileItIsKept) {
  ScheduleCache cache([](const plan::UnitPolicy&) { return plan::UniformModel(2, false); });
  plan::Policy first;
  first.mesh = plan::MeshOf(plan::MeshDimension::kShard, 2);
  const auto built = cache.Get(first);
  ASSERT_TRUE(built.ok()) << built.message();
  plan::Policy other = first;
  for (int depth = 1; depth <= 3; ++depth) {
    for (int forward = 0; forward <= 3; ++forward) {
      other.backward_depth = depth;
      other.forward_prefetch = forward;
      ASSERT_TRUE(cache.Get(other).ok());
    }
  }
  EXPECT_EQ(*cache.Get(first), *built);  // the same object
  for (other.prefetch_limit = 1; other.prefetch_limit <= 20; ++other.prefetch_limit) {
    ASSERT_TRUE(cache.Get(other).ok());
  }
  const auto again = cache.Get(first);
  EXPECT_NE(*again, *built);  // it went, and was built anew
  EXPECT_EQ(**again, **built);
}

TEST(ScheduleCache, ReadsAFileOnceUnlessItIsToldTo) {
  ScheduleCache cache([](const plan::UnitPolicy&) { return plan::UniformModel(2, false); });
  plan::Policy policy;
  policy.mesh = plan::MeshOf(plan::MeshDimension::kShard, 2);
  const auto built = cache.Get(policy);
  ASSERT_TRUE(built.ok()) << built.message();
  plan::Schedule written = **built;
  written.name = "mine";
  const std::string path = testing::TempDir() + "/cache_schedule.txt";
  ASSERT_TRUE(WriteFile(path, plan::PrintSchedule(written)).ok());
  const auto read = cache.GetWritten(path, policy, false);
  ASSERT_TRUE(read.ok()) << read.message();
  EXPECT_EQ(**read, written);
  written.name = "mine, changed";
  ASSERT_TRUE(WriteFile(path, plan::PrintSchedule(written)).ok());
  EXPECT_EQ(*cache.GetWritten(path, policy, false), *read);  // the same object
  const auto again = cache.GetWritten(path, policy, true);
  EXPECT_EQ((*again)->name, "mine, changed");
  EXPECT_EQ(*cache.GetWritten(path, policy, false), *read);  // it may yet be refused
  cache.KeepWritten(path, *again);
  // What is refused does not take the place of what may be in force.
  ASSERT_TRUE(WriteFile(path, "schedule 1 \"cut\" ranks=2\n").ok());
  EXPECT_EQ(cache.GetWritten(path, policy, true).message(),
            path + ": the schedule is cut off: it has no 'rank_programs' line");
  EXPECT_EQ((*cache.GetWritten(path, policy, false))->name, "mine, changed");
  plan::Policy other = policy;
  other.micro_batches = 2;
  EXPECT_THAT(cache.GetWritten(path, other, false).message(),
              testing::HasSubstr("its micro-batches are other than this run's"));
}

}  // namespace
}  // namespace shardscope::runtime
