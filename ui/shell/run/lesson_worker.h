// LessonWorker: reads the lessons and judges answers to them, on a thread of its own.
//
// Threads: all calls on the owner's thread; files and runs are read on the worker's.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "trace/base/mutex.h"
#include "ui/context.h"

namespace shardscope::shell {

// The lessons of these files with their numbers filled in, on the calling thread: for headless
// pictures, and inside the worker.
Result<std::vector<lesson::Lesson>> ReadFilledLessons(const std::vector<std::string>& paths);

class LessonWorker {
 public:
  // `paths`: files of lessons. `wake` is called on the worker's thread when there is something new.
  LessonWorker(std::vector<std::string> paths, std::function<void()> wake);
  ~LessonWorker();  // cancels what runs

  // The answer to the part of the lesson `id`, whose answers before are forgotten.
  void Judge(const std::string& id, const lesson::Attempt& attempt);
  // What was judged is of another lesson from now on.
  void Forget();

  // Puts what there is into the state; what is done and what is shown stay.
  void Show(ui::LessonsState* state) const;

 private:
  struct Asked {
    std::string id;
    lesson::Attempt attempt;
  };
  void Run();
  void Read();
  ui::JudgedAnswer Answer(const Asked& asked, const std::stop_token& stop) const;
  ui::JudgedAnswer* JudgedOf(lesson::Exercise part) REQUIRES(mutex_);

  const std::vector<std::string> paths_;
  const std::function<void()> wake_;
  mutable Mutex mutex_;
  CondVar asked_;
  std::optional<Asked> next_ GUARDED_BY(mutex_);
  std::stop_source cancel_ GUARDED_BY(mutex_);  // of what runs
  std::shared_ptr<const std::vector<lesson::Lesson>> lessons_ GUARDED_BY(mutex_);
  std::string error_ GUARDED_BY(mutex_);
  ui::JudgedAnswer task_ GUARDED_BY(mutex_);
  ui::JudgedAnswer quiz_ GUARDED_BY(mutex_);
  bool stop_ GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: starts when all else is there
};

}  // namespace shardscope::shell
