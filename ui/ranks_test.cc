#include "ui/ranks.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace shardscope::ui {
namespace {

using FilterProblem = RankFilterError::Problem;

std::vector<int32_t> SixteenRanks() {
  std::vector<int32_t> ranks(16);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

query::Snapshot RunWith(const std::map<std::string, std::string>& config, int num_ranks = 16) {
  query::Snapshot snapshot;
  snapshot.config = config;
  for (int32_t rank = 0; rank < num_ranks; ++rank) {
    snapshot.ranks.emplace_back();
    snapshot.ranks.back().rank = rank;
  }
  return snapshot;
}

TEST(RankFilter, NumbersAndRanges) {
  const std::vector<int32_t> ranks = SixteenRanks();
  const auto choose = [&](std::string_view text) {
    return std::get<std::vector<int32_t>>(FilterRanks(ranks, std::nullopt, text));
  };
  EXPECT_EQ(choose(""), ranks);
  EXPECT_EQ(choose("  "), ranks);
  EXPECT_EQ(choose("3"), (std::vector<int32_t>{3}));
  EXPECT_EQ(choose("0-2,14-99"), (std::vector<int32_t>{0, 1, 2, 14, 15}));
  EXPECT_EQ(choose("0-7 5-12"), (std::vector<int32_t>{5, 6, 7}));
  EXPECT_TRUE(choose("77").empty());
}

TEST(RankFilter, PlacesInTheMesh) {
  const query::Snapshot run = RunWith({{"mesh.replicate", "2"},
                                       {"mesh.shard", "auto"},
                                       {"mesh.pipeline", "1"},
                                       {"mesh.tensor", "2"}});
  const std::optional<plan::Mesh> mesh = MeshOfRun(run);
  ASSERT_TRUE(mesh);
  EXPECT_EQ(mesh->size(plan::MeshDimension::kShard), 4);
  const auto choose = [&](std::string_view text) {
    return std::get<std::vector<int32_t>>(FilterRanks(SixteenRanks(), mesh, text));
  };
  EXPECT_EQ(choose("replicate=1").size(), 8u);
  for (const int32_t rank : choose("shard=3 tensor=0")) {
    EXPECT_EQ(mesh->Coordinate(rank, plan::MeshDimension::kShard), 3);
    EXPECT_EQ(mesh->Coordinate(rank, plan::MeshDimension::kTensor), 0);
  }
  EXPECT_EQ(choose("shard=3 tensor=0").size(), 2u);
  EXPECT_EQ(choose("shard=0-1,3 0-7").size(), 6u);
  EXPECT_TRUE(choose("pipeline=1").empty());
}

TEST(RankFilter, WhatIsWrongIsNamed) {
  const auto error = [](std::string_view text, const std::optional<plan::Mesh>& mesh) {
    return std::get<RankFilterError>(FilterRanks(SixteenRanks(), mesh, text));
  };
  const std::optional<plan::Mesh> mesh = plan::MeshOf(plan::MeshDimension::kShard, 16);
  EXPECT_EQ(error("3 a", mesh), (RankFilterError{FilterProblem::kNoNumbers, "a"}));
  EXPECT_EQ(error("5-2", mesh).problem, FilterProblem::kNoNumbers);
  EXPECT_EQ(error("1,", mesh).problem, FilterProblem::kNoNumbers);
  EXPECT_EQ(error("-3", mesh).problem, FilterProblem::kNoNumbers);
  EXPECT_EQ(error("shard=", mesh).problem, FilterProblem::kNoNumbers);
  EXPECT_EQ(error("color=1", mesh), (RankFilterError{FilterProblem::kUnknownDimension, "color=1"}));
  EXPECT_EQ(error("shard=1", std::nullopt).problem, FilterProblem::kNoMesh);
}

TEST(MeshOfRun, OnlyWhereItFitsTheRanks) {
  EXPECT_FALSE(MeshOfRun(RunWith({})));
  EXPECT_FALSE(MeshOfRun(RunWith({{"mesh.shard", "5"}})));
  EXPECT_FALSE(MeshOfRun(RunWith({{"mesh.shard", "auto"}, {"mesh.replicate", "auto"}})));
  EXPECT_FALSE(MeshOfRun(RunWith({{"mesh.shard", "auto"}, {"mesh.replicate", "3"}})));
  EXPECT_TRUE(MeshOfRun(RunWith({{"mesh.shard", "16"}})));
}

TEST(RanksInOrder, PinnedOnesFirstAndNoHiddenOnes) {
  const query::Snapshot run = RunWith({}, 5);
  EXPECT_EQ(RanksInOrder(run, {}), (std::vector<int32_t>{0, 1, 2, 3, 4}));
  Lanes lanes;
  lanes.pinned_ranks = {2, 4};
  lanes.hidden_ranks = {0};
  EXPECT_EQ(RanksInOrder(run, lanes), (std::vector<int32_t>{2, 4, 1, 3}));
}

TEST(RanksInOrder, AsArrangedAndRanksThatCameLaterBehind) {
  const query::Snapshot run = RunWith({}, 5);
  Lanes lanes;
  lanes.rank_order = {3, 0, 7, 1};  // 7 is no rank of this run
  EXPECT_EQ(RanksInOrder(run, lanes), (std::vector<int32_t>{3, 0, 1, 2, 4}));
  lanes.pinned_ranks = {1, 4};
  EXPECT_EQ(RanksInOrder(run, lanes), (std::vector<int32_t>{1, 4, 3, 0, 2}));
}

// The order once `rank` is put over shown[place].
std::vector<int32_t> ShownAfter(Lanes lanes, int32_t rank, size_t place) {
  const query::Snapshot run = RunWith({}, 5);
  lanes.rank_order = OrderWithMoved(run, lanes, RanksInOrder(run, lanes), rank, place);
  return RanksInOrder(run, lanes);
}

TEST(OrderWithMoved, OverAnotherRankOrUnderAll) {
  EXPECT_EQ(ShownAfter({}, 3, 0), (std::vector<int32_t>{3, 0, 1, 2, 4}));
  EXPECT_EQ(ShownAfter({}, 0, 3), (std::vector<int32_t>{1, 2, 0, 3, 4}));
  EXPECT_EQ(ShownAfter({}, 1, 5), (std::vector<int32_t>{0, 2, 3, 4, 1}));
  EXPECT_EQ(ShownAfter({}, 1, 99), (std::vector<int32_t>{0, 2, 3, 4, 1}));
  for (const size_t stays : {1U, 2U}) {
    EXPECT_EQ(ShownAfter({}, 1, stays), (std::vector<int32_t>{0, 1, 2, 3, 4}));
  }
  EXPECT_EQ(ShownAfter({}, 9, 0), (std::vector<int32_t>{0, 1, 2, 3, 4}));
  Lanes arranged;
  arranged.rank_order = {4, 3, 2, 1, 0};
  EXPECT_EQ(ShownAfter(arranged, 0, 1), (std::vector<int32_t>{4, 0, 3, 2, 1}));
}

TEST(OrderWithMoved, PinnedRanksStayOnTopAndHiddenOnesWhereTheyAre) {
  Lanes lanes;
  lanes.pinned_ranks = {2, 3};
  const std::vector<int32_t> shown = {2, 3, 0, 1, 4};
  EXPECT_EQ(LandingPlace(shown, lanes, 4, 0), 2U);
  EXPECT_EQ(LandingPlace(shown, lanes, 2, 5), 2U);
  EXPECT_EQ(LandingPlace(shown, lanes, 4, 99), 5U);
  EXPECT_EQ(ShownAfter(lanes, 4, 0), (std::vector<int32_t>{2, 3, 4, 0, 1}));
  EXPECT_EQ(ShownAfter(lanes, 2, 5), (std::vector<int32_t>{3, 2, 0, 1, 4}));

  const query::Snapshot run = RunWith({}, 5);
  Lanes some;
  some.hidden_ranks = {1, 2};
  EXPECT_EQ(OrderWithMoved(run, some, RanksInOrder(run, some), 0, 2),
            (std::vector<int32_t>{1, 2, 3, 0, 4}));
}

TEST(RankSentence, EnglishIsThatOfTheReport) {
  analysis::RankFindings findings;
  EXPECT_EQ(RankSentence(Language::kEnglish, findings), analysis::RankSentence(findings));
  findings.ranks.push_back({.rank = 3});
  EXPECT_EQ(RankSentence(Language::kEnglish, findings), analysis::RankSentence(findings));
  findings.ranks.push_back({.rank = 5, .num_collectives = 10, .num_last = 4, .last_late_ns = 2e6});
  EXPECT_EQ(RankSentence(Language::kEnglish, findings), analysis::RankSentence(findings));
  for (const std::vector<int32_t>& ranks : {std::vector<int32_t>{5}, {3, 5}}) {
    for (const std::string stage : {"", "backward block1"}) {
      for (const double delay_ns : {0.0, 5e6}) {
        findings.straggler = {ranks, 0.9, 3e6, 4, delay_ns, 0.05, stage};
        EXPECT_EQ(RankSentence(Language::kEnglish, findings), analysis::RankSentence(findings));
        findings.straggler->by_front = ranks.size() == 1;
        EXPECT_EQ(RankSentence(Language::kEnglish, findings), analysis::RankSentence(findings));
      }
    }
  }
}

}  // namespace
}  // namespace shardscope::ui
