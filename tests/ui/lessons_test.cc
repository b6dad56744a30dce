// The panel Lessons, done as a learner would: the list, a quiz, a mini-run, a wrong answer with the
// way to the timeline, the right one, and what is remembered; and each lesson from its row in the
// list to its last answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "lesson/check.h"
#include "lesson/lesson.h"
#include "tests/places.h"
#include "tests/ui/harness.h"
#include "trace/query/trace_test_util.h"
#include "ui/shell/settings.h"
#include "ui/values.h"

namespace shardscope::ui_test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr double kLessonSeconds = 120;   // of the worst machine
constexpr size_t kStepsBeforeATurn = 6;  // of a knob: so that the run shows what it did before

// The mini-runs of every so many lessons are trained where everything costs more (sanitizers).
size_t LessonsPerMiniRun() {
  const char* scale = std::getenv("SHARDSCOPE_TEST_SCALE");
  const double share = scale == nullptr ? 1 : std::atof(scale);
  return share <= 0 ? 1 : static_cast<size_t>(std::max(std::round(1 / share), 1.0));
}

// The op run, on whatever rank it is.
ui::SelectOp SelectionOf(const query::Snapshot& snapshot, int64_t op_run) {
  for (const query::RankRows& rows : snapshot.ranks) {
    for (const query::OpRun& run : rows.op_runs) {
      if (run.id == query::OpRunId(op_run)) return {run.id, rows.rank};
    }
  }
  return {};
}

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
  // Gives the answer as the panel of the lesson takes it, and has it checked. `part`: "task" or
  // "quiz".
  static void Answer(Harness* harness, const lesson::Question& question, const std::string& part,
                     const std::string& answer) {
    if (question.kind == lesson::QuestionKind::kChoice) {
      Click(harness, part + "/" + answer + "/##choice");
    } else if (question.kind == lesson::QuestionKind::kNumber) {
      EXPECT_TRUE(harness->Drive([&](ImGuiTestContext* test) {
        test->SetRef("//###lessons");
        test->ItemInputValue((part + "/##answer").c_str(), answer.c_str());
      }));
    } else if (question.kind == lesson::QuestionKind::kOp) {
      const ui::SelectOp op = SelectionOf(*harness->context().snapshot, std::atoll(answer.c_str()));
      EXPECT_FALSE(op.op_run.is_none()) << answer;
      harness->shell().Post(op);
      harness->Frames(3);
      EXPECT_NE(Drawn(*harness, "selected"), nullptr);
    }
    Click(harness, part + "/check");
  }
  static bool Says(Harness* harness, const std::string& id, const std::string& text) {
    return harness->Until(
        [&] {
          const ui::DrawnItem* said = Drawn(*harness, id);
          return said != nullptr && said->text == text;
        },
        kLessonSeconds);
  }
  // A wrong answer, and the right one.
  static void AnswerBoth(Harness* harness, const lesson::Lesson& one, lesson::Exercise exercise) {
    const lesson::Question& question = lesson::QuestionOf(one, exercise);
    const bool quiz = exercise == lesson::Exercise::kQuiz;
    const std::string part = quiz ? "quiz" : "task";
    const auto answers = lesson::AnswersOf(one, exercise, harness->context().lessons.run);
    ASSERT_TRUE(answers.ok()) << answers.message();
    const std::string done = one.id + (quiz ? ui::kQuizDone : "");
    Answer(harness, question, part, answers->wrong);
    EXPECT_TRUE(Says(harness, part + ".verdict", "Not so."));
    EXPECT_FALSE(harness->context().lessons.done.contains(done));
    Answer(harness, question, part, answers->right);
    EXPECT_TRUE(Says(harness, part + ".verdict", "Right."));
    EXPECT_TRUE(harness->context().lessons.done.contains(done));
  }
  // Trains the mini-run; one in which a knob is turned goes on.
  static void Start(Harness* harness, const lesson::Lesson& one) {
    Click(harness, "start");
    const auto is_ready = [&] {
      const ui::Context& context = harness->context();
      const bool is_open =
          context.snapshot != nullptr &&
          context.snapshot->run_folder.find("lesson-" + one.id + "-") != std::string::npos;
      if (!is_open) return false;
      if (one.task.kind != lesson::QuestionKind::kKnob) {
        return context.snapshot->state == query::TraceState::kFinished &&
               !context.snapshot->loading;
      }
      return ui::CanSteer(context) && context.report != nullptr &&
             context.report->steps.size() >= kStepsBeforeATurn;
    };
    ASSERT_TRUE(harness->Until(is_ready, kLessonSeconds)) << harness->context().start_error;
  }
  // What the run shows is refused until the knobs of the lesson have been turned.
  static void TurnKnobs(Harness* harness, const lesson::Lesson& one) {
    const ui::LessonsState& lessons = harness->context().lessons;
    const auto is_right = [&] {
      return lessons.task.verdict && lessons.task.verdict->outcome == lesson::Outcome::kRight;
    };
    Answer(harness, one.task, "task", "");
    EXPECT_TRUE(harness->Until([&] { return lessons.task.verdict.has_value(); }, kLessonSeconds));
    EXPECT_FALSE(is_right());
    ASSERT_TRUE(one.task.turn.has_value());
    for (const auto& [key, value] : one.task.turn->change.set) {
      harness->shell().Post(ui::SetKnob{key, value});
    }
    EXPECT_TRUE(harness->Until(
        [&] {
          if (!lessons.task.is_asked && !is_right()) Click(harness, "task/check");
          return is_right();
        },
        kLessonSeconds));
    EXPECT_TRUE(Says(harness, "task.verdict", "Right."));
    EXPECT_TRUE(lessons.done.contains(one.id));
    harness->shell().Post(ui::DoAction{config::Action::kStop});
    EXPECT_TRUE(harness->Until(
        [&] { return harness->context().snapshot->state == query::TraceState::kFinished; },
        kLessonSeconds));
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

TEST_F(LessonsTest, EachIsOpenedStartedAndAnswered) {
  Harness harness({}, BinDir());
  harness.shell().Post(ui::FocusPanel{"lessons"});
  ASSERT_TRUE(Shown(&harness, "lesson:trust"));
  const auto all = harness.context().lessons.all;
  size_t files = 0;
  for (const auto& file : std::filesystem::directory_iterator(SourceDir() + "/assets/lessons")) {
    files += file.path().extension() == ".toml" ? 1 : 0;
  }
  ASSERT_EQ(all->size(), files);
  const size_t every = LessonsPerMiniRun();
  for (size_t at = 0; at < all->size(); ++at) {
    const lesson::Lesson& one = (*all)[at];
    SCOPED_TRACE(one.id);
    Click(&harness, one.id + "/##lesson");
    ASSERT_TRUE(Shown(&harness, "title"));
    EXPECT_THAT(Drawn(harness, "title")->text, HasSubstr(one.title.en));
    AnswerBoth(&harness, one, lesson::Exercise::kQuiz);
    if (at % every == 0) {
      Start(&harness, one);
      if (HasFatalFailure()) return;
      if (one.task.kind == lesson::QuestionKind::kKnob) {
        TurnKnobs(&harness, one);
      } else {
        AnswerBoth(&harness, one, lesson::Exercise::kTask);
      }
    }
    if (HasFatalFailure()) return;
    Click(&harness, "all");
    ASSERT_TRUE(Shown(&harness, "lesson:trust"));
    EXPECT_EQ(Drawn(harness, "state:" + one.id) != nullptr, at % every == 0);
  }
}

}  // namespace
}  // namespace shardscope::ui_test
