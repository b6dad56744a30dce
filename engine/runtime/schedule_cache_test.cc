#include "engine/runtime/schedule_cache.h"

#include <gtest/gtest.h>

#include "engine/plan/uniform_model.h"

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

}  // namespace
}  // namespace shardscope::runtime
