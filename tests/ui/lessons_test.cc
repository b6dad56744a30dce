// The panel Lessons, done as a learner would: the list, a quiz, a mini-run, a wrong answer with the
// way to the timeline, the right one, and what is remembered; and each lesson's page and quiz.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "lesson/check.h"
#include "lesson/lesson.h"
#include "tests/places.h"
#include "tests/ui/harness.h"
#include "trace/query/trace_test_util.h"
#include "ui/shell/settings.h"

namespace shardscope::ui_test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr double kLessonSeconds = 120;  // of the worst machine

// Runs of lessons are in ./runs.
class LessonsTest : public testing::Test {
 protected:
  LessonsTest() : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(folder_.path());
  }
  ~LessonsTest() override { std::filesystem::current_path(before_); }

  std::string Settings() const { return folder_.path() + "/settings"; }

  static const ui::DrawnItem* Drawn(const Harness& harness, const std::string& id) {
    return harness.log().Find("lessons", id);
  }
  static bool Shown(Harness* harness, const std::string& id) {
    return harness->Until([&] { return Drawn(*harness, id) != nullptr; }, kLessonSeconds);
  }
  // Wherever it is in the panel's text: scrolled to before.
  static void Click(Harness* harness, const std::string& item) {
    EXPECT_TRUE(harness->Drive([&](ImGuiTestContext* test) {
      test->SetRef("//###lessons");
      test->ItemClick(item.c_str());
    }));
    harness->Frames(2);
  }
  // Gives the answer to the quiz as its panel takes it, and has it checked.
  static void Answer(Harness* harness, const lesson::Question& quiz, const std::string& answer) {
    if (quiz.kind == lesson::QuestionKind::kChoice) {
      Click(harness, "quiz/" + answer + "/##choice");
    } else {
      EXPECT_TRUE(harness->Drive([&](ImGuiTestContext* test) {
        test->SetRef("//###lessons");
        test->ItemInputValue("quiz/##answer", answer.c_str());
      }));
    }
    Click(harness, "quiz/check");
  }
  static bool Says(Harness* harness, const std::string& id, const std::string& text) {
    return harness->Until(
        [&] {
          const ui::DrawnItem* said = Drawn(*harness, id);
          return said != nullptr && said->text == text;
        },
        kLessonSeconds);
  }
  // A wrong answer to the quiz, and the right one.
  static void AnswerBoth(Harness* harness, const lesson::Lesson& one) {
    const lesson::Question& quiz = lesson::QuestionOf(one, lesson::Exercise::kQuiz);
    const auto answers = lesson::AnswersOf(one, lesson::Exercise::kQuiz, "");
    ASSERT_TRUE(answers.ok()) << answers.message();
    const std::string done = one.id + ui::kQuizDone;
    Answer(harness, quiz, answers->wrong);
    EXPECT_TRUE(Says(harness, "quiz.verdict", "Not so."));
    EXPECT_FALSE(harness->context().lessons.done.contains(done));
    Answer(harness, quiz, answers->right);
    EXPECT_TRUE(Says(harness, "quiz.verdict", "Right."));
    EXPECT_TRUE(harness->context().lessons.done.contains(done));
  }

  const query::TestFolder folder_;
  const std::filesystem::path before_;
};

TEST_F(LessonsTest, TabGoesOnWhereTheClickedRowIsGone) {
  Harness harness(Settings(), BinDir());
  harness.shell().Post(ui::FocusPanel{"lessons"});
  ASSERT_TRUE(Shown(&harness, "lesson:trust"));
  EXPECT_TRUE(harness.Drive([&](ImGuiTestContext* test) {
    test->KeyPress(ImGuiKey_Tab);
    test->KeyPress(ImGuiKey_Enter);  // the page of the lesson has no list
    test->Yield(3);
    EXPECT_NE(Drawn(harness, "title"), nullptr);
    test->KeyPress(ImGuiKey_Tab);
    test->Yield(2);
    EXPECT_TRUE(ImGui::GetIO().NavVisible);
  }));
}

TEST_F(LessonsTest, OneIsDoneAndRemembered) {
  {
    Harness harness(Settings(), BinDir());
    EXPECT_TRUE(
        harness.Drive([](ImGuiTestContext* test) { test->KeyPress(ImGuiMod_Ctrl | ImGuiKey_5); }));
    ASSERT_TRUE(Shown(&harness, "lesson:trust"));
    EXPECT_EQ(std::get<int64_t>(Drawn(harness, "done")->value), 0);
    Click(&harness, "memory/##lesson");
    ASSERT_TRUE(Shown(&harness, "title"));
    EXPECT_THAT(Drawn(harness, "title")->text, HasSubstr("Where memory goes"));
    // Without a run there is nothing to check in.
    Click(&harness, "task/activation/##choice");
    EXPECT_EQ(harness.context().lessons.run, "");
    Click(&harness, "start");
    ASSERT_TRUE(harness.Until(
        [&] {
          const auto& context = harness.context();
          return context.snapshot != nullptr &&
                 context.snapshot->state == query::TraceState::kFinished &&
                 !context.snapshot->loading;
        },
        kLessonSeconds))
        << harness.context().start_error;
    EXPECT_THAT(harness.context().snapshot->run_folder, HasSubstr("lesson-memory-1"));
    Click(&harness, "task/optimizer/##choice");
    Click(&harness, "task/check");
    ASSERT_TRUE(Shown(&harness, "task.verdict"));
    EXPECT_EQ(Drawn(harness, "task.verdict")->text, "Not so.");
    EXPECT_THAT(Drawn(harness, "task.reason")->text, HasSubstr("activations are"));
    EXPECT_TRUE(harness.context().lessons.done.empty());
    const lesson::Place place = *harness.context().lessons.task.verdict->place;
    Click(&harness, "task.show");
    EXPECT_EQ(harness.context().selection.op_run, query::OpRunId(place.op_run));
    EXPECT_EQ(harness.context().selection.rank, place.rank);
    Click(&harness, "task/activation/##choice");
    Click(&harness, "task/check");
    ASSERT_TRUE(harness.Until([&] { return harness.context().lessons.done.contains("memory"); },
                              kLessonSeconds));
    harness.Frames(2);
    EXPECT_EQ(Drawn(harness, "task.verdict")->text, "Right.");
    // In the other language it is the same verdict.
    harness.shell().Post(ui::SetLanguage{ui::Language::kChinese});
    harness.Frames(3);
    EXPECT_EQ(Drawn(harness, "task.verdict")->text, "正确。");
  }
  EXPECT_THAT(shell::LoadSettings(Settings()).lessons_done, Contains("memory"));
  Harness again(Settings(), BinDir());
  again.shell().Post(ui::FocusPanel{"lessons"});
  ASSERT_TRUE(Shown(&again, "state:memory"));
  EXPECT_EQ(std::get<int64_t>(Drawn(again, "done")->value), 1);
  EXPECT_EQ(Drawn(again, "state:sharding"), nullptr);
}

TEST_F(LessonsTest, AQuizIsAnsweredWithoutARun) {
  Harness harness({}, BinDir());
  harness.shell().Post(ui::FocusPanel{"lessons"});
  harness.shell().Post(ui::ShowLesson{"strategies"});
  ASSERT_TRUE(Shown(&harness, "title"));
  const auto answer = [&](const char* text) {
    EXPECT_TRUE(harness.Drive([&](ImGuiTestContext* test) {
      test->SetRef("//###lessons");
      test->ItemInputValue("quiz/##answer", text);
      test->ItemClick("quiz/check");
    }));
    EXPECT_TRUE(
        harness.Until([&] { return !harness.context().lessons.quiz.is_asked; }, kLessonSeconds));
    harness.Frames(2);
  };
  answer("31.6 GB");
  EXPECT_EQ(Drawn(harness, "quiz.verdict")->text, "Not so.");
  answer("much");
  EXPECT_THAT(Drawn(harness, "quiz.error")->text, HasSubstr("'much' is no number"));
  harness.shell().Post(ui::SetLanguage{ui::Language::kChinese});
  harness.Frames(2);
  EXPECT_THAT(Drawn(harness, "quiz.error")->text, HasSubstr("“much”不是数字"));
  harness.shell().Post(ui::SetLanguage{ui::Language::kEnglish});
  harness.Frames(2);
  // Enter checks, and the field keeps the keyboard.
  EXPECT_TRUE(harness.Drive([](ImGuiTestContext* test) {
    test->SetRef("//###lessons");
    test->ItemClick("quiz/##answer");
    test->KeyCharsReplaceEnter("47.4 GB");
  }));
  EXPECT_TRUE(
      harness.Until([&] { return !harness.context().lessons.quiz.is_asked; }, kLessonSeconds));
  EXPECT_TRUE(harness.Drive([](ImGuiTestContext* test) {
    test->Yield(2);
    IM_CHECK(ImGui::GetIO().WantTextInput);
  }));
  EXPECT_EQ(Drawn(harness, "quiz.verdict")->text, "Right.");
  EXPECT_TRUE(harness.context().lessons.done.contains("strategies.quiz"));
  // Another lesson has answers of its own.
  harness.shell().Post(ui::ShowLesson{"memory"});
  harness.Frames(3);
  EXPECT_EQ(Drawn(harness, "quiz.verdict"), nullptr);
}

// What each asks to be done in a run, `shardscope lesson --check` does (tests/lessons_test.py).
TEST_F(LessonsTest, EachIsOpenedAndItsQuizAnswered) {
  Harness harness({}, BinDir());
  harness.shell().Post(ui::FocusPanel{"lessons"});
  ASSERT_TRUE(Shown(&harness, "lesson:trust"));
  const auto all = harness.context().lessons.all;
  size_t files = 0;
  for (const auto& file : std::filesystem::directory_iterator(SourceDir() + "/assets/lessons")) {
    files += file.path().extension() == ".toml" ? 1 : 0;
  }
  ASSERT_EQ(all->size(), files);
  for (const lesson::Lesson& one : *all) {
    SCOPED_TRACE(one.id);
    Click(&harness, one.id + "/##lesson");
    ASSERT_TRUE(Shown(&harness, "title"));
    EXPECT_THAT(Drawn(harness, "title")->text, HasSubstr(one.title.en));
    AnswerBoth(&harness, one);
    if (HasFatalFailure()) return;
    Click(&harness, "all");
    ASSERT_TRUE(Shown(&harness, "lesson:trust"));
  }
}

}  // namespace
}  // namespace shardscope::ui_test
