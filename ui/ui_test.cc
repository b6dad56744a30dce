#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "engine/config/config.h"
#include "trace/base/reasons.h"
#include "trace/base/time.h"
#include "ui/boxes.h"
#include "ui/commands.h"
#include "ui/draw_log.h"
#include "ui/text.h"
#include "ui/theme.h"
#include "ui/values.h"

namespace shardscope::ui {
namespace {

TEST(Boxes, IntersectWhereTheyHavePixelsInCommon) {
  const Box box = {0, 0, 10, 10};
  EXPECT_TRUE(Intersects(box, {9, 9, 20, 20}));
  EXPECT_TRUE(Intersects({2, 2, 3, 3}, box));
  EXPECT_FALSE(Intersects(box, {10, 0, 20, 10}));
  EXPECT_FALSE(Intersects(box, {0, 11, 10, 20}));
}

TEST(Theme, TextReadsOnItsGroundInBothThemes) {
  for (const ThemeName name : {ThemeName::kDark, ThemeName::kLight}) {
    const Theme& theme = GetTheme(name);
    for (const Color ground : {theme.surface.panel, theme.surface.raised, theme.surface.window}) {
      for (const Color color : {theme.ink.text, theme.ink.dim, theme.state.accent, theme.state.good,
                                theme.state.bad, theme.state.pending_text}) {
        EXPECT_GE(Contrast(color, ground), 4.5) << std::hex << color << " on " << ground;
      }
    }
    EXPECT_GE(Contrast(theme.state.live_text, theme.state.live_fill), 4.5);
    EXPECT_GE(Contrast(theme.state.quiet_text, theme.state.quiet_fill), 4.5);
    EXPECT_GE(Contrast(theme.state.cut_text, theme.state.cut_fill), 4.5);
    EXPECT_GE(Contrast(theme.state.pending_text, theme.state.pending_fill), 4.5);
  }
}

TEST(Theme, SpanLabelsReadOnEveryOpColor) {
  for (const ThemeName name : {ThemeName::kDark, ThemeName::kLight}) {
    const Theme& theme = GetTheme(name);
    for (int i = 0; i <= static_cast<int>(query::OpClass::kBookkeeping); ++i) {
      const Color ground = OpColor(theme, static_cast<query::OpClass>(i));
      EXPECT_GE(Contrast(InkOn(theme, ground), ground), 4.2) << i;
    }
  }
}

TEST(Theme, NeighbouringUnitsDiffer) {
  const Color hue = GetTheme(ThemeName::kDark).op.forward;
  EXPECT_NE(UnitShade(hue, 0), UnitShade(hue, 1));
  EXPECT_NE(UnitShade(hue, 1), UnitShade(hue, 2));
  EXPECT_NE(UnitShade(hue, 2), UnitShade(hue, 3));
  EXPECT_EQ(UnitShade(hue, -1), hue);
}

// "{}" and "{1}" alike.
int CountPlaceholders(const char* text) {
  return static_cast<int>(std::count(text, text + std::strlen(text), '{'));
}

TEST(Text, AnUndoneValueThatIsEmptyIsNamed) {
  EXPECT_EQ(UndoText(Language::kEnglish, "schedule.file", "a.txt", ""),
            "Undo schedule.file: a.txt → none");
  EXPECT_EQ(UndoText(Language::kChinese, "schedule.file", "", "a.txt"),
            "撤销 schedule.file：无 → a.txt");
}

TEST(Text, EveryEntryHasBothLanguagesAndTheSamePlaceholders) {
  for (int i = 0; i < kNumTexts; ++i) {
    const char* english = Tr(Language::kEnglish, static_cast<Text>(i));
    const char* chinese = Tr(Language::kChinese, static_cast<Text>(i));
    EXPECT_STRNE(english, "") << i;
    EXPECT_STRNE(chinese, "") << i;
    EXPECT_EQ(CountPlaceholders(english), CountPlaceholders(chinese)) << english;
  }
}

TEST(Text, EveryReasonHasItsChinese) {
  for (const char* reason : reasons::kAll) {
    EXPECT_EQ(ReasonText(Language::kEnglish, reason), reason);
    EXPECT_NE(ReasonText(Language::kChinese, reason), reason);
  }
  EXPECT_EQ(ReasonText(Language::kChinese, "libcupti.so: no such file"),
            "libcupti.so: no such file");
}

TEST(Text, WhatIsNoneOfTheTextsStaysAsItIs) {
  EXPECT_EQ(Translated(Language::kEnglish, "on", {Text::kOff, Text::kOn}), "on");
  EXPECT_EQ(Translated(Language::kChinese, "on", {Text::kOff, Text::kOn}),
            Tr(Language::kChinese, Text::kOn));
  EXPECT_EQ(Translated(Language::kChinese, "on", {Text::kOff}), "on");
}

bool HasChinese(const std::string& text) {
  // The blocks of common Chinese characters: U+4E00 to U+9FFF, three bytes from E4 B8 to E9 BF.
  return std::any_of(text.begin(), text.end(), [](char byte) {
    const auto value = static_cast<unsigned char>(byte);
    return value >= 0xE4 && value <= 0xE9;
  });
}

TEST(Text, EveryKeyHasHelpInBothLanguages) {
  ASSERT_FALSE(config::AllKeys().empty());
  for (const config::KeyInfo& key : config::AllKeys()) {
    const std::string english = KeyHelp(Language::kEnglish, key);
    EXPECT_FALSE(english.empty()) << key.name;
    EXPECT_FALSE(HasChinese(english)) << key.name;
    EXPECT_TRUE(HasChinese(KeyHelp(Language::kChinese, key))) << key.name;
  }
}

// Every text of the app in Chinese, with help and label of every key.
std::vector<std::string> ChineseTexts() {
  std::vector<std::string> texts;
  for (int i = 0; i < kNumTexts; ++i) {
    texts.emplace_back(Tr(Language::kChinese, static_cast<Text>(i)));
  }
  for (const config::KeyInfo& key : config::AllKeys()) {
    texts.push_back(KeyHelp(Language::kChinese, key));
    texts.push_back(KeyLabel(Language::kChinese, key.name));
  }
  return texts;
}

// As the Chinese documentation of PyTorch has them: collectives keep their English names, and no
// second word stands for a term that has one.
TEST(Text, ChineseHasNoTranslatedCollectivesAndNoSecondTerms) {
  for (const std::string& text : ChineseTexts()) {
    for (const char* banned : {"全收集", "全聚集", "全规约", "全归约", "规约", "归约", "散布",
                               "通信子", "算子", "操作", "秩"}) {
      EXPECT_THAT(text, testing::Not(testing::HasSubstr(banned)));
    }
  }
}

// Words in Latin letters are names: of collectives, programs, keys, values and symbols of units.
TEST(Text, ChineseMixesInOnlyNames) {
  const std::string names =
      " AdamW CPU broadcast reduce CUPTI CUDA_DEVICE_MAX_CONNECTIONS English GPU Gloo LibTorch "
      "NCCL PyTorch"
      " Shardscope Transformer UTF-8 all-gather all-reduce reduce-scatter bf16 fp32 fp64 ms"
      " op p50 p95 rank s shardscope-train token logits A D E K S W Ctrl End Shift Ctrl+2 Ctrl+9 a "
      "b "
      "n all"
      " auto block block0 blocks cpu cuda emulated f1b gpipe head interleaved list local module"
      " pre hang size step MLP README.md docs shardscope report sql Ctrl+P"
      " BPE GB GELU Hugging Face LlamaForCausalLM SwiGLU budget bytes checkpoints config.json every"
      " fsdp1 fsdp2 full gpt jsonl k llama messages model.safetensors none selective text"
      " tokenizer.json tokens Adam SGD torch.optim fp16 embedding block0.attention block0.mlp LoRA"
      " optimizer grad_op hybrid hybrid_grad_op zero3 double_buffer offload peft "
      "adapter_config.json lora"
      " adapter_model.safetensors"
      " q_proj k_proj v_proj o_proj gate_proj up_proj down_proj qkv projection up down SQL SELECT"
      " LIMIT WHERE Ctrl+Enter"
      " Enter Esc Shift+Enter all_gather block1 change communication compute error exposed forward"
      " kernel kind marker ns range slower unit us work"
      " Shift+ shard replicate pipeline tensor "
      "AG NAME RUN UTF-8 at in-view last-steps nth op ranks s..13.1s scope search selection "
      "since-change"
      " area step t whole-run ms..+4ms s..2s B DDP FSDP torch.profiler Nsight Systems CSV SVG plan "
      "check Alt+Up Alt+Down Tab Shift+Tab M Shift+M F m0 reduce_scatter "
      "all_reduce V NVTX_INJECTION64_PATH TF32"
      " profile_memory True cuda-memory-usage true import.md resume ";
  const auto is_letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
  const auto in_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.' ||
           c == '+';
  };
  for (const std::string& text : ChineseTexts()) {
    for (auto begin = text.begin(); begin != text.end();) {
      begin = std::find_if(begin, text.end(), is_letter);
      const auto end = std::find_if_not(begin, text.end(), in_word);
      const std::string word(begin, end);
      if (!word.empty() && config::FindKey(word) == nullptr) {
        EXPECT_THAT(names, testing::HasSubstr(" " + word + " ")) << text;
      }
      begin = end;
    }
  }
}

TEST(Text, UnitsOfKeysAreTranslated) {
  for (const config::KeyInfo& key : config::AllKeys()) {
    EXPECT_EQ(UnitLabel(Language::kEnglish, key.unit), key.unit);
    const bool symbol = key.unit.empty() || key.unit == "s" || key.unit == "B" || key.unit == "B/s";
    EXPECT_EQ(HasChinese(UnitLabel(Language::kChinese, key.unit)), !symbol) << key.unit;
  }
  EXPECT_EQ(UnitLabel(Language::kChinese, "steps"), "步");
  EXPECT_EQ(UnitLabel(Language::kChinese, "ranks"), "个");
}

TEST(Text, GlossaryTermsAreTheWrittenOnes) {
  EXPECT_STREQ(Tr(Language::kChinese, Text::kExposedCommunication), "暴露通信");
  EXPECT_EQ(TrFormat(Language::kChinese, Text::kAppliesAtStep, 132), "第 132 步生效");
  EXPECT_EQ(ChineseStallSentence(analysis::StallCause::kQueuedBehind, "RS block2"),
            "排在 RS block2 之后");
}

TEST(Text, UnknownKeysKeepTheirName) {
  EXPECT_EQ(KeyLabel(Language::kEnglish, "prefetch.backward"), "Backward prefetch");
  EXPECT_EQ(KeyLabel(Language::kChinese, "no.such.key"), "no.such.key");
}

TEST(Text, EveryLabelOfAKeyIsInBothLanguages) {
  for (const config::KeyInfo& key : config::AllKeys()) {
    const std::string english = KeyLabel(Language::kEnglish, key.name);
    EXPECT_FALSE(HasChinese(english)) << key.name;
    const bool has_label = english != key.name;
    EXPECT_EQ(HasChinese(KeyLabel(Language::kChinese, key.name)), has_label) << key.name;
  }
}

TEST(Text, ALinkOfADimensionIsLabelledAsTheLinkOfAll) {
  EXPECT_EQ(KeyLabel(Language::kEnglish, "link.shard.bandwidth"), "Bandwidth, shard");
  EXPECT_EQ(KeyLabel(Language::kChinese, "link.tensor.latency"), "延迟, tensor");
}

// As trace/import/memory_snapshot writes them.
TEST(Text, WhatImportedTracesSayHasItsChinese) {
  EXPECT_STREQ(Tr(Language::kEnglish, Text::kErrorGpuOutOfMemory), reasons::kGpuOutOfMemory);
  EXPECT_STREQ(Tr(Language::kEnglish, Text::kErrorGpuBytesFree), reasons::kGpuBytesFree);
  EXPECT_STREQ(Tr(Language::kEnglish, Text::kErrorInRange), reasons::kInRange);
  EXPECT_STREQ(Tr(Language::kEnglish, Text::kErrorAskedForBy), reasons::kAskedForBy);
  EXPECT_STREQ(Tr(Language::kEnglish, Text::kTrackRangesWhileRecorded),
               reasons::kRangesWhileRecorded);
  const std::string error = fmt::format(reasons::kGpuOutOfMemory, 1, "2.0 GB",
                                        fmt::format(reasons::kGpuBytesFree, "1 MB"), "70 GB");
  EXPECT_EQ(ErrorText(Language::kEnglish, error), error);
  EXPECT_EQ(ErrorText(Language::kChinese, error),
            "GPU 1 内存不足：又请求 2.0 GB，空闲 1 MB；快照所知的内存块中 70 GB 在使用");
  const std::string more = fmt::format(reasons::kGpuOutOfMemory, 0, "2 B", "", "3 B") +
                           fmt::format(reasons::kInRange, "forward (1)") +
                           fmt::format(reasons::kAskedForBy, "mm (a.py:3)");
  EXPECT_EQ(ErrorText(Language::kChinese, more),
            "GPU 0 内存不足：又请求 2 B；快照所知的内存块中 3 B 在使用（位于 forward "
            "(1)）；请求者：mm (a.py:3)");
  EXPECT_EQ(ErrorText(Language::kChinese, "rank 1 hangs"), "rank 1 hangs");
  EXPECT_EQ(TrackText(Language::kChinese, "ranges while GPU 3 was recorded"),
            "记录 GPU 3 期间的区间");
  EXPECT_EQ(TrackText(Language::kChinese, "main thread"), "main thread");
}

// In the top bar and in the Log.
TEST(Values, ARunIsCalledPausedWhileItsTrainingSaysSo) {
  Context context;
  const auto snapshot = std::make_shared<query::Snapshot>();
  snapshot->state = query::TraceState::kLive;
  context.snapshot = snapshot;
  context.control.status.state = config::RunState::kPaused;
  EXPECT_EQ(StateWord(context), Text::kLive);  // nothing answers
  context.control.connection = ConnectionState::kConnected;
  EXPECT_EQ(StateWord(context), Text::kPaused);
  snapshot->is_behind = true;
  EXPECT_EQ(StateWord(context), Text::kLoading);
  snapshot->is_behind = false;
  snapshot->state = query::TraceState::kCut;
  EXPECT_EQ(StateWord(context), Text::kCut);
}

TEST(Values, LossesAreThoseOfAllSources) {
  query::Snapshot snapshot;
  EXPECT_EQ(DroppedRecords(snapshot), 0);
  snapshot.capabilities.resize(3);
  snapshot.capabilities[0].dropped = 2;
  snapshot.capabilities[2].dropped = 40;
  EXPECT_EQ(DroppedRecords(snapshot), 42);
}

// In Details and in the Log.
TEST(Values, OnlyWhatGoesOnCanBeLate) {
  constexpr int64_t kFar = 1'000'000'000'000'000;  // behind now and before it
  Context context;
  const auto snapshot = std::make_shared<query::Snapshot>();
  snapshot->state = query::TraceState::kLive;
  snapshot->end_ns = MonotonicNs() - kFar;
  context.snapshot = snapshot;
  ASSERT_TRUE(LagNs(context));
  EXPECT_GE(*LagNs(context), kFar);
  snapshot->end_ns = MonotonicNs() + kFar;
  EXPECT_EQ(LagNs(context), 0);
  context.control.status.state = config::RunState::kPaused;
  EXPECT_FALSE(IsPaused(context));  // nothing answers
  EXPECT_TRUE(LagNs(context));
  context.control.connection = ConnectionState::kConnected;
  EXPECT_TRUE(IsPaused(context));
  EXPECT_FALSE(LagNs(context));
  context.control.status.state = config::RunState::kTraining;
  EXPECT_FALSE(IsPaused(context));
  EXPECT_TRUE(LagNs(context));
  context.headless = true;
  EXPECT_FALSE(LagNs(context));
  context.headless = false;
  snapshot->state = query::TraceState::kFinished;
  EXPECT_FALSE(LagNs(context));
}

TEST(Values, TheNewestStepIsTheLastThatHasBegunAndNeverGoesBack) {
  Context context;
  EXPECT_EQ(NewestStep(context), -1);
  const auto snapshot = std::make_shared<query::Snapshot>();
  snapshot->state = query::TraceState::kLive;
  context.snapshot = snapshot;
  context.control.connection = ConnectionState::kConnected;
  config::RunStatus& status = context.control.status;
  status.state = config::RunState::kStarting;
  EXPECT_EQ(NewestStep(context), -1);
  const auto report = std::make_shared<analysis::Report>();
  report->steps.resize(1);
  report->steps.back().step = 2959;
  context.report = report;
  status.state = config::RunState::kTraining;
  status.step = 2966;
  EXPECT_EQ(NewestStep(context), 2966);
  status.state = config::RunState::kPaused;
  status.step = 2967;  // waits
  EXPECT_EQ(NewestStep(context), 2966);
  // The training has gone, and its last rows have not come yet.
  context.control.connection = ConnectionState::kLost;
  EXPECT_EQ(NewestStep(context), 2966);
  snapshot->state = query::TraceState::kFinishing;
  EXPECT_EQ(NewestStep(context), 2966);
  status.state = config::RunState::kStopping;
  status.step = 2966;
  EXPECT_EQ(NewestStep(context), 2966);
  report->steps.back().step = 2970;
  EXPECT_EQ(NewestStep(context), 2970);
  // What was running when it was killed has no end.
  report->steps.back().step = 2965;
  snapshot->state = query::TraceState::kCut;
  EXPECT_EQ(NewestStep(context), 2965);
}

// A preview of an import has only the beginning of its files.
TEST(Values, ATraceOfAFileThatIsNotWholeIsCutButItsPreviewIsNot) {
  Context context;
  const auto snapshot = std::make_shared<query::Snapshot>();
  snapshot->state = query::TraceState::kFinished;
  context.snapshot = snapshot;
  const auto report = std::make_shared<analysis::Report>();
  context.report = report;
  EXPECT_EQ(StateWord(context), Text::kFinished);
  report->cut_files = {"kineto: it ends early"};
  EXPECT_EQ(StateWord(context), Text::kCut);
  EXPECT_EQ(NumProblems(context), 1u);
  context.importing = Importing{"trace.json", 0.5, 0, true};
  EXPECT_EQ(StateWord(context), Text::kFinished);
  EXPECT_EQ(NumProblems(context), 0u);
  context.importing.reset();
  report->cut_files.clear();
  report->hang.is_hang = true;
  EXPECT_EQ(StateWord(context), Text::kFailed);
}

TEST(Values, DurationsOfAnyTypeHaveTheSignOfMicroseconds) {
  EXPECT_EQ(FormatDuration(456'000), "456 µs");
  EXPECT_EQ(FormatDuration(456'000.4), "456 µs");
  EXPECT_EQ(FormatDuration(998.5), "999 ns");
  EXPECT_EQ(FormatDuration(-0.6), "-1 ns");
  EXPECT_EQ(FormatDuration(14e6), "14.0 ms");
}

TEST(Values, AMomentHasAUnitThatFitsIt) {
  EXPECT_EQ(FormatMoment(169'959'168'000), "169.959 s");
  EXPECT_EQ(FormatMoment(1'000'000'000), "1.000 s");
  EXPECT_EQ(FormatMoment(999'999'999), "1.000 s");
  EXPECT_EQ(FormatMoment(630'000'000), "630.000 ms");
  EXPECT_EQ(FormatMoment(29'000), "29.0 µs");
  EXPECT_EQ(FormatMoment(0), "0 ns");
  EXPECT_EQ(FormatMoment(-2'500'000), "-2.500 ms");
}

TEST(Values, OtherRunsThatTrainAreThoseBesideOnesOwn) {
  const std::vector<RunEntry> runs = {{"/here/runs/lesson-prefetch-2", "lesson-prefetch-2", true},
                                      {"/here/runs/lesson-prefetch-1", "lesson-prefetch-1", true},
                                      {"/here/runs/a", "a", false}};
  EXPECT_THAT(OtherLiveRuns(runs, "runs/lesson-prefetch-2"),
              testing::ElementsAre("lesson-prefetch-1"));
  EXPECT_EQ(OtherLiveRuns(runs, "").size(), 2u);
}

TEST(DrawLog, ListsWhatPanelsPutOnlyWhenEnabled) {
  DrawLog off;
  off.Text("a", "b", {});
  EXPECT_TRUE(off.items().empty());

  DrawLog log(true);
  log.SetPanel("top_bar");
  log.Int("exposed", "38 ms", 38'000'000, "ns", {1, 2, 3, 4});
  log.SetPanel("memory");
  log.Text("title", "Memory", {});
  ASSERT_NE(log.Find("top_bar", "exposed"), nullptr);
  EXPECT_EQ(std::get<int64_t>(log.Find("top_bar", "exposed")->value), 38'000'000);
  EXPECT_EQ(log.Find("memory", "exposed"), nullptr);
  log.Clear();
  EXPECT_TRUE(log.items().empty());
}

}  // namespace
}  // namespace shardscope::ui
