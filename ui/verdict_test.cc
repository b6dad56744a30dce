#include "ui/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <string>

#include "ui/text.h"

namespace shardscope::ui {
namespace {

using analysis::LossKind;
using testing::HasSubstr;

analysis::Losses LossesOf(LossKind kind) {
  return {.step_ns = 100,
          .compute_ns = 60,
          .lost_ns = 40,
          .most_lost_ns = 40,
          .losses = {{.kind = kind, .ns_per_step = 40, .rank = 3, .step = 5}}};
}

// The app, `report` and the cards of Advice have one name for one thing, and one thing to try.
TEST(VerdictWords, AreThoseOfTheReport) {
  // Whose remedies are the usual ones.
  const analysis::RunTraits traits{.imported = true, .on_gpu = true};
  for (int at = 0; at < analysis::kNumLossKinds; ++at) {
    const auto kind = static_cast<LossKind>(at);
    const analysis::Losses losses = LossesOf(kind);
    const analysis::Verdict verdict = analysis::MakeVerdict(losses, traits);
    ASSERT_EQ(verdict.cause, kind);
    const std::string reason = LossReason(Language::kEnglish, kind, verdict.rank);
    EXPECT_THAT(verdict.sentence, HasSubstr(": " + reason + " ("));
    EXPECT_TRUE(verdict.sentence.ends_with(VerdictTry(Language::kEnglish, verdict) + "."))
        << verdict.sentence;
    EXPECT_THAT(VerdictLine(Language::kEnglish, verdict), HasSubstr(reason));
    for (const analysis::Advice& advice : analysis::MakeAdvice(losses, traits)) {
      std::string title = reason;
      title.front() = static_cast<char>(std::toupper(title.front()));
      EXPECT_EQ(advice.title, title);
    }
  }
}

TEST(VerdictWords, OfRecomputationAreThoseOfTheReport) {
  const analysis::Verdict verdict =
      analysis::MakeVerdict({.step_ns = 100, .compute_ns = 97, .recomputed = 0.2}, {});
  EXPECT_TRUE(verdict.sentence.ends_with(VerdictTry(Language::kEnglish, verdict) + "."))
      << verdict.sentence;
  EXPECT_THAT(VerdictLine(Language::kEnglish, verdict), HasSubstr("20% of the step"));
  EXPECT_THAT(VerdictLine(Language::kChinese, verdict), HasSubstr("20%"));
}

}  // namespace
}  // namespace shardscope::ui
