#include "trace/base/wire_bytes.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>

#include "trace/base/byte_rate.h"

namespace shardscope::words {
namespace {

TEST(ByteRate, IsOfASecondAndNoneWithoutTime) {
  EXPECT_EQ(BytesPerSecond(3'000'000, 1.5e9), 2e6);
  EXPECT_DOUBLE_EQ(BytesPerSecond(6000, 100), 6000 / 100e-9);
  EXPECT_EQ(BytesPerSecond(0, 100), 0);
  EXPECT_EQ(BytesPerSecond(6000, 0), 0);
  EXPECT_EQ(BytesPerSecond(6000, -1), 0);
}

TEST(WireBytes, AreThoseOfARing) {
  EXPECT_EQ(WireBytes(OpKind::kAllGather, 400, 4), 300);
  EXPECT_EQ(WireBytes(OpKind::kReduceScatter, 400, 4), 300);
  EXPECT_EQ(WireBytes(OpKind::kAllReduce, 400, 4), 600);
  for (const bool is_root : {false, true}) {
    EXPECT_EQ(WireBytes(OpKind::kBroadcast, 400, 4, is_root), 300);
    EXPECT_EQ(WireBytes(OpKind::kReduce, 400, 4, is_root), 300);
  }
}

TEST(WireBytes, OfTwoPeersOneSends) {
  for (const int64_t num_ranks : {2, 8}) {
    EXPECT_EQ(WireBytes(OpKind::kSend, 401, num_ranks), 401);
    EXPECT_EQ(WireBytes(OpKind::kReceive, 401, num_ranks), 0);
  }
}

TEST(WireBytes, OfARootAndTheOthersWhatEachGivesAway) {
  EXPECT_EQ(WireBytes(OpKind::kScatter, 400, 4, true), 300);
  EXPECT_EQ(WireBytes(OpKind::kScatter, 400, 4), 0);
  EXPECT_EQ(WireBytes(OpKind::kGather, 400, 4, true), 0);
  EXPECT_EQ(WireBytes(OpKind::kGather, 400, 4), 100);
}

TEST(WireBytes, NothingElseSends) {
  const std::set<OpKind> collectives = {
      OpKind::kAllGather, OpKind::kReduceScatter, OpKind::kAllReduce,
      OpKind::kBroadcast, OpKind::kScatter,       OpKind::kGather,
      OpKind::kReduce,    OpKind::kSend,          OpKind::kReceive};
  int num_other = 0;
  for (int value = 0; value <= static_cast<int>(OpKind::kOptimizer); ++value) {
    const auto kind = static_cast<OpKind>(value);
    const bool is_collective =
        TraitsOf(TraitsOf(kind).op_class).category == Category::kCommunication;
    EXPECT_EQ(is_collective, collectives.contains(kind)) << Name(kind);
    if (is_collective) continue;
    ++num_other;
    EXPECT_EQ(WireBytes(kind, 400, 4, true), 0) << Name(kind);
    EXPECT_EQ(WireBytes(kind, 400, 4), 0) << Name(kind);
  }
  EXPECT_GT(num_other, 0);
}

TEST(WireBytes, NeitherRoundsAwayNorOverflows) {
  EXPECT_EQ(WireBytes(OpKind::kAllGather, 10, 4), 7);   // of 7.5
  EXPECT_EQ(WireBytes(OpKind::kAllReduce, 10, 4), 14);  // two passes of 7
  EXPECT_EQ(WireBytes(OpKind::kAllGather, 3, 4), 2);
  EXPECT_EQ(WireBytes(OpKind::kAllGather, INT64_MAX, 2), INT64_MAX / 2);
}

TEST(WireBytes, NoneOfARankAloneOrWithoutAPayload) {
  for (const OpKind kind : {OpKind::kAllGather, OpKind::kSend, OpKind::kGather}) {
    for (const int64_t num_ranks : {-1, 0, 1}) EXPECT_EQ(WireBytes(kind, 400, num_ranks), 0);
    for (const int64_t payload : {-1, 0}) EXPECT_EQ(WireBytes(kind, payload, 4), 0);
  }
}

}  // namespace
}  // namespace shardscope::words
