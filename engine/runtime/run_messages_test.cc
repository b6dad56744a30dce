#include "engine/runtime/run_messages.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "trace/base/input_file.h"

namespace shardscope::runtime {
namespace {

class RunMessagesTest : public testing::Test {
 protected:
  RunMessagesTest()
      : root_(std::filesystem::temp_directory_path() / ("messages-" + std::to_string(getpid()))) {
    Result<RunFolder> folder = RunFolder::Create((root_ / "run").string());
    EXPECT_TRUE(folder.ok()) << folder.message();
    if (folder.ok()) folder_ = std::move(folder).value();
    options_.on_message = [this](const std::string& text) { said_.push_back(text); };
    options_.on_step = [this](const StepReport& report) { steps_.push_back(report); };
  }
  ~RunMessagesTest() override { std::filesystem::remove_all(root_); }

  // Lines of log.txt without their times.
  std::vector<std::string> Logged() const {
    std::vector<std::string> lines;
    const Result<std::string> text = ReadFile(folder_->path() + "/log.txt", 1 << 20);
    for (size_t begin = 0; text.ok() && begin < text->size();) {
      const size_t end = text->find('\n', begin);
      lines.push_back(text->substr(text->find(' ', begin) + 1, end - text->find(' ', begin) - 1));
      begin = end + 1;
    }
    return lines;
  }

  using Lines = std::vector<std::string>;
  const std::filesystem::path root_;
  TrainerOptions options_;
  std::optional<RunFolder> folder_;
  Lines said_;
  std::vector<StepReport> steps_;
};

TEST_F(RunMessagesTest, WhatTheUserIsToldIsInTheLogToo) {
  RunMessages messages(options_, folder_, 2);
  messages.Say("one");
  messages.Log("two");
  messages.Say("three");
  EXPECT_EQ(said_, (Lines{"one", "three"}));
  EXPECT_EQ(Logged(), (Lines{"one", "two", "three"}));
}

// As where its output is not read any more: the error by which the run then ends is logged.
TEST_F(RunMessagesTest, TheLogIsWrittenWhileAListenerDoesNotReturn) {
  std::optional<RunMessages> messages;
  options_.on_message = [&](const std::string&) {
    std::thread([&] { messages->Log("two"); }).join();
  };
  messages.emplace(options_, folder_, 2);
  messages->Say("one");
  EXPECT_EQ(Logged(), (Lines{"one", "two"}));
}

TEST_F(RunMessagesTest, ProcessesWithoutRankZeroOnlyLog) {
  options_.launch = config::Launch{.rank = 1, .num_ranks = 2};
  RunMessages messages(options_, folder_, 2);
  messages.Say("one");
  messages.Log("two");
  EXPECT_EQ(said_, Lines());
  EXPECT_EQ(Logged(), (Lines{"two"}));
}

TEST_F(RunMessagesTest, AStepIsToldOnceItsLastRankHasCome) {
  RunMessages messages(options_, folder_, 2);
  messages.AddStep(1, {.step = 4, .loss = 3, .tokens = 10});
  EXPECT_TRUE(steps_.empty());
  EXPECT_FALSE(messages.LastStep().has_value());
  messages.AddStep(0, {.step = 4, .loss = 1, .tokens = 10});
  ASSERT_EQ(steps_.size(), 1u);
  EXPECT_EQ(steps_[0].step, 4);
  EXPECT_EQ(steps_[0].loss, 2);
  EXPECT_EQ(steps_[0].tokens, 20);
  ASSERT_TRUE(messages.LastStep().has_value());
  EXPECT_EQ(messages.LastStep()->step, 4);
}

}  // namespace
}  // namespace shardscope::runtime
