// What is said of checkpoints that were lost.
#include "engine/runtime/checkpoint/checkpoint_writer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/checkpoint/folder.h"
#include "trace/base/file_size_limit_test_util.h"
#include "trace/base/input_file.h"
#include "trace/base/output_file.h"

namespace shardscope::runtime {
namespace {

class LostCheckpointTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(root_); }
  void TearDown() override { std::filesystem::remove_all(root_); }

  // Of two ranks that keep nothing. `refusal`: why rank 1 may make no copy.
  std::string Said(const std::string& refusal) {
    const StateLayout layout{};
    std::string said;
    {
      CheckpointWriter writer(
          {.root = root_, .num_ranks = 2, .local = {0, 1}},
          {.on_part = [](const schema::CheckpointRow&) {},
           .on_outcome = [&said](const CheckpointOutcome& outcome) { said = outcome.message; }});
      CheckpointHead head;
      head.index.step = 3;
      head.index.num_ranks = 2;
      head.toml = "# nothing\n";
      writer.Save(0, {.layout = &layout, .units = {}, .step = 3, .refusal = ""}, head);
      writer.Save(1, {.layout = &layout, .units = {}, .step = 3, .refusal = refusal}, std::nullopt);
    }
    return said;
  }

  // What rank 0 says, where rank 1 is of another process, which has said why it failed.
  std::string SaidWithOther(const std::string& reason) {
    const std::string partial = checkpoint::PartialFolder(root_, 3, 1);
    std::filesystem::create_directories(partial);
    EXPECT_TRUE(WriteFile(partial + "/rank-1-of-2.failed", reason).ok());
    const StateLayout layout{};
    std::string said;
    {
      CheckpointWriter writer(
          {.root = root_, .num_ranks = 2, .local = {0}},
          {.on_part = [](const schema::CheckpointRow&) {},
           .on_outcome = [&said](const CheckpointOutcome& outcome) { said = outcome.message; }});
      writer.Save(0, {.layout = &layout, .units = {}, .step = 3, .refusal = ""}, CheckpointHead{});
    }
    return said;
  }

  const std::string root_ =
      (std::filesystem::temp_directory_path() / ("lost-checkpoints-" + std::to_string(getpid())))
          .string();
};

TEST_F(LostCheckpointTest, RanksAreCountedWhereOneOfThemFailed) {
  EXPECT_EQ(Said("no room"),
            "no checkpoint before step 3: 1 of 2 ranks could be written (rank 1: no room)");
}

TEST_F(LostCheckpointTest, RanksOfOtherProcessesSayWhyOrAtLeastThatTheyFailed) {
  const std::string start = "no checkpoint before step 3: 1 of 2 ranks could be written (rank 1: ";
  EXPECT_EQ(SaidWithOther("no room"), start + "no room)");
  EXPECT_EQ(SaidWithOther(""), start + "nothing could be written, not even why)");
}

// Rank 0 waits for that, at worst for all of comm.timeout.
TEST_F(LostCheckpointTest, ARankOfAnotherProcessSaysThatItFailedOnAFullDiskToo) {
  const std::string failed = checkpoint::PartialFolder(root_, 3, 1) + "/rank-1-of-2.failed";
  const StateLayout layout{};
  for (const bool is_full : {false, true}) {
    std::optional<FileSizeLimit> limit;
    if (is_full) limit.emplace(0);
    {
      CheckpointWriter writer({.root = root_, .num_ranks = 2, .local = {1}},
                              {.on_part = [](const schema::CheckpointRow&) {}, .on_outcome = {}});
      writer.Save(1, {.layout = &layout, .units = {}, .step = 3, .refusal = "no room"},
                  std::nullopt);
    }
    limit.reset();
    const Result<std::string> reason = ReadFile(failed, 100);
    ASSERT_TRUE(reason.ok()) << reason.message();
    EXPECT_EQ(*reason, is_full ? "" : "no room");
    std::filesystem::remove_all(std::filesystem::path(failed).parent_path());
  }
}

TEST_F(LostCheckpointTest, WhatFailedBehindAllRanksIsSaidAlone) {
  // A folder where a file is to be.
  const std::string toml = checkpoint::PartialFolder(root_, 3, 1) + "/run.toml";
  std::filesystem::create_directories(toml);
  const std::string said = Said("");
  EXPECT_TRUE(said.starts_with("no checkpoint before step 3: ")) << said;
  EXPECT_NE(said.find("run.toml"), std::string::npos) << said;
  EXPECT_EQ(said.find("could be written"), std::string::npos) << said;
  EXPECT_TRUE(std::filesystem::is_empty(root_));
}

TEST_F(LostCheckpointTest, WhatAnotherRunHasWrittenIsNotReplaced) {
  const std::filesystem::path there = checkpoint::StepFolder(root_, 3);
  ASSERT_TRUE(Said("").starts_with("checkpoint before step 3 in "));
  ASSERT_TRUE(checkpoint::IsWhole(there));
  std::filesystem::create_directories(there / "of another run");
  const std::string said = Said("");
  EXPECT_TRUE(said.starts_with("no checkpoint before step 3: " + there.string() +
                               " is there already, and not of this run"))
      << said;
  EXPECT_TRUE(std::filesystem::exists(there / "of another run"));
  EXPECT_FALSE(std::filesystem::exists(checkpoint::PartialFolder(root_, 3, 1)));
}

TEST_F(LostCheckpointTest, OneThatIsNotWholeIsMovedAsideAndThatIsSaid) {
  const std::string there = checkpoint::StepFolder(root_, 3);
  for (const std::string& aside : {there + ".aside", there + ".aside-2"}) {
    std::filesystem::create_directories(there);
    std::filesystem::remove(there + "/index.json");
    std::filesystem::create_directories(there + "/of another run");
    const std::string said = Said("");
    EXPECT_TRUE(said.starts_with("checkpoint before step 3 in " + there + ": ")) << said;
    EXPECT_NE(said.find("; what was there is now " + aside + " (" + there + " has no index.json"),
              std::string::npos)
        << said;
    EXPECT_TRUE(std::filesystem::exists(aside + "/of another run"));
    EXPECT_TRUE(checkpoint::IsWhole(there));
    EXPECT_FALSE(std::filesystem::exists(there + "/of another run"));
  }
}

}  // namespace
}  // namespace shardscope::runtime
