#include "ui/shell/run/lesson_worker.h"

#include <algorithm>
#include <utility>

#include "lesson/values.h"

namespace shardscope::shell {

Result<std::vector<lesson::Lesson>> ReadFilledLessons(const std::vector<std::string>& paths) {
  SHARDSCOPE_ASSIGN_OR_RETURN(std::vector<lesson::Lesson> lessons, lesson::ReadLessons(paths));
  for (lesson::Lesson& one : lessons) {
    SHARDSCOPE_ASSIGN_OR_RETURN(one, lesson::Filled(std::move(one)));
  }
  return lessons;
}

LessonWorker::LessonWorker(std::vector<std::string> paths, std::function<void()> wake)
    : OneAtATime(std::move(wake)), paths_(std::move(paths)) {
  Begin();
}

LessonWorker::~LessonWorker() { End(); }

ui::JudgedAnswer* LessonWorker::JudgedOf(lesson::Exercise part) {
  return part == lesson::Exercise::kTask ? &task_ : &quiz_;
}

void LessonWorker::Judge(const std::string& id, const lesson::Attempt& attempt) {
  const MutexLock lock(mutex_);
  task_.is_asked = quiz_.is_asked = false;  // what runs, or waits, gives way
  *JudgedOf(attempt.part) = {.is_asked = true, .verdict = std::nullopt, .error = ""};
  Ask({id, attempt});
}

void LessonWorker::Forget() {
  const MutexLock lock(mutex_);
  Withdraw();
  task_ = quiz_ = {};
}

void LessonWorker::Show(ui::LessonsState* state) const {
  const MutexLock lock(mutex_);
  state->all = lessons_;
  state->error = error_;
  state->task = task_;
  state->quiz = quiz_;
}

void LessonWorker::Prepare() {
  Result<std::vector<lesson::Lesson>> lessons = ReadFilledLessons(paths_);
  const MutexLock lock(mutex_);
  if (lessons.ok()) {
    lessons_ = std::make_shared<const std::vector<lesson::Lesson>>(std::move(lessons).value());
  } else {
    error_ = lessons.message();
  }
}

std::optional<ui::JudgedAnswer> LessonWorker::Make(const AskedLesson& asked,
                                                   const std::stop_token& stop) {
  std::shared_ptr<const std::vector<lesson::Lesson>> lessons;
  {
    const MutexLock lock(mutex_);
    lessons = lessons_;
  }
  if (lessons == nullptr) return std::nullopt;
  ui::JudgedAnswer judged;
  const auto found = std::ranges::find(*lessons, asked.id, &lesson::Lesson::id);
  Result<lesson::Verdict> verdict = CheckAnswer(*found, asked.attempt, stop);
  if (verdict.ok()) {
    judged.verdict = std::move(verdict).value();
  } else {
    judged.error = verdict.message();
  }
  return judged;
}

bool LessonWorker::Keep(const AskedLesson& asked, std::optional<ui::JudgedAnswer> judged,
                        bool is_cancelled) {
  if (is_cancelled || !judged) return false;  // forgotten, or another answer came
  *JudgedOf(asked.attempt.part) = std::move(*judged);
  return true;
}

}  // namespace shardscope::shell
