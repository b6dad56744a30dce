// What the memory panel says of engine.memory_limit.
#include "ui/panels/memory/memory_limit.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "trace/base/reasons.h"

namespace shardscope::panels {
namespace {

constexpr const char* kError =
    "step 3: out of memory: schedule 'fsdp2 full' can need 2 MB on a rank. At the peak runs op 5. "
    "What fits: prefetch.backward=none saves 1.5 MB (same results); strategy=full saves 1 MB";

TEST(MemoryLimitTest, IsThatOfTheRunIfItHasOne) {
  query::Snapshot snapshot;
  EXPECT_EQ(MemoryLimitOf(snapshot), 0);
  snapshot.config["engine.memory_limit"] = "0";
  EXPECT_EQ(MemoryLimitOf(snapshot), 0);
  snapshot.config["engine.memory_limit"] = "2.5MB";
  EXPECT_EQ(MemoryLimitOf(snapshot), 2'500'000);
  snapshot.config["engine.memory_limit"] = "much";  // of another version
  EXPECT_EQ(MemoryLimitOf(snapshot), 0);
}

TEST(MemoryLimitTest, TheErrorIsToldInSentencesARefusalFirst) {
  ui::Context context;
  EXPECT_TRUE(OutOfMemorySentences(context).empty());
  query::Marker error;
  error.kind = "error";
  error.new_value = kError;
  auto failed = std::make_shared<query::Snapshot>();
  failed->markers = {error};
  context.snapshot = failed;
  const auto of_run = OutOfMemorySentences(context);
  ASSERT_EQ(of_run.size(), 3u);
  EXPECT_TRUE(of_run[0].ends_with("on a rank"));
  EXPECT_EQ(of_run[1], "At the peak runs op 5");
  EXPECT_TRUE(of_run[2].starts_with("What fits: prefetch") && of_run[2].ends_with("saves 1 MB"));
  context.control.error = kError;
  auto refused = OutOfMemorySentences(context);
  ASSERT_EQ(refused.size(), 4u);
  EXPECT_EQ(refused[0], "The change was refused; the run goes on as before.");
  refused.erase(refused.begin());
  EXPECT_EQ(refused, of_run);
  context.language = ui::Language::kChinese;
  EXPECT_EQ(OutOfMemorySentences(context)[0], "更改已被拒绝；运行照旧继续。");
  context.control.error = "out of memory: no more";
  EXPECT_EQ(OutOfMemorySentences(context).size(), 2u);
}

// As trace/import/memory_snapshot writes it.
TEST(MemoryLimitTest, TheErrorOfASnapshotIsToldInTheLanguageOfTheApp) {
  query::Marker error;
  error.kind = "error";
  error.new_value = fmt::format(reasons::kGpuOutOfMemory, 0, "537 MB", "", "9.4 MB");
  auto failed = std::make_shared<query::Snapshot>();
  failed->markers = {error};
  ui::Context context;
  context.snapshot = failed;
  EXPECT_EQ(OutOfMemorySentences(context), std::vector<std::string>{error.new_value});
  context.language = ui::Language::kChinese;
  const std::vector<std::string> chinese{
      "GPU 0 内存不足：又请求 537 MB；快照所知的内存块中 9.4 MB 在使用"};
  EXPECT_EQ(OutOfMemorySentences(context), chinese);
  EXPECT_EQ(OutOfMemoryOf(context), chinese.front());
}

TEST(MemoryLimitTest, ThatNothingFitsIsASentence) {
  for (const std::string nothing :
       {"Of the options tried, alone and together, none makes it fit into 1 MB: raise it",
        "No key makes it fit into 1 MB: raise it"}) {
    ui::Context context;
    context.control.error =
        "out of memory: schedule 'full' can need 2 MB. At the peak runs op 5. " + nothing;
    const auto sentences = OutOfMemorySentences(context);
    ASSERT_EQ(sentences.size(), 4u);
    EXPECT_EQ(sentences[2], "At the peak runs op 5");
    EXPECT_EQ(sentences[3], nothing);
  }
}

TEST(MemoryLimitTest, ARefusedChangeStandsBeforeAnErrorOfTheRun) {
  ui::Context context;
  EXPECT_EQ(OutOfMemoryOf(context), "");
  auto snapshot = std::make_shared<query::Snapshot>();
  query::Marker error;
  error.kind = "error";
  error.new_value = "rank 1 died";
  snapshot->markers = {error};
  context.snapshot = snapshot;
  EXPECT_EQ(OutOfMemoryOf(context), "");
  error.new_value = kError;
  auto failed = std::make_shared<query::Snapshot>();
  failed->markers = {error};
  context.snapshot = failed;
  EXPECT_EQ(OutOfMemoryOf(context), kError);
  context.control.error = "strategy=ddq: did you mean ddp";
  EXPECT_EQ(OutOfMemoryOf(context), kError);
  context.control.error = "out of memory: schedule 'ddp'";
  EXPECT_EQ(OutOfMemoryOf(context), context.control.error);
}

}  // namespace
}  // namespace shardscope::panels
