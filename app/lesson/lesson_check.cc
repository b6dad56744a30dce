#include "app/lesson/lesson_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "app/lesson/mini_run.h"
#include "lesson/check.h"
#include "lesson/values.h"

namespace shardscope::app {
namespace {

using lesson::Attempt;
using lesson::Exercise;
using lesson::Lesson;
using lesson::Outcome;
using lesson::Verdict;

// Removed with all that is in it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::error_code ignored;
    std::string pattern =
        (std::filesystem::temp_directory_path(ignored) / "shardscope-lesson-XXXXXX").string();
    if (mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }  // empty: it could not be made

 private:
  std::string path_;
};

// A number that is not there is "?" in a text.
Status CheckTexts(const Lesson& lesson) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const Lesson filled, lesson::Filled(lesson));
  const auto marks = [](const lesson::Words& words) { return std::ranges::count(words.en, '?'); };
  const std::pair<const lesson::Words&, const lesson::Words&> texts[] = {
      {lesson.text, filled.text},
      {lesson.eight, filled.eight},
      {lesson.task.ask, filled.task.ask},
      {lesson.quiz.ask, filled.quiz.ask}};
  for (const auto& [written, read] : texts) {
    if (marks(written) == marks(read)) continue;
    return Status::Error(fmt::format("{}: a number has no value in '{}'", lesson.path, read.en));
  }
  return Status::Ok();
}

// `answer` is judged so, with a reason, and a place where there has to be one.
Status Expect(const Lesson& lesson, const Attempt& attempt, Outcome wanted) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const Verdict verdict, CheckAnswer(lesson, attempt));
  const bool is_task = attempt.part == Exercise::kTask;
  const std::string what = fmt::format("{}: {} answer '{}'", lesson.path,
                                       is_task ? "the task's" : "the quiz's", attempt.answer);
  if (verdict.outcome == Outcome::kNoAnswer) return Status::Error(what + ": " + verdict.reason.en);
  const bool is_right = verdict.outcome == Outcome::kRight;
  if (is_right != (wanted == Outcome::kRight)) {
    return Status::Error(
        fmt::format("{} is {}: {}", what, is_right ? "accepted" : "refused", verdict.reason.en));
  }
  if (verdict.outcome == Outcome::kNotYet && is_task) return Status::Ok();
  if (is_task && !verdict.place) return Status::Error(what + ": its place is not in the run");
  return Status::Ok();
}

Status CheckAnswers(const Lesson& lesson, Exercise part, const std::string& run) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const lesson::ModelAnswers answers, AnswersOf(lesson, part, run));
  SHARDSCOPE_RETURN_IF_ERROR(Expect(lesson, {part, run, answers.right}, Outcome::kRight));
  return Expect(lesson, {part, run, answers.wrong}, Outcome::kWrong);
}

}  // namespace

Status CheckLesson(const Lesson& lesson) {
  SHARDSCOPE_RETURN_IF_ERROR(CheckTexts(lesson));
  SHARDSCOPE_RETURN_IF_ERROR(CheckAnswers(lesson, Exercise::kQuiz, ""));
  const TemporaryFolder folder;
  if (folder.path().empty()) {
    return Status::Error("cannot make a temporary folder: set TMPDIR to one that can be written");
  }
  const std::string before = folder.path() + "/a";
  SHARDSCOPE_RETURN_IF_ERROR(TrainForCheck(lesson, before, Knob::kAsItIs));
  if (!lesson.task.turn) return CheckAnswers(lesson, Exercise::kTask, before + "/run");
  SHARDSCOPE_RETURN_IF_ERROR(
      Expect(lesson, {Exercise::kTask, before + "/run", ""}, Outcome::kWrong));
  const std::string after = folder.path() + "/b";
  SHARDSCOPE_RETURN_IF_ERROR(TrainForCheck(lesson, after, Knob::kTurned));
  return Expect(lesson, {Exercise::kTask, after + "/run", ""}, Outcome::kRight);
}

}  // namespace shardscope::app
