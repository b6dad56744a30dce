#include "trace/analysis/collectives/hang.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace shardscope::analysis {
namespace {

using query::FlightState;
constexpr FlightState kScheduled = FlightState::kScheduled;
constexpr FlightState kStarted = FlightState::kStarted;
constexpr FlightState kCompleted = FlightState::kCompleted;

class HangTest : public ::testing::Test {
 protected:
  HangTest() { snapshot_.names.Append(""); }

  void Group(int32_t rank, std::vector<int32_t> members, const std::string& name = "0",
             const std::string& description = "default_pg") {
    query::FlightGroup group;
    group.rank = rank;
    group.name = name;
    group.description = description;
    group.members = std::move(members);
    snapshot_.flight_groups.Append(group);
  }
  query::FlightEntry Entry(int32_t rank, int64_t sequence, const std::string& name,
                           FlightState state, const std::string& input = "Float [4]",
                           const std::string& group = "0") {
    query::FlightEntry entry;
    entry.rank = rank;
    entry.sequence = sequence;
    entry.record = next_++;
    entry.created_ns = 1'000 * next_;
    entry.state = state;
    entry.group = group;
    entry.name = "nccl:" + name;
    entry.input = input;
    return entry;
  }
  void Add(int32_t rank, int64_t sequence, const std::string& name, FlightState state,
           const std::string& input = "Float [4]", const std::string& group = "0") {
    snapshot_.flight_entries.Append(Entry(rank, sequence, name, state, input, group));
  }
  std::string Sentence() { return FindHang(snapshot_).sentence; }

  query::Snapshot snapshot_;
  int64_t next_ = 0;
};

TEST_F(HangTest, WithoutDumpsThereIsNothingToSay) {
  const Hang hang = FindHang(snapshot_);
  EXPECT_TRUE(hang.sentence.empty());
  EXPECT_TRUE(hang.groups.empty());
}

TEST_F(HangTest, TheRankThatDidNotAskIsNamed) {
  for (const int32_t rank : {0, 1, 2, 3}) {
    Group(rank, {0, 1, 2, 3});
    Add(rank, 40, "reduce_scatter", kCompleted);
    if (rank != 1) Add(rank, 41, "all_gather", rank == 3 ? kScheduled : kStarted);
  }
  const Hang hang = FindHang(snapshot_);
  EXPECT_EQ(hang.sentence,
            "Ranks 0, 2, 3 wait in all_gather #41 of group 0 (default_pg); rank 1 has not issued "
            "it: its last was reduce_scatter #40.");
  EXPECT_TRUE(hang.is_hang);
  EXPECT_EQ(hang.num_dumps, 4);
  ASSERT_EQ(hang.groups.size(), 1u);
  const GroupHang& group = hang.groups[0];
  ASSERT_TRUE(group.pending);
  EXPECT_EQ(group.pending->waiting, (std::vector<int32_t>{0, 2, 3}));
  EXPECT_EQ(group.pending->not_issued, (std::vector<int32_t>{1}));
  EXPECT_EQ(group.pending->not_started, (std::vector<int32_t>{3}));
  EXPECT_FALSE(group.mismatch);
  ASSERT_EQ(group.positions.size(), 4u);
  EXPECT_EQ(group.positions[0].last_enqueued, 41);
  EXPECT_EQ(group.positions[0].last_started, 41);
  EXPECT_EQ(group.positions[0].last_completed, 40);
  EXPECT_EQ(group.positions[1].last_enqueued, 40);
  EXPECT_EQ(group.positions[3].last_started, 40);
}

TEST_F(HangTest, OfTheCulpritTheProgramsOwnFrameIsNamed) {
  snapshot_.names.Append(
      "all_gather (/x/torch/distributed/c10d.py:3)\nbackward (train.py:31)\nmain (train.py:1)");
  for (const int32_t rank : {0, 1}) Group(rank, {0, 1});
  query::FlightEntry last = Entry(0, 1, "all_gather", kCompleted);
  last.stack = 1;
  snapshot_.flight_entries.Append(last);
  Add(1, 1, "all_gather", kCompleted);
  Add(1, 2, "all_gather", kStarted);
  EXPECT_EQ(Sentence(),
            "Rank 1 waits in all_gather #2 of group 0 (default_pg); rank 0 has not issued it: its "
            "last was all_gather #1, asked for in backward (train.py:31).");
}

TEST_F(HangTest, ARankWithoutADumpMayBeTheCulprit) {
  Group(0, {0, 1, 2});
  Group(1, {0, 1, 2});
  Add(0, 5, "all_reduce", kStarted);
  Add(1, 5, "all_reduce", kStarted);
  EXPECT_EQ(Sentence(),
            "Ranks 0, 1 wait in all_reduce #5 of group 0 (default_pg); there is no "
            "dump of rank 2: whether it has issued it is not known.");
  EXPECT_EQ(FindHang(snapshot_).groups[0].pending->without_dump, (std::vector<int32_t>{2}));
}

TEST_F(HangTest, AllInTheSameIsNobodysFault) {
  for (const int32_t rank : {0, 1}) Add(rank, 5, "all_reduce", kStarted);
  EXPECT_EQ(Sentence(),
            "All ranks are in all_reduce #5 of group 0, and it does not end: look at "
            "the network and the GPUs, not at the program.");
  snapshot_.flight_entries = {};
  Add(0, 5, "all_reduce", kScheduled);
  Add(1, 5, "all_reduce", kStarted);
  EXPECT_EQ(Sentence(),
            "All ranks have issued all_reduce #5 of group 0; rank 0 has not begun it: "
            "what comes before it on its GPU has not ended.");
  snapshot_.flight_entries = {};
  Add(0, 5, "all_reduce", kCompleted);
  Add(1, 5, "all_reduce", kStarted);
  EXPECT_EQ(Sentence(),
            "Rank 1 has not seen the end of all_reduce #5 of group 0, which rank 0 "
            "has: its GPU is still busy, or stuck behind it.");
}

TEST_F(HangTest, WhatHasEndedIsNoHang) {
  for (const int32_t rank : {0, 1}) {
    Add(rank, 1, "all_reduce", kScheduled);  // its end was not looked for, that of the next was
    Add(rank, 2, "all_reduce", kCompleted);
  }
  const Hang hang = FindHang(snapshot_);
  EXPECT_EQ(hang.sentence, "Nothing is pending: all that ranks 0, 1 remembered has ended.");
  EXPECT_FALSE(hang.is_hang);
}

TEST_F(HangTest, TheFirstDifferenceIsFound) {
  for (const int32_t rank : {0, 1, 2}) {
    Add(rank, 7, "all_gather", kCompleted);
    Add(rank, 8, rank == 2 ? "all_reduce" : "all_gather", kStarted);
    Add(rank, 9, rank == 2 ? "all_gather" : "all_reduce", kScheduled);
  }
  const Hang hang = FindHang(snapshot_);
  ASSERT_TRUE(hang.groups[0].mismatch);
  const Mismatch& mismatch = *hang.groups[0].mismatch;
  EXPECT_EQ(mismatch.kind, Mismatch::Kind::kOrder);
  EXPECT_EQ(mismatch.sequence, 8);
  EXPECT_EQ(mismatch.ranks, (std::vector<int32_t>{2}));
  EXPECT_EQ(mismatch.other_ranks, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(hang.sentence,
            "Collective #8 of group 0 differs: ranks 0, 1 asked for all_gather, rank 2 for "
            "all_reduce; one of them asks for the other's later: the order differs.");
}

TEST_F(HangTest, SizesAndTypesHaveToAgreeWhereTheyMust) {
  const auto kind = [this](const std::string& name, const std::string& a,
                           const std::string& b) -> std::string {
    snapshot_.flight_entries = {};
    Add(0, 3, name, kStarted, a);
    Add(1, 3, name, kStarted, b);
    const Hang hang = FindHang(snapshot_);
    return hang.groups[0].mismatch ? std::string(Name(hang.groups[0].mismatch->kind)) : "none";
  };
  EXPECT_EQ(kind("all_reduce", "Float [4]", "Float [8]"), "sizes");
  EXPECT_EQ(kind("_all_gather_base", "Float [4]", "Float [8]"), "sizes");
  EXPECT_EQ(kind("_reduce_scatter_base", "Float [4]", "Half [4]"), "types");
  EXPECT_EQ(kind("broadcast", "Float [4]", "Float [4]"), "none");
  EXPECT_EQ(kind("all_to_all", "Float [4]", "Float [8]"), "none");
  EXPECT_EQ(kind("gather", "Float [4]", ""), "none");
  EXPECT_EQ(kind("scatter", "Float [4]", ""), "none");
  EXPECT_EQ(FindHang(snapshot_).groups[0].pending->waiting.size(), 2u);
  (void)kind("all_reduce", "Float [4], Half [2, 2]", "Float [8], Half [2, 2]");
  EXPECT_EQ(Sentence(),
            "Collective #3 of group 0 differs in its sizes: rank 0 asked for "
            "all_reduce of Float [4], Half [2, 2], rank 1 for all_reduce of Float [8], "
            "Half [2, 2].");
}

TEST_F(HangTest, OnlyWhatBothRememberIsCompared) {
  for (int64_t sequence = 1; sequence < 9; ++sequence) Add(0, sequence, "all_gather", kCompleted);
  Add(1, 8, "all_gather", kCompleted);  // a smaller buffer
  EXPECT_FALSE(FindHang(snapshot_).is_hang);
}

TEST_F(HangTest, PartsOfACoalescedCollectiveAreOne) {
  for (const int32_t rank : {0, 1}) {
    Add(rank, 4, "all_gather", kScheduled);
    Add(rank, 4, "all_gather", kScheduled);
    Add(rank, 4, "coalesced", kCompleted);
  }
  EXPECT_FALSE(FindHang(snapshot_).is_hang);
  Add(1, 5, "all_gather", kStarted);
  Add(0, 4, "all_gather", kScheduled);  // one more than rank 1
  EXPECT_EQ(FindHang(snapshot_).groups[0].mismatch->kind, Mismatch::Kind::kOperation);
}

TEST_F(HangTest, TheGroupThatHoldsUpOthersComesFirst) {
  // Rank 2 does not come to group 1; so rank 1 does not come to group 0.
  Group(0, {0, 1});
  Group(1, {1, 2}, "1", "mesh_tp");
  Add(0, 3, "all_reduce", kStarted);
  Add(1, 2, "all_reduce", kCompleted);
  Add(1, 6, "all_gather", kStarted, "Float [4]", "1");
  Add(2, 5, "all_gather", kCompleted, "Float [4]", "1");
  const Hang hang = FindHang(snapshot_);
  EXPECT_EQ(hang.num_in_cycle, 0);
  EXPECT_EQ(hang.groups[0].name, "1");
  EXPECT_EQ(hang.sentence,
            "Rank 1 waits in all_gather #6 of group 1 (mesh_tp); rank 2 has not "
            "issued it: its last was all_gather #5.");
}

TEST_F(HangTest, GroupsThatWaitForOneAnotherAreBothNamed) {
  Group(0, {0, 1});
  Group(0, {0, 1}, "1", "undefined");
  Add(0, 3, "all_reduce", kStarted);
  Add(1, 3, "all_gather", kStarted, "Float [4]", "1");
  Group(1, {0, 1});
  EXPECT_EQ(Sentence(),
            "Groups wait for one another: Rank 0 waits in all_reduce #3 of group 0 (default_pg); "
            "rank 1 has not issued it: it has issued none. Rank 1 waits in all_gather #3 of group "
            "1; rank 0 has not issued it: it has issued none.");
  EXPECT_EQ(FindHang(snapshot_).num_in_cycle, 2);
}

TEST_F(HangTest, SendsAndReceivesAreLookedForOnTheOtherSide) {
  const auto add = [this](int32_t rank, const std::string& name) {
    query::FlightEntry entry = Entry(rank, 2, name, kStarted);
    entry.is_p2p = true;
    snapshot_.flight_entries.Append(entry);
  };
  Group(4, {4, 6});
  Group(6, {4, 6});
  add(4, "send 0->1");
  EXPECT_EQ(Sentence(),
            "Rank 4 waits in send 0->1 #2 of group 0 (default_pg); rank 6 has not "
            "asked for the receive.");
  add(6, "recv 1<-0");
  EXPECT_EQ(Sentence(),
            "Rank 4 waits in send 0->1 #2 of group 0 (default_pg), and rank 6 in the "
            "other side of it.");
  const GroupHang group = FindHang(snapshot_).groups[0];
  EXPECT_EQ(group.peers.size(), 2u);
  ASSERT_TRUE(group.peer.has_value());
  EXPECT_EQ(group.peer->rank, 4);
  EXPECT_EQ(group.peer->other_rank, 6);
  EXPECT_EQ(group.peer->other, PeerWait::Other::kIsInIt);
}

TEST_F(HangTest, WhatTheGroupSaysGoesBeyondItsEntries) {
  Add(0, 9, "all_reduce", kStarted);
  query::FlightGroup group;  // of a rank that remembers no entries
  group.rank = 1;
  group.name = "0";
  group.last_enqueued = 9;
  group.last_started = 8;
  group.last_completed = 8;
  snapshot_.flight_groups.Append(group);
  const Hang hang = FindHang(snapshot_);
  EXPECT_EQ(hang.groups[0].pending->waiting, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(hang.groups[0].pending->not_started, (std::vector<int32_t>{1}));
}

TEST_F(HangTest, ListsOfRanksAreShort) {
  EXPECT_EQ(RankList({}), "");
  EXPECT_EQ(RankList({5}), "5");
  EXPECT_EQ(RankList({0, 1, 2}), "0, 1, 2");
  EXPECT_EQ(RankList({0, 1, 2, 3, 7, 9, 10}), "0 to 3, 7, 9, 10");
  EXPECT_EQ(RankList({0, 1, 2, 3, 7}, "-"), "0-3, 7");
}

}  // namespace
}  // namespace shardscope::analysis
