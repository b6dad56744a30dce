#include "ui/panels/compare/compare_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace shardscope::panels {
namespace {

using testing::HasSubstr;

analysis::Comparison Alike() {
  analysis::Comparison comparison;
  comparison.verdict = analysis::ComparisonVerdict::kWithinNoise;
  comparison.step.a_ns = comparison.step.b_ns = 100e6;
  return comparison;
}

TEST(CompareWords, TheChineseSentenceSaysWhatIsDoneAndSetUpDifferently) {
  EXPECT_THAT(CompareSentence(ui::Language::kChinese, Alike()), testing::EndsWith("）。"));
  analysis::Comparison comparison = Alike();
  comparison.settings = {{"strategy", "full", "ddp"},
                         {"fault.delay", "37:200ms", ""},
                         {"data.path", std::string(90, 'a'), "b"}};
  comparison.a.schedule.forward_lead = 2;
  comparison.b.schedule.forward_lead = 1;
  const std::string sentence = CompareSentence(ui::Language::kChinese, comparison);
  EXPECT_THAT(sentence, HasSubstr("在 A 中提前 2 个单元发出，在 B 中提前 1 个；"));
  EXPECT_THAT(sentence, HasSubstr("strategy 在 A 中为 full，在 B 中为 ddp；"));
  EXPECT_THAT(sentence, HasSubstr("fault.delay 在 A 中为 37:200ms，在 B 中为 无；"));
  EXPECT_THAT(sentence, testing::EndsWith("另有 1 项设置不同。"));
  comparison = Alike();
  comparison.settings = {{"data.path", std::string(90, 'a'), "b"}};
  EXPECT_THAT(CompareSentence(ui::Language::kChinese, comparison),
              testing::EndsWith("）。1 项设置不同。"));
}

}  // namespace
}  // namespace shardscope::panels
