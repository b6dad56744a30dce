#include "ui/moment_words.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "trace/analysis/moment/moment.h"
#include "trace/analysis/snapshot_test_util.h"
#include "trace/analysis/steps/stalls.h"
#include "trace/base/enum_count.h"
#include "ui/text.h"

namespace shardscope::ui {
namespace {

// The catalogue shows a translator what the app says.
TEST(MomentWordsOf, TheCatalogueHasTheEnglishWords) {
  for (size_t at = 0; at < kMomentTexts.size(); ++at) {
    EXPECT_EQ(MomentWordsOf(Language::kEnglish).phrases[at],
              Tr(Language::kEnglish, kMomentTexts[at]));
    EXPECT_EQ(MomentWordsOf(Language::kChinese).phrases[at],
              Tr(Language::kChinese, kMomentTexts[at]));
  }
}

TEST(MomentWordsOf, SaysTheSameInChinese) {
  analysis::TestSnapshot test(1);
  const query::PlanOpId gather = test.Plan("all_gather", "forward", "block1");
  const query::PlanOpId forward = test.Plan("forward", "forward", "", "block0.mlp");
  test.Run(0, 0, forward, 0, 100);
  test.Run(0, 0, gather, 20, 70);
  test.Step(0, 0, 0, 100);
  const analysis::Moments moments(test.Build(), {0, 100});
  EXPECT_EQ(MomentSentence(moments.At(30).ranks[0], MomentWordsOf(Language::kChinese)),
            "rank 0 正在计算 block0.mlp 的前向，同时 block1 的 all-gather（已完成 20%）正在进行，"
            "被它掩盖");
}

TEST(StallSentence, EnglishIsThatOfTheReport) {
  analysis::StallGroup group;
  group.cause = analysis::StallCause::kQueuedBehind;
  group.cause_object = "RS block2";
  group.sentence = "all-gather queued behind RS block2";
  EXPECT_EQ(StallSentence(Language::kEnglish, group), group.sentence);
  EXPECT_EQ(StallSentence(Language::kChinese, group), "排在 RS block2 之后");
}

TEST(StallSentence, IsSaidInChineseOfEveryCauseWithItsNameAndWithoutOne) {
  std::set<std::string> sentences;
  for (int cause = 0; cause <= static_cast<int>(analysis::StallCause::kOther); ++cause) {
    analysis::Stall stall;
    stall.cause = static_cast<analysis::StallCause>(cause);
    for (const char* name : {"", "RS block2"}) {
      stall.cause_object = name;
      const std::string sentence = StallSentence(Language::kChinese, stall);
      EXPECT_FALSE(sentence.empty()) << cause;
      EXPECT_EQ(sentence.find('{'), std::string::npos) << sentence;
      sentences.insert(sentence);
    }
  }
  EXPECT_GT(sentences.size(), kCountOf<analysis::StallCause>);
}

}  // namespace
}  // namespace shardscope::ui
