#include "ui/advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>

#include "engine/config/config.h"
#include "tests/lesson/lesson_snapshot.h"
#include "trace/analysis/report/report.h"
#include "trace/base/text.h"
#include "ui/verdict.h"

namespace shardscope::ui {
namespace {

using analysis::Advice;
using analysis::LossKind;
using analysis::RemedyCase;
using testing::HasSubstr;

class AdviceTest : public testing::Test {
 protected:
  AdviceTest() : report_(analysis::MakeReport(*analysis::MakeLessonSnapshot(2, 12, 99))) {}

  const analysis::Explanation& explanation() const { return report_.figures.explanation; }

  analysis::Report report_;
};

TEST_F(AdviceTest, EnglishIsWhatTheReportSays) {
  ASSERT_FALSE(explanation().advice.empty());
  for (const Advice& advice : explanation().advice) {
    EXPECT_EQ(AdviceTitle(Language::kEnglish, advice), advice.title);
    EXPECT_EQ(AdviceRemedy(Language::kEnglish, advice), advice.remedy);
    EXPECT_THAT(AdviceRemedy(Language::kChinese, advice), HasSubstr(advice.knobs));
  }
}

TEST_F(AdviceTest, EveryRemedyHasItsChinese) {
  const auto chinese = [](LossKind kind, RemedyCase remedy_case) {
    Advice advice;
    advice.kind = kind;
    advice.remedy_case = remedy_case;
    advice.remedy = "english";
    return AdviceRemedy(Language::kChinese, advice);
  };
  for (int kind = 0; kind < analysis::kNumLossKinds; ++kind) {
    EXPECT_NE(chinese(static_cast<LossKind>(kind), RemedyCase::kUsual), "english") << kind;
  }
  EXPECT_NE(chinese(LossKind::kSlowTransfer, RemedyCase::kOfGradients), "english");
  EXPECT_NE(chinese(LossKind::kQueued, RemedyCase::kOfGradients), "english");
  EXPECT_NE(chinese(LossKind::kCopy, RemedyCase::kHereWhole), "english");
  EXPECT_NE(chinese(LossKind::kLateIssue, RemedyCase::kOfReductions), "english");
  EXPECT_NE(chinese(LossKind::kLateIssue, RemedyCase::kOfReductionsOnCpu), "english");
  EXPECT_NE(chinese(LossKind::kLateIssue, RemedyCase::kOfReductionsHere), "english");
  EXPECT_NE(chinese(LossKind::kTail, RemedyCase::kOfReductionsHere), "english");
  EXPECT_NE(chinese(LossKind::kHost, RemedyCase::kWithoutGpu), "english");
  for (const LossKind kind : {LossKind::kHost, LossKind::kData, LossKind::kCopy}) {
    EXPECT_NE(chinese(kind, RemedyCase::kHere), "english");
  }
}

TEST_F(AdviceTest, PlacesAreThoseOfTheEvidence) {
  size_t stalls = 0;
  for (const Advice& advice : explanation().advice) {
    for (const AdvicePlace& place : PlacesOf(Language::kEnglish, explanation(), advice)) {
      EXPECT_THAT(advice.evidence, HasSubstr(place.text));
      ASSERT_FALSE(place.jump.empty());
      stalls += std::holds_alternative<ShowOp>(place.jump.back()) ? 1 : 0;
      const auto* rank = std::get_if<ShowRank>(&place.jump.back());
      if (rank == nullptr) continue;
      EXPECT_EQ(rank->rank, advice.rank);
      EXPECT_EQ(rank->step, advice.step);
    }
  }
  EXPECT_GT(stalls, 0u);
}

// What bounds the run is in the list of stalls, or beside it.
TEST_F(AdviceTest, TheNoteSaysWhatTheListOfStallsDoesNot) {
  EXPECT_EQ(StallNote(Language::kEnglish, explanation()), "");
  analysis::Explanation other;
  other.losses.step_ns = 1e6;
  analysis::Loss& loss = other.losses.losses.emplace_back();
  const auto note = [&](LossKind kind) {
    loss.kind = kind;
    loss.ns_per_step = 3e5;
    other.verdict.cause = kind;
    other.verdict.bound = analysis::BoundOf(kind);
    return StallNote(Language::kEnglish, other);
  };
  EXPECT_EQ(note(LossKind::kHost), "Outside these stalls: 300 µs a step (idle)");
  EXPECT_EQ(note(LossKind::kCopy), "Outside these stalls: 300 µs a step (exposed copy)");
  EXPECT_EQ(note(LossKind::kSlowRank), "");
  loss.ops.emplace_back();
  EXPECT_EQ(note(LossKind::kLateIssue), "");
  other.losses.idle_slot_ns = 1e5;
  EXPECT_THAT(note(LossKind::kSlot), HasSubstr("200 µs"));
}

// One name for one thing, on the card and in the line over it.
TEST_F(AdviceTest, WhatTheHostLosesHasOneName) {
  const analysis::Losses host{
      .step_ns = 100, .lost_ns = 40, .losses = {{.kind = LossKind::kHost, .ns_per_step = 40}}};
  const Advice advice = analysis::MakeAdvice(host, {}).at(0);
  EXPECT_EQ(advice.title, "Compute is issued late");
  EXPECT_THAT(VerdictLine(Language::kEnglish, analysis::MakeVerdict(host, {})),
              HasSubstr("compute is issued late"));
}

TEST_F(AdviceTest, OfLateIssueTheKnobsThatIssueEarlier) {
  Context context;
  context.control.connection = ConnectionState::kConnected;
  context.control.status.values = {{"prefetch.forward", "3"},
                                   {"prefetch.backward", "none"},
                                   {"prefetch.limit", "2"},
                                   {"host.run_ahead", "-1"}};
  Advice advice;
  advice.knobs =
      "prefetch.forward, prefetch.backward, prefetch.backward_depth, prefetch.limit, "
      "host.run_ahead, precision.param, strategy=hybrid";
  const auto told = [&] {
    std::string text;
    for (const AdvisedKnob& knob : AdvisedKnobs(context, advice)) {
      text += knob.key + " " + knob.from + ">" + knob.to + " ";
    }
    return text;
  };
  EXPECT_EQ(told(), "prefetch.backward none>pre prefetch.limit 2>0 ");
  context.control.status.values = {{"prefetch.forward", "0"},
                                   {"prefetch.backward", "pre"},
                                   {"prefetch.backward_depth", "1"},
                                   {"prefetch.limit", "0"},
                                   {"host.run_ahead", "0"}};
  EXPECT_EQ(told(), "prefetch.forward 0>1 prefetch.backward_depth 1>2 host.run_ahead 0>-1 ");
}

// What a button asks for is a key that the advice names, and a value that the key takes.
TEST_F(AdviceTest, KnobsAreKeysAndValuesOfTheTraining) {
  for (const Advice& advice : explanation().advice) {
    for (const AdvisedKnob& knob : AdvisedKnobs(Context(), advice)) {
      const config::KeyInfo* key = config::FindKey(knob.key);
      ASSERT_NE(key, nullptr);
      EXPECT_TRUE(key->live);
      EXPECT_TRUE(config::Canonical(*key, knob.to).ok()) << knob.key << knob.to;
      EXPECT_THAT(advice.remedy, HasSubstr(knob.key));
    }
  }
  EXPECT_EQ(AdvisedValue("reshard_after_forward", "true"), "false");
  EXPECT_EQ(AdvisedValue("reshard_after_forward", "false"), std::nullopt);
  EXPECT_EQ(AdvisedValue("train.lr", "0.1"), std::nullopt);
}

TEST_F(AdviceTest, WithoutAdviceTheReasonIsSaid) {
  analysis::Verdict verdict;
  EXPECT_THAT(NoAdvice(Language::kEnglish, verdict), HasSubstr("No step is finished"));
  verdict.bound = analysis::Bound::kCompute;
  verdict.share = 0.97;
  EXPECT_THAT(NoAdvice(Language::kEnglish, verdict), HasSubstr("compute takes 97"));
  verdict.recomputed = 0.2;
  EXPECT_THAT(NoAdvice(Language::kEnglish, verdict), HasSubstr("checkpoint fewer blocks"));
  verdict.recomputed = 0;
  verdict.bound = analysis::Bound::kCommunication;
  EXPECT_THAT(NoAdvice(Language::kEnglish, verdict), HasSubstr("no single change"));
}

}  // namespace
}  // namespace shardscope::ui
