#include "trace/base/hash.h"

#include <gtest/gtest.h>

namespace shardscope {
namespace {

// The test vectors of the IETF's draft (draft-eastlake-fnv).
TEST(Fnv1a, IsTheOneThatIsKnown) {
  EXPECT_EQ(Fnv1a(""), 0xcbf29ce484222325);
  EXPECT_EQ(Fnv1a("a"), 0xaf63dc4c8601ec8c);
  EXPECT_EQ(Fnv1a("foobar"), 0x85944171f73967e8);
}

TEST(Fnv1a, GoesOnBehindWhatWasThere) {
  EXPECT_EQ(Fnv1a("bar", Fnv1a("foo")), Fnv1a("foobar"));
  EXPECT_EQ(Fnv1a("\xff"), FnvStep(kFnvBasis, 0xff));
}

}  // namespace
}  // namespace shardscope
