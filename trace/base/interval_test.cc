#include "trace/base/interval.h"

#include <gtest/gtest.h>

namespace shardscope {
namespace {

using Intervals = std::vector<Interval>;

TEST(Intervals, UnionJoinsTouchingDropsEmptyAndSorts) {
  EXPECT_EQ(Union({{5, 8}, {0, 2}, {2, 4}, {7, 9}, {3, 3}, {12, 11}}), (Intervals{{0, 4}, {5, 9}}));
  EXPECT_EQ(Union({}), Intervals{});
}

TEST(Intervals, IntersectAndSubtractByHand) {
  const Intervals a = {{0, 10}, {20, 30}};
  const Intervals b = {{5, 22}, {25, 26}, {29, 40}};
  EXPECT_EQ(Intersect(a, b), (Intervals{{5, 10}, {20, 22}, {25, 26}, {29, 30}}));
  EXPECT_EQ(Subtract(a, b), (Intervals{{0, 5}, {22, 25}, {26, 29}}));
  EXPECT_EQ(Intersect(a, {{10, 20}}), Intervals{});  // touching is not overlapping
  EXPECT_EQ(Subtract(a, {{10, 20}}), a);
  EXPECT_EQ(TotalNs(a), 20);
}

TEST(Intervals, WhatIsUncoveredIsCountedInUnionsNotSums) {
  const auto uncovered = [](const Intervals& inside, const Intervals& covers) {
    return TotalNs(Subtract(Union(inside), Union(covers)));
  };
  EXPECT_EQ(uncovered({{0, 10}, {5, 20}}, {}), 20);
  EXPECT_EQ(uncovered({{0, 10}, {5, 20}}, {{8, 12}, {10, 15}}), 13);
  EXPECT_EQ(uncovered({{0, 10}, {30, 40}}, {{0, 5}, {9, 35}}), 9);
  EXPECT_EQ(uncovered({{3, 4}}, {{0, 10}}), 0);
  EXPECT_EQ(uncovered({}, {{0, 10}}), 0);
}

}  // namespace
}  // namespace shardscope
