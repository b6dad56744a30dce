#include "engine/transport/gloo/tag.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <set>
#include <span>
#include <vector>

namespace shardscope::transport {
namespace {

using words::OpKind;

template <typename Piece>
std::span<const Piece> OnePiece(const Piece& piece) {
  return {&piece, 1};
}

// The same sizes and reduction everywhere: only what the call is tells them apart.
TEST(TagTest, CallsOfOneCommunicatorHaveTagsOfTheirOwn) {
  constexpr size_t kSize = 64;
  const GatherPiece gather{.bytes = kSize};
  const ReducePiece reduce{.elements = kSize};
  const AllReducePiece all_reduce{.elements = kSize};
  const BroadcastPiece broadcast{.bytes = kSize};
  const std::vector<int> tags = {
      TagOf(OpKind::kAllGather, 1, OnePiece(gather)),
      TagOf(OpKind::kReduceScatter, 1, OnePiece(reduce), {}),
      TagOf(OpKind::kAllReduce, 1, OnePiece(all_reduce), {}),
      TagOf(OpKind::kAllReduce, 1, OnePiece(all_reduce), {}, /*is_second_half=*/true),
      TagOf(OpKind::kBroadcast, 1, OnePiece(broadcast))};
  EXPECT_EQ(std::set<int>(tags.begin(), tags.end()).size(), tags.size());
  for (const int tag : tags) EXPECT_GE(tag, 0);
  EXPECT_EQ(TagOf(OpKind::kAllGather, 1, OnePiece(gather)), tags.front());
}

TEST(TagTest, WhatRanksMustAgreeOnIsInTheTag) {
  const AllReducePiece piece{.elements = 64};
  const AllReducePiece longer{.elements = 65};
  const auto tag_of = [](int communicator, const AllReducePiece& one, const Reduction& reduction) {
    return TagOf(OpKind::kAllReduce, communicator, OnePiece(one), reduction);
  };
  const std::set<int> tags = {tag_of(1, piece, {}), tag_of(2, piece, {}), tag_of(1, longer, {}),
                              tag_of(1, piece, {.dtype = plan::DType::kBf16}),
                              tag_of(1, piece, {.scale = 0.5})};
  EXPECT_EQ(tags.size(), 5u);
}

TEST(TagTest, RanksAtDifferentOpsHaveOtherTags) {
  const int tag = TagOf(OpKind::kAllGather, 1, OnePiece(GatherPiece{.bytes = 64}));
  EXPECT_NE(TagAt("F m0 block0 all_gather", tag), TagAt("F m0 block1 all_gather", tag));
  EXPECT_EQ(TagAt("F m0 block0 all_gather", tag), TagAt("F m0 block0 all_gather", tag));
}

}  // namespace
}  // namespace shardscope::transport
