#include "ui/out_of_memory.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "engine/config/config.h"
#include "engine/footprint/advice.h"
#include "engine/footprint/out_of_memory.h"
#include "trace/base/reasons.h"
#include "ui/text.h"

namespace shardscope::ui {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

std::vector<std::string> ChineseOf(const std::string& message) {
  return ErrorSentences(Language::kChinese, message);
}

TEST(OutOfMemory, TheCatalogueHasTheSentencesOfTheTraining) {
  namespace out_of_memory = footprint::out_of_memory;
  const std::pair<Text, const char*> texts[] = {
      {Text::kErrorMemoryOfSchedule, out_of_memory::kSchedule},
      {Text::kErrorMemoryOfStateMove, out_of_memory::kStateMove},
      {Text::kErrorMemoryOfPool, out_of_memory::kPool},
      {Text::kErrorPeakOfOp, out_of_memory::kPeakOfOp},
      {Text::kErrorPeak, out_of_memory::kPeak},
      {Text::kErrorMoreHolders, out_of_memory::kMoreHolders},
      {Text::kErrorWithCopy, out_of_memory::kWithCopy},
      {Text::kErrorFits, out_of_memory::kFits},
      {Text::kErrorRemedy, out_of_memory::kRemedy},
      {Text::kErrorNoneFits, out_of_memory::kNoneFits},
      {Text::kErrorSavesMost, out_of_memory::kSavesMost},
      {Text::kErrorChangeModel, out_of_memory::kChangeModel},
      {Text::kErrorChangeGivenModel, out_of_memory::kChangeGivenModel},
      {Text::kErrorNoneBeside, out_of_memory::kNoneBeside},
      {Text::kErrorNoEvaluation, out_of_memory::kNoEvaluation}};
  for (const auto& [text, english] : texts) EXPECT_STREQ(Tr(Language::kEnglish, text), english);
}

TEST(OutOfMemory, OfATrainingIsToldInWholeSentences) {
  const std::string message =
      "change at step 4 refused: out of memory: schedule 'fsdp2 full pre1' can need 41.2 MB on a "
      "rank (39.1 MB in the order of the host), engine.memory_limit is 40.0 MB. At the peak runs "
      "op 12 'F block1 forward' on rank 0, with activation 12.3 MB (head 2.10 MB, block3.mlp 1.00 "
      "MB, 3 more), gradient shard 9.00 MB, other 1.00 MB (with the copy of the state for "
      "checkpoints). What fits: prefetch.backward=none saves 1.50 MB (39.7 MB, same results); "
      "strategy=zero3 zero.bucket=2 saves 2.00 MB (39.2 MB, same up to rounding); or leave "
      "eval.every out";
  EXPECT_THAT(ErrorSentences(Language::kEnglish, message), SizeIs(3));
  EXPECT_EQ(ErrorText(Language::kEnglish, message), message);
  const std::vector<std::string> chinese = {
      "第 4 步的更改被拒绝：内存不足：调度 'fsdp2 full pre1' 在一个 rank 上可能需要 41.2 "
      "MB（按主机发出的顺序为 39.1 MB），而 engine.memory_limit 为 40.0 MB",
      "峰值时 op 12 'F block1 forward' 在 rank 0 上运行，内存中有：激活 12.3 MB（head 2.10 "
      "MB，block3.mlp 1.00 MB，另有 3 个），梯度分片 9.00 MB，其他 1.00 "
      "MB（含检查点所用的状态副本）",
      "放得下的选择：prefetch.backward=none 节省 1.50 MB（需 39.7 "
      "MB，结果不变）；strategy=zero3 zero.bucket=2 节省 2.00 MB（需 39.2 "
      "MB，仅舍入不同）；或去掉 eval.every"};
  EXPECT_EQ(ChineseOf(message), chinese);
  EXPECT_EQ(ErrorText(Language::kChinese, message),
            chinese[0] + "。" + chinese[1] + "。" + chinese[2]);
}

TEST(OutOfMemory, ThatNothingFitsIsToldWithWhatSavesMost) {
  const std::string head =
      "rank 1, step 3: out of memory: rank 1 holds 4 MB and needs 1 MB more, "
      "engine.memory_limit is 4.5 MB";
  const std::string told =
      "rank 1, step 3: 内存不足：rank 1 已持有 4 MB，还需要 1 MB，而 "
      "engine.memory_limit 为 4.5 MB";
  EXPECT_THAT(ChineseOf(head), ElementsAre(told));
  const std::string none = "Of the options tried, alone and together, none makes it fit into 4 MB";
  EXPECT_THAT(
      ChineseOf(head + ". At the peak on rank 1, with host 3 MB. " + none +
                ": train.batch=1 saves 1 MB (5 MB, another training), which is most; " +
                footprint::out_of_memory::kChangeModel),
      ElementsAre(
          told, "rank 1 的峰值时，内存中有：主机内存 3 MB",
          "试过的选项，无论单独还是合用，都不能使其放入 4 MB：最多的是 train.batch=1 节省 1 "
          "MB（需 5 MB，训练不同）；请调高 engine.memory_limit，调低 "
          "train.batch、model.seq、model.layers 或 model.dim，或使用更多 rank"));
  const std::string move =
      fmt::format(footprint::out_of_memory::kStateMove, "a", "b", "3 kB", "2 kB");
  EXPECT_THAT(ChineseOf(move + ". " + footprint::out_of_memory::kNoneBeside),
              ElementsAre("内存不足：从 'a' 换到 'b' 须移动参数与优化器状态，一个 rank "
                          "可能同时持有两者，因而可能需要 3 kB，而 engine.memory_limit 为 2 kB",
                          "试过的其他选项都不能使其放下：请停止运行，再用此设置从其检查点继续"
                          "（--resume），或调高 engine.memory_limit"));
}

// Whatever it advises: no English is left but for keys and names.
TEST(OutOfMemory, WhatATrainingSaysIsToldWhole) {
  config::Config config;
  ASSERT_TRUE(config.SetAll({{"run.ranks", "2"}, {"model.layers", "2"}}).ok());
  const auto footprint = footprint::FootprintOf(config);
  ASSERT_TRUE(footprint.ok()) << footprint.message();
  for (const int64_t limit_bytes : {footprint->needed_bytes() - 1, int64_t{1000}}) {
    const std::string error =
        footprint::OutOfMemoryText(config, *footprint, {.limit_bytes = limit_bytes});
    const std::vector<std::string> chinese = ChineseOf(error);
    ASSERT_THAT(chinese, SizeIs(3)) << error;
    const std::string text = ErrorText(Language::kChinese, error);
    for (const char* english : {"memory:", "can need", "At the peak", "with", "more", "What fits",
                                "saves", "same", "options", "raise"}) {
      EXPECT_THAT(text, Not(HasSubstr(english))) << error;
    }
    EXPECT_THAT(chinese[1], HasSubstr("峰值时"));
    for (const char* category : {"shard ", "parameter ", "gradient ", "buffer ", "activation "}) {
      EXPECT_THAT(chinese[1], Not(HasSubstr(category)));
    }
  }
}

// As trace/record/inject/allocator writes it.
TEST(OutOfMemory, OfARecordedProgramIsToldWithTheRangeThatAsked) {
  const auto error = [](const std::string& where) {
    return fmt::format(reasons::kTorchOutOfMemory, 2, "2.00 MB",
                       where + fmt::format(reasons::kGpuBytesFree, "1.00 MB"), "6.00 MB", "5 MB");
  };
  EXPECT_STREQ(Tr(Language::kEnglish, Text::kErrorTorchOutOfMemory), reasons::kTorchOutOfMemory);
  EXPECT_EQ(error(" in forward (0)"),
            "GPU 2 is out of memory: 2.00 MB more were asked for in forward (0), 1.00 MB are free; "
            "PyTorch holds 6.00 MB, of which 5 MB are in use");
  EXPECT_THAT(ChineseOf(error("")),
              ElementsAre("GPU 2 内存不足：又请求 2.00 MB，空闲 1.00 MB；PyTorch 持有 6.00 "
                          "MB，其中 5 MB 在使用"));
  EXPECT_THAT(ChineseOf(error(" in FSDP::all_gather (a, b)")),
              ElementsAre("GPU 2 内存不足：又请求 2.00 MB（位于 FSDP::all_gather (a, b)），空闲 "
                          "1.00 MB；PyTorch 持有 6.00 MB，其中 5 MB 在使用"));
}

TEST(OutOfMemory, WhatIsNotKnownStaysAsItIs) {
  for (const std::string message :
       {"rank 1 hangs. At the peak of it", "step 3: out of memory: it is; so it ends", ""}) {
    EXPECT_EQ(ErrorText(Language::kChinese, message), message);
  }
}

}  // namespace
}  // namespace shardscope::ui
