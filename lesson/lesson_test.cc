// Lessons: files that are good and bad, numbers, answers, with a run made by hand.
#include "lesson/lesson.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "lesson/check.h"
#include "lesson/units.h"
#include "lesson/values.h"
#include "trace/query/trace_test_util.h"

namespace shardscope::lesson {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

// One that is right; `from` in it is replaced by `to`.
std::string LessonText(const std::string& from = "", const std::string& to = "") {
  std::string text = R"(
title = { en = "Ops", zh = "操作" }
text = { en = "A unit of {block}.", zh = "单元 {block}。" }
eight = { en = "None.", zh = "无。" }
[run]
"run.ranks" = 2
"model.dim" = 32
[plans.four]
"run.ranks" = 4
"model.dim" = 32
[numbers]
ops = { run = "SELECT count(*) FROM op_run" }
half = { is = "{ops} / 4" }
block = { plan = "SELECT payload_bytes FROM plan_op WHERE unit = 'block0' AND kind = 'all_gather'", of = "run", unit = "B" }
sent = { plan = "SELECT wire_bytes FROM plan_op WHERE unit = 'block0' AND kind = 'all_gather'", of = "four", unit = "B" }
[task]
kind = "number"
ask = { en = "How many?", zh = "多少？" }
right = "{half}"
place = "SELECT id AS op_run, rank, step FROM op_run ORDER BY id DESC LIMIT 1"
wrong = { en = "Not {answer} but {right} of {ops}.", zh = "不是 {answer}，是 {ops} 中的 {right}。" }
explain = { en = "Yes, {right}.", zh = "对，{right}。" }
[quiz]
kind = "choice"
ask = { en = "More?", zh = "更多？" }
choices = [ { name = "more", en = "more", zh = "多" }, { name = "less", en = "less", zh = "少", why = { en = "{sent} is more.", zh = "{sent} 更多。" } } ]
right = "CASE WHEN {sent} > {block} / 2 THEN 'more' ELSE 'less' END"
wrong = { en = "No.", zh = "不。" }
explain = { en = "Yes.", zh = "对。" }
)";
  if (!from.empty()) {
    const size_t at = text.find(from);
    SHARDSCOPE_CHECK(at != std::string::npos);
    text.replace(at, from.size(), to);
  }
  return text;
}

class LessonTest : public testing::Test {
 protected:
  Result<Lesson> Read(const std::string& text, const std::string& name = "03-ops.toml") const {
    const std::string path = folder_.path() + "/" + name;
    std::ofstream(path) << text;
    return ReadLesson(path);
  }
  Lesson ReadGood(const std::string& from = "", const std::string& to = "") const {
    Result<Lesson> lesson = Read(LessonText(from, to));
    SHARDSCOPE_CHECK(lesson.ok());
    return std::move(lesson).value();
  }
  std::string ErrorOf(const std::string& from, const std::string& to) const {
    const Result<Lesson> lesson = Read(LessonText(from, to));
    EXPECT_FALSE(lesson.ok()) << to;
    return lesson.message();
  }
  // Ops 1 and 2 of the plan's one op, "F block0".
  std::string MakeRun() const {
    const std::string run = folder_.path() + "/run";
    std::filesystem::create_directories(run);
    const auto recorder = query::OpenRecorder(run);
    const auto op = query::AddPlanOp(recorder.get(), "F block0", "forward", "compute");
    schema::TrackRow track;
    track.name = track.role = "compute";
    recorder->Add(track);
    recorder->Record(query::OpAt(op, 0, 0, 100, 200));
    recorder->Record(query::OpAt(op, 0, 1, 300, 400));
    SHARDSCOPE_CHECK(recorder->Finish().ok());
    return run;
  }

  const query::TestFolder folder_;
};

TEST_F(LessonTest, IsReadFromItsFile) {
  const Lesson lesson = ReadGood();
  EXPECT_EQ(lesson.order, 3);
  EXPECT_EQ(lesson.id, "ops");
  EXPECT_EQ(lesson.title.zh, "操作");
  EXPECT_EQ(lesson.run.at("run.ranks"), "2");
  EXPECT_EQ(lesson.task.kind, QuestionKind::kNumber);
  EXPECT_EQ(lesson.quiz.choices.size(), 2u);
  EXPECT_TRUE(NeedsRun(lesson, "half"));
  EXPECT_FALSE(NeedsRun(lesson, "sent"));
}

TEST_F(LessonTest, WithAMistakeIsRefusedWithFileLineAndRemedy) {
  const std::string unknown = ErrorOf("place =", "plaice =");
  EXPECT_THAT(unknown, HasSubstr("03-ops.toml:20: "));
  EXPECT_THAT(unknown, EndsWith("task has no 'plaice'; did you mean place?"));
  EXPECT_THAT(ErrorOf("\"run.ranks\" = 2", "\"run.rank\" = 2"), HasSubstr("run.ranks"));
  EXPECT_THAT(ErrorOf("\"model.dim\" = 32", "\"model.dim\" = 31"), HasSubstr("model.heads"));
  EXPECT_THAT(ErrorOf("kind = \"number\"", "kind = \"guess\""),
              HasSubstr("there are number, choice, op, knob"));
  EXPECT_THAT(ErrorOf("{half}", "{haff}"), HasSubstr("{haff} is no number of this lesson"));
  EXPECT_THAT(ErrorOf("{ops} / 4", "{half} / 4"), HasSubstr("made of itself"));
  EXPECT_THAT(ErrorOf("A unit of {block}", "A unit of {ops}"), HasSubstr("needs a run"));
  EXPECT_THAT(ErrorOf("unit = \"B\"", "unit = \"ells\""), HasSubstr("there is no unit 'ells'"));
  EXPECT_THAT(ErrorOf("of = \"run\"", "of = \"nine\""), HasSubstr("[plans.NAME]"));
  EXPECT_THAT(ErrorOf("eight = { en = \"None.\",", "eight = {"), HasSubstr("both en and zh"));
  EXPECT_THAT(ErrorOf("[quiz]", "[quis]"), HasSubstr("did you mean quiz?"));
  EXPECT_THAT(ErrorOf("kind = \"choice\"", "kind = \"op\""), HasSubstr("a quiz has no run"));
  std::string many = "A unit of {block}.";
  for (size_t i = 0; i < kMostWords; ++i) many += " word";
  EXPECT_THAT(ErrorOf("A unit of {block}.", many), HasSubstr("120 at most"));
  const Result<Lesson> unnamed = Read(LessonText(), "ops.toml");
  ASSERT_FALSE(unnamed.ok());
  EXPECT_THAT(unnamed.message(), HasSubstr("07-prefetch.toml"));
}

TEST_F(LessonTest, OfOneOrderOrIdAreTwo) {
  const std::string path = folder_.path() + "/";
  for (const char* name : {"03-ops.toml", "04-ops.toml"})
    std::ofstream(path + name) << LessonText();
  const auto both = ReadLessons({path + "03-ops.toml", path + "04-ops.toml"});
  ASSERT_FALSE(both.ok());
  EXPECT_THAT(both.message(), HasSubstr("have the same number or id"));
  EXPECT_FALSE(ReadLessons({}).ok());
}

// 32 x 32 x 12 of a GPT's block with its two norms, in fp32; 3/4 of it by 4 ranks.
TEST_F(LessonTest, NumbersComeFromSchedulesAndOneAnother) {
  const Lesson lesson = ReadGood();
  Values values(lesson, "");
  const double block = (12 * 32 * 32 + 2 * 32) * 4;
  EXPECT_EQ(*values.Of("block").value(), block);
  EXPECT_EQ(*values.Of("sent").value(), block * 3 / 4);
  const Result<Words> text = values.Fill(lesson.text);
  ASSERT_TRUE(text.ok()) << text.message();
  EXPECT_EQ(text->en, "A unit of 49,408 B.");
  const auto of_run = values.Of("ops");
  ASSERT_FALSE(of_run.ok());
  EXPECT_THAT(of_run.message(), HasSubstr("numbers.ops: it needs a run"));
}

TEST_F(LessonTest, ATaskIsJudgedByTheTrace) {
  const Lesson lesson = ReadGood();
  const std::string run = MakeRun();
  const auto wrong = CheckAnswer(lesson, {Exercise::kTask, run, "2"});
  ASSERT_TRUE(wrong.ok()) << wrong.message();
  EXPECT_EQ(wrong->outcome, Outcome::kWrong);
  EXPECT_EQ(wrong->reason.en, "Not 2 but 0.50 of 2.");
  ASSERT_TRUE(wrong->place.has_value());
  EXPECT_EQ(wrong->place->op_run, 2);
  EXPECT_EQ(wrong->place->step, 1);
  const auto right = CheckAnswer(lesson, {Exercise::kTask, run, " 0.5 "});
  ASSERT_TRUE(right.ok());
  EXPECT_EQ(right->outcome, Outcome::kRight);
  const auto no_number = CheckAnswer(lesson, {Exercise::kTask, run, "half"});
  ASSERT_TRUE(no_number.ok());
  EXPECT_EQ(no_number->outcome, Outcome::kNoAnswer);
  EXPECT_THAT(no_number->reason.en, HasSubstr("'half' is no number"));
  EXPECT_THAT(no_number->reason.zh, HasSubstr("“half”不是数字"));
  const auto no_run = CheckAnswer(lesson, {Exercise::kTask, folder_.path() + "/none", "2"});
  EXPECT_FALSE(no_run.ok());
}

TEST_F(LessonTest, WhatTheRunDoesNotShowYetIsNotWrong) {
  const Lesson lesson = ReadGood("count(*) FROM op_run", "max(step) FROM op_run WHERE step > 7");
  const auto verdict = CheckAnswer(lesson, {Exercise::kTask, MakeRun(), "2"});
  ASSERT_TRUE(verdict.ok()) << verdict.message();
  EXPECT_EQ(verdict->outcome, Outcome::kNotYet);
}

TEST_F(LessonTest, AnOpIsAnsweredByIdOrName) {
  const Lesson lesson = ReadGood(
      "kind = \"number\"\nask = { en = \"How many?\", zh = \"多少？\" }\nright = \"{half}\"",
      "kind = \"op\"\nask = { en = \"Which?\", zh = \"哪个？\" }\nright = \"SELECT id FROM op_run "
      "WHERE step = 1\"");
  const std::string run = MakeRun();
  const auto outcome = [&](const std::string& answer) {
    const auto verdict = CheckAnswer(lesson, {Exercise::kTask, run, answer});
    return verdict.ok() ? std::optional(verdict->outcome) : std::nullopt;
  };
  EXPECT_EQ(outcome("2"), Outcome::kRight);
  EXPECT_EQ(outcome("1"), Outcome::kWrong);
  EXPECT_EQ(outcome("F block0"), Outcome::kRight);
  EXPECT_EQ(outcome("F block9"), std::nullopt);
  const auto answers = AnswersOf(lesson, Exercise::kTask, run);
  ASSERT_TRUE(answers.ok()) << answers.message();
  EXPECT_EQ(answers->right, "2");
  EXPECT_EQ(answers->wrong, "1");
}

TEST_F(LessonTest, AQuizNeedsNoRunAndAChoiceHasItsOwnReason) {
  const Lesson lesson = ReadGood();
  const auto wrong = CheckAnswer(lesson, {Exercise::kQuiz, "", "less"});
  ASSERT_TRUE(wrong.ok()) << wrong.message();
  EXPECT_EQ(wrong->outcome, Outcome::kWrong);
  EXPECT_EQ(wrong->reason.en, "37,056 B is more.");
  EXPECT_FALSE(wrong->place.has_value());
  EXPECT_EQ(CheckAnswer(lesson, {Exercise::kQuiz, "", "more"})->outcome, Outcome::kRight);
  const auto other = CheckAnswer(lesson, {Exercise::kQuiz, "", "equal"});
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(other->outcome, Outcome::kNoAnswer);
  EXPECT_THAT(other->reason.en, HasSubstr("more, or less"));
}

TEST(LessonUnits, AreWrittenAndReadBack) {
  EXPECT_EQ(NumberText(436.2, "MB"), "436 MB");
  EXPECT_EQ(NumberText(14.957, "GiB"), "15.0 GiB");
  EXPECT_EQ(NumberText(1.0623, "ms"), "1.06 ms");
  EXPECT_EQ(NumberText(1234567, ""), "1,234,567");
  EXPECT_EQ(NumberText(1.5, "x"), "1.50x");
  EXPECT_EQ(ParseNumber("436", "MB"), 436);
  EXPECT_EQ(ParseNumber("0.436 GB", "MB"), 436);
  EXPECT_EQ(ParseNumber("1,500 us", "ms"), 1.5);
  EXPECT_EQ(ParseNumber("1.5x", "x"), 1.5);
  EXPECT_FALSE(ParseNumber("12 ms", "MB").has_value());
  EXPECT_FALSE(ParseNumber("much", "MB").has_value());
}

}  // namespace
}  // namespace shardscope::lesson
