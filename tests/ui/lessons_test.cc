// The panel Lessons, done as a learner would: the list, a quiz, a mini-run, a wrong answer with the
// way to the timeline, the right one, and what is remembered; a task of each other kind; and each
// lesson's page and quiz.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>

#include "lesson/check.h"
#include "lesson/lesson.h"
#include "tests/places.h"
#include "tests/ui/harness.h"
#include "trace/query/trace_test_util.h"
#include "ui/shell/settings.h"
#include "ui/text.h"
#include "ui/values.h"

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
  // Gives the answer to the quiz, or the task, as its panel takes it, and has it checked.
  static void Answer(Harness* harness, const lesson::Question& question, const std::string& answer,
                     const std::string& part = "quiz") {
    if (question.kind == lesson::QuestionKind::kChoice) {
      Click(harness, part + "/" + answer + "/##choice");
    } else {
      EXPECT_TRUE(harness->Drive([&](ImGuiTestContext* test) {
        test->SetRef("//###lessons");
        test->ItemInputValue((part + "/##answer").c_str(), answer.c_str());
      }));
    }
    Click(harness, part + "/check");
  }
  // The page of that lesson, and its run.
  static void Start(Harness* harness, const std::string& id) {
    harness->shell().Post(ui::FocusPanel{"lessons"});
    harness->shell().Post(ui::ShowLesson{id});
    ASSERT_TRUE(Shown(harness, "start"));
    ASSERT_EQ(harness->context().lessons.current, id);
    Click(harness, "start");
  }
  static bool IsFinished(const Harness& harness) {
    const query::SnapshotPtr& snapshot = harness.context().snapshot;
    return snapshot != nullptr && snapshot->state == query::TraceState::kFinished &&
           !snapshot->loading;
  }
  static bool Ends(Harness* harness) {
    return harness->Until([harness] { return IsFinished(*harness); }, kLessonSeconds);
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
  again.shell().Post(ui::SetLanguage{ui::Language::kEnglish});
  again.shell().Post(ui::FocusPanel{"lessons"});
  again.Frames(3);
  ASSERT_TRUE(Shown(&again, "state:memory"));
  // It is counted once its quiz is answered, too.
  EXPECT_EQ(Drawn(again, "state:memory")->text, "quiz open");
  EXPECT_EQ(std::get<int64_t>(Drawn(again, "done")->value), 0);
  EXPECT_EQ(Drawn(again, "state:sharding"), nullptr);
  again.shell().Post(ui::ShowLesson{"memory"});
  ASSERT_TRUE(Shown(&again, "title"));
  const lesson::Lesson* memory = ui::CurrentLesson(again.context().lessons);
  ASSERT_NE(memory, nullptr);
  AnswerBoth(&again, *memory);
  again.shell().Post(ui::ShowLesson{});
  ASSERT_TRUE(Shown(&again, "state:memory"));
  EXPECT_EQ(Drawn(again, "state:memory")->text, "done");
  EXPECT_EQ(std::get<int64_t>(Drawn(again, "done")->value), 1);
}

TEST_F(LessonsTest, ATaskThatAsksForANumberIsDone) {
  Harness harness({}, BinDir());
  Start(&harness, "sharding");
  ASSERT_TRUE(Ends(&harness)) << harness.context().start_error;
  const lesson::Lesson* one = ui::CurrentLesson(harness.context().lessons);
  ASSERT_NE(one, nullptr);
  const auto answers =
      lesson::AnswersOf(*one, lesson::Exercise::kTask, harness.context().snapshot->run_folder);
  ASSERT_TRUE(answers.ok()) << answers.message();
  Answer(&harness, one->task, answers->wrong, "task");
  EXPECT_TRUE(Says(&harness, "task.verdict", "Not so."));
  EXPECT_NE(Drawn(harness, "task.show"), nullptr);
  EXPECT_TRUE(harness.context().lessons.done.empty());
  Answer(&harness, one->task, answers->right, "task");
  EXPECT_TRUE(Says(&harness, "task.verdict", "Right."));
  EXPECT_TRUE(harness.context().lessons.done.contains("sharding"));
}

// It is the one that is selected in the timeline.
TEST_F(LessonsTest, ATaskThatAsksForAnOpIsDone) {
  constexpr int64_t kMs = 1'000'000;
  Harness harness({}, BinDir());
  Start(&harness, "streams");
  ASSERT_TRUE(Ends(&harness)) << harness.context().start_error;
  ASSERT_TRUE(
      Says(&harness, "selected", ui::Tr(ui::Language::kEnglish, ui::Text::kLessonNothingSelected)));
  // Which waited for 5 ms and longer is right.
  std::optional<query::OpRun> waited;
  std::optional<query::OpRun> began_soon;
  for (const query::OpRun& run : harness.context().snapshot->ranks.front().op_runs) {
    const int64_t wait_ns = run.started_ns - run.issued_ns;
    if (run.step == 1 && wait_ns > 6 * kMs) waited = run;
    if (run.step == 1 && wait_ns < 4 * kMs) began_soon = run;
  }
  ASSERT_TRUE(waited && began_soon);
  const auto select_and_check = [&](const query::OpRun& run) {
    harness.shell().Post(ui::SelectOp{run.id, run.rank});
    harness.Frames(3);
    const ui::DrawnItem* selected = Drawn(harness, "selected");
    ASSERT_NE(selected, nullptr);
    const std::string name = harness.context().snapshot->FindPlanOp(run.plan_op)->name;
    EXPECT_EQ(selected->text, "Selected: " + name + ", rank " + std::to_string(run.rank));
    Click(&harness, "task/check");
  };
  select_and_check(*began_soon);
  EXPECT_TRUE(Says(&harness, "task.verdict", "Not so."));
  select_and_check(*waited);
  EXPECT_TRUE(Says(&harness, "task.verdict", "Right."));
  EXPECT_TRUE(harness.context().lessons.done.contains("streams"));
}

// It is done once steps show what the knob does.
TEST_F(LessonsTest, ATaskThatAsksForAKnobIsDone) {
  Harness harness({}, BinDir());
  Start(&harness, "prefetch");
  const auto trains = [&] {
    return ui::CanSteer(harness.context()) && harness.context().report != nullptr &&
           harness.context().report->steps.size() > 2;
  };
  ASSERT_TRUE(harness.Until(trains, kLessonSeconds)) << harness.context().start_error;
  const auto check = [&] {
    Click(&harness, "task/check");
    EXPECT_TRUE(
        harness.Until([&] { return !harness.context().lessons.task.is_asked; }, kLessonSeconds));
    harness.Frames(2);
  };
  check();
  EXPECT_EQ(Drawn(harness, "task.verdict"), nullptr);
  const ui::DrawnItem* not_yet = Drawn(harness, "task.reason");
  EXPECT_TRUE(not_yet != nullptr && not_yet->text.starts_with("The run does not show it yet"));
  // The link leads to the knobs.
  EXPECT_EQ(harness.log().Find("run_control", "knob:prefetch.backward"), nullptr);
  Click(&harness, "task/run_control");
  harness.Frames(6);
  EXPECT_NE(harness.log().Find("run_control", "knob:prefetch.backward"), nullptr);
  harness.shell().Post(ui::SetKnob{"prefetch.forward", "1"});
  EXPECT_TRUE(harness.Drive([](ImGuiTestContext* test) {
    test->SetRef("//###run_control");
    test->ItemClick("prefetch.backward/segments/pre");
  }));
  EXPECT_TRUE(harness.Until(
      [&] {
        return ui::ValueInForce(harness.context(), "prefetch.backward") == "pre" &&
               ui::ValueInForce(harness.context(), "prefetch.forward") == "1";
      },
      kLessonSeconds));
  harness.shell().Post(ui::FocusPanel{"lessons"});
  harness.Frames(8);
  // A busy machine issues the gathers of some steps late.
  EXPECT_TRUE(harness.Until(
      [&] {
        check();
        return harness.context().lessons.done.contains("prefetch");
      },
      kLessonSeconds));
  EXPECT_TRUE(Says(&harness, "task.verdict", "Right."));
  harness.shell().Post(ui::DoAction{config::Action::kStop});
  EXPECT_TRUE(Ends(&harness));
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
