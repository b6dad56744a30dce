#include "trace/analysis/sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "trace/base/reasons.h"
#include "trace/base/trace_keys.h"

namespace shardscope::analysis {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// A launcher and two processes of two ranks each.
class SourcesTest : public ::testing::Test {
 protected:
  SourcesTest() {
    snapshot_.processes[0] = {"node-10", {}};
    snapshot_.processes[1] = {"node-11", {0, 1}};
    snapshot_.processes[2] = {"node-12", {2, 3}};
  }
  void Say(int64_t process, const std::string& source, const std::string& status,
           const std::string& reason = "", int64_t dropped = 0) {
    snapshot_.capabilities.push_back({source, status, reason, dropped, process});
  }

  query::Snapshot snapshot_;
};

TEST_F(SourcesTest, WhatAllSayAlikeIsOneRowWithoutAPlace) {
  for (const int64_t process : {1, 2}) Say(process, "cupti", "on");
  Say(0, "nccl", "off", "no process made a communicator");
  const std::vector<SourceState> sources = SourcesOf(snapshot_);
  ASSERT_EQ(sources.size(), 2u);
  EXPECT_EQ(PlacesOf(sources[0]), "");
  EXPECT_EQ(PlacesOf(sources[1]), "");
  EXPECT_EQ(PrintSources(sources),
            "\nSources of this trace\n  cupti on\n  nccl off: no process made a communicator\n");
}

TEST_F(SourcesTest, OneRankDoesNotHideAnother) {
  Say(1, "cupti", "on");
  Say(1, "nvtx", "on");
  Say(2, "cupti", "off", "held by Nsight");
  Say(2, "nvtx", "on");
  Say(2, "cupti", "partial", "memory is refused");
  Say(0, "cupti", "off", "no driver");
  const std::vector<SourceState> sources = SourcesOf(snapshot_);
  ASSERT_EQ(sources.size(), 5u);
  for (size_t at = 0; at < 4; ++at) EXPECT_EQ(sources[at].source, "cupti") << at;
  EXPECT_EQ(sources[4].source, "nvtx");
  EXPECT_THAT(sources[0].ranks, ElementsAre(0, 1));
  EXPECT_EQ(PlacesOf(sources[1]), "ranks 2, 3");
  EXPECT_EQ(PlacesOf(sources[3]), "node-10");
  const std::string text = PrintSources(sources);
  EXPECT_THAT(text, HasSubstr("  nvtx on\n  cupti on (ranks 0, 1)\n"));
  EXPECT_THAT(text, HasSubstr("  cupti off (ranks 2, 3): held by Nsight\n"));
  EXPECT_THAT(text, HasSubstr("  cupti partial (ranks 2, 3): memory is refused\n"));
}

TEST_F(SourcesTest, FilesThatAreNotWholeAreListedWithTheirPlace) {
  Say(1, "torch.profiler", "on");
  Say(2, "torch.profiler", "partial", reasons::kFileIsCut + std::string("it ends in an event"));
  Say(2, "torch.profiler", "partial", "not understood: category astrology", 3);
  EXPECT_THAT(CutFilesOf(snapshot_),
              ElementsAre("torch.profiler (ranks 2, 3): it ends in an event"));
}

TEST_F(SourcesTest, FilesThatEndAlikeAreCountedAndOneOfSeveralProcessesOnce) {
  const std::string why = reasons::kFileIsCut + std::string("it ends in an event");
  for (const int64_t process : {1, 2}) Say(process, "torch.profiler", "partial", why);
  EXPECT_THAT(CutFilesOf(snapshot_),
              ElementsAre("torch.profiler (ranks 0, 1): it ends in an event",
                          "torch.profiler (ranks 2, 3): it ends in an event"));
  const auto set_file = [&](int64_t rank, const std::string& file) {
    snapshot_.config[trace_keys::ImportedKey(rank, trace_keys::kCutFile)] = file;
  };
  set_file(0, "a.json");
  set_file(2, "b.json");
  EXPECT_EQ(CutFilesOf(snapshot_).size(), 2u);
  set_file(2, "a.json");
  EXPECT_THAT(CutFilesOf(snapshot_), ElementsAre("torch.profiler: it ends in an event"));
}

TEST_F(SourcesTest, LossesAddUpAndAreToldElsewhere) {
  Say(1, "engine", "partial", "the ring was full", 3);
  Say(2, "engine", "partial", "the ring was full", 4);
  Say(2, "finisher", "partial", "the disk is full");
  const std::vector<SourceState> sources = SourcesOf(snapshot_);
  ASSERT_EQ(sources.size(), 1u);
  EXPECT_EQ(sources[0].dropped, 7);
  EXPECT_EQ(PrintSources(sources), "");
}

TEST(PlacesTest, NeighboursAreOneRange) {
  SourceState state;
  state.ranks = {7};
  EXPECT_EQ(PlacesOf(state), "rank 7");
  state.ranks = {0, 2, 3, 4, 6, 7};
  state.processes = {"node-4711"};
  EXPECT_EQ(PlacesOf(state), "ranks 0, 2-4, 6, 7, node-4711");
}

}  // namespace
}  // namespace shardscope::analysis
