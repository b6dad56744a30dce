#include "ui/hang_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace shardscope::ui {
namespace {

using analysis::GroupHang;
using analysis::Hang;
using analysis::Mismatch;
using analysis::PeerWait;
using testing::HasSubstr;

// Ranks 0, 2 and 3 wait in a collective of rank 1 too.
GroupHang WaitingGroup() {
  GroupHang group;
  group.name = "0";
  group.description = "default_pg";
  analysis::RankPosition position;
  position.rank = 1;
  position.last_enqueued = 40;
  position.last_name = "reduce_scatter";
  group.positions.push_back(position);
  group.pending.emplace();
  group.pending->sequence = 41;
  group.pending->name = "all_gather";
  group.pending->waiting = {0, 2, 3};
  group.pending->not_issued = {1};
  return group;
}

std::string Chinese(const GroupHang& group) {
  Hang hang;
  hang.is_hang = true;
  hang.sentence = "that of the report";
  hang.groups = {group};
  EXPECT_EQ(HangSentence(Language::kEnglish, hang), hang.sentence);
  return HangSentence(Language::kChinese, hang);
}

TEST(HangSentence, OfACollectiveIsMadeOfItsParts) {
  GroupHang group = WaitingGroup();
  EXPECT_EQ(Chinese(group),
            "rank 0, 2, 3 在组 0（default_pg）的 all_gather #41 中等待；rank 1 尚未发出它："
            "它最后发出的是 reduce_scatter #40。");
  group.positions[0].asked_at = "backward (train.py:31)";
  EXPECT_THAT(Chinese(group), HasSubstr("reduce_scatter #40，位于 backward (train.py:31)。"));
  group.positions.clear();
  EXPECT_THAT(Chinese(group), HasSubstr("它没有发出过任何集合通信。"));
  group.pending->not_issued = {1, 4};
  EXPECT_THAT(Chinese(group),
              HasSubstr("rank 1 没有发出过任何集合通信，rank 4 没有发出过任何集合通信。"));
  group.description = "undefined";
  group.pending->not_issued.clear();
  group.pending->without_dump = {5, 6, 7, 8};
  EXPECT_EQ(
      Chinese(group),
      "rank 0, 2, 3 在组 0 的 all_gather #41 中等待；没有 rank 5-8 的转储，不知道是否已发出它。");
  group.pending->without_dump.clear();
  EXPECT_THAT(Chinese(group), HasSubstr("请检查网络和 GPU"));
  group.pending->not_started = {3};
  EXPECT_THAT(Chinese(group), HasSubstr("rank 3 尚未开始执行"));
  group.pending->completed = {9};
  EXPECT_THAT(Chinese(group), HasSubstr("而 rank 9 已看到"));
  group.pending->name.clear();
  EXPECT_THAT(Chinese(group), HasSubstr("组 0 的集合通信 #41 结束"));
}

TEST(HangSentence, OfAMismatchNamesWhatDiffers) {
  GroupHang group = WaitingGroup();
  group.mismatch = Mismatch{.sequence = 8};
  group.mismatch->ranks = {2};
  group.mismatch->asked = "all_reduce";
  group.mismatch->other_ranks = {0, 1};
  group.mismatch->others_asked = "all_gather";
  EXPECT_EQ(Chinese(group),
            "组 0（default_pg）的集合通信 #8 不一致：rank 0, 1 请求 all_gather，rank 2 请求 "
            "all_reduce。");
  group.mismatch->kind = Mismatch::Kind::kOrder;
  EXPECT_THAT(Chinese(group), HasSubstr("顺序不同"));
  group.mismatch->kind = Mismatch::Kind::kTypes;
  EXPECT_THAT(Chinese(group), HasSubstr("类型不一致"));
  group.mismatch->kind = Mismatch::Kind::kSizes;
  EXPECT_THAT(Chinese(group), HasSubstr("大小不一致"));
}

TEST(HangSentence, OfASendSaysWhereTheOtherSideIs) {
  GroupHang group;
  group.name = "1";
  group.peer = PeerWait{.rank = 4, .sequence = 2, .name = "send 0->1"};
  EXPECT_EQ(Chinese(group), "rank 4 在组 1 的 send 0->1 #2 中等待。");
  group.peer->is_send = true;
  group.peer->other_rank = 6;
  group.peer->other = PeerWait::Other::kHasNotAsked;
  EXPECT_THAT(Chinese(group), HasSubstr("；rank 6 尚未请求接收。"));
  group.peer->other = PeerWait::Other::kIsInIt;
  EXPECT_THAT(Chinese(group), HasSubstr("，rank 6 在它的另一端等待。"));
  group.peer->other = PeerWait::Other::kHasNoDump;
  EXPECT_THAT(Chinese(group), HasSubstr("；没有 rank 6 的转储。"));
}

TEST(HangSentence, GroupsThatWaitForOneAnotherAreAllNamed) {
  Hang hang;
  hang.is_hang = true;
  hang.num_in_cycle = 2;
  hang.groups = {WaitingGroup(), WaitingGroup(), WaitingGroup()};
  hang.groups[1].name = "7";
  hang.groups[2].name = "9";
  const std::string text = HangSentence(Language::kChinese, hang);
  EXPECT_THAT(text, testing::StartsWith("各组互相等待：rank 0, 2, 3 在组 0"));
  EXPECT_THAT(text, HasSubstr("组 7"));
  EXPECT_THAT(text, testing::Not(HasSubstr("组 9")));
}

}  // namespace
}  // namespace shardscope::ui
