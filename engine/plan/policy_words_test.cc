#include "engine/plan/policy_words.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>

namespace shardscope::plan {
namespace {

template <typename Choice, size_t kCount>
void AreReadBack(const PolicyWords<Choice, kCount>& words) {
  std::set<Choice> values;
  for (const PolicyWord<Choice>& word : words) {
    EXPECT_EQ(ValueOf(words, word.text), word.value) << word.text;
    EXPECT_EQ(WordOf(words, word.value), word.text);
    values.insert(word.value);
  }
  EXPECT_EQ(values.size(), kCount);
  for (const std::string_view other : {"", "Pre", "fsdp", "none ", "1F1B"}) {
    EXPECT_FALSE(ValueOf(words, other)) << other;
  }
}

TEST(PolicyWords, AreReadBackAsTheyAreWritten) {
  AreReadBack(kPresetWords);
  AreReadBack(kBackwardPrefetchWords);
  AreReadBack(kGradientSyncWords);
  AreReadBack(kPipelineScheduleWords);
  AreReadBack(kOffloadWords);
}

TEST(PolicyWords, NobodyChoosesToOverlapNoStages) {
  EXPECT_EQ(WordOf(kPipelineScheduleWords, PipelineSchedule::kOneByOne), "");
}

TEST(PolicyWords, ATableThatLacksAValueIsNotComplete) {
  constexpr PolicyWords<Preset, 2> kLacking = {
      {{"fsdp2", Preset::kFsdp2}, {"double_buffer", Preset::kDoubleBuffer}}};
  EXPECT_FALSE(IsComplete(kLacking));
  constexpr PolicyWords<Preset, 3> kTwice = {{{"fsdp2", Preset::kFsdp2},
                                              {"fsdp2", Preset::kFsdp1},
                                              {"double_buffer", Preset::kDoubleBuffer}}};
  EXPECT_FALSE(IsComplete(kTwice));
}

}  // namespace
}  // namespace shardscope::plan
