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
    : paths_(std::move(paths)), wake_(std::move(wake)), thread_([this] { Run(); }) {}

LessonWorker::~LessonWorker() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
    cancel_.request_stop();
  }
  asked_.notify_one();
  thread_.join();
}

ui::JudgedAnswer* LessonWorker::JudgedOf(lesson::Exercise part) {
  return part == lesson::Exercise::kTask ? &task_ : &quiz_;
}

void LessonWorker::Judge(const std::string& id, const lesson::Attempt& attempt) {
  {
    const MutexLock lock(mutex_);
    task_.is_asked = quiz_.is_asked = false;  // what runs, or waits, gives way
    next_ = Asked{id, attempt};
    *JudgedOf(attempt.part) = {.is_asked = true, .verdict = std::nullopt, .error = ""};
    cancel_.request_stop();
  }
  asked_.notify_one();
}

void LessonWorker::Forget() {
  const MutexLock lock(mutex_);
  next_.reset();
  cancel_.request_stop();
  task_ = quiz_ = {};
}

void LessonWorker::Show(ui::LessonsState* state) const {
  const MutexLock lock(mutex_);
  state->all = lessons_;
  state->error = error_;
  state->task = task_;
  state->quiz = quiz_;
}

void LessonWorker::Read() {
  Result<std::vector<lesson::Lesson>> lessons = ReadFilledLessons(paths_);
  const MutexLock lock(mutex_);
  if (lessons.ok()) {
    lessons_ = std::make_shared<const std::vector<lesson::Lesson>>(std::move(lessons).value());
  } else {
    error_ = lessons.message();
  }
}

ui::JudgedAnswer LessonWorker::Answer(const Asked& asked, const std::stop_token& stop) const {
  std::shared_ptr<const std::vector<lesson::Lesson>> lessons;
  {
    const MutexLock lock(mutex_);
    lessons = lessons_;
  }
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

void LessonWorker::Run() {
  Read();
  if (wake_) wake_();
  MutexLock lock(mutex_);
  while (true) {
    asked_.wait(lock, [this]() REQUIRES(mutex_) { return stop_ || next_.has_value(); });
    if (stop_) return;
    const Asked asked = std::move(*std::exchange(next_, std::nullopt));
    if (lessons_ == nullptr) continue;
    cancel_ = std::stop_source();
    const std::stop_token stop = cancel_.get_token();
    lock.unlock();
    ui::JudgedAnswer judged = Answer(asked, stop);
    lock.lock();
    if (stop.stop_requested()) continue;  // forgotten, or another answer came
    *JudgedOf(asked.attempt.part) = std::move(judged);
    lock.unlock();
    if (wake_) wake_();
    lock.lock();
  }
}

}  // namespace shardscope::shell
