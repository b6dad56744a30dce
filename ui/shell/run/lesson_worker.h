// LessonWorker: reads the lessons and judges answers to them, on a thread of its own.
//
// Threads: all calls on the owner's thread; files and runs are read on the worker's.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "trace/base/mutex.h"
#include "ui/context.h"
#include "ui/shell/run/one_at_a_time.h"

namespace shardscope::shell {

// The lessons of these files with their numbers filled in, on the calling thread: for headless
// pictures, and inside the worker.
Result<std::vector<lesson::Lesson>> ReadFilledLessons(const std::vector<std::string>& paths);

struct AskedLesson {
  std::string id;
  lesson::Attempt attempt;
};

// Without lessons there is no answer.
class LessonWorker final : public OneAtATime<AskedLesson, std::optional<ui::JudgedAnswer>> {
 public:
  // `paths`: files of lessons. `wake` is called on the worker's thread when there is something new.
  LessonWorker(std::vector<std::string> paths, std::function<void()> wake);
  ~LessonWorker() override;  // cancels what runs

  // The answer to the part of the lesson `id`, whose answers before are forgotten.
  void Judge(const std::string& id, const lesson::Attempt& attempt);
  // What was judged is of another lesson from now on.
  void Forget();

  // Puts what there is into the state; what is done and what is shown stay.
  void Show(ui::LessonsState* state) const;

 private:
  void Prepare() override;
  std::optional<ui::JudgedAnswer> Make(const AskedLesson& asked,
                                       const std::stop_token& stop) override;
  bool Keep(const AskedLesson& asked, std::optional<ui::JudgedAnswer> judged,
            bool is_cancelled) override REQUIRES(mutex_);
  ui::JudgedAnswer* JudgedOf(lesson::Exercise part) REQUIRES(mutex_);

  const std::vector<std::string> paths_;
  std::shared_ptr<const std::vector<lesson::Lesson>> lessons_ GUARDED_BY(mutex_);
  std::string error_ GUARDED_BY(mutex_);
  ui::JudgedAnswer task_ GUARDED_BY(mutex_);
  ui::JudgedAnswer quiz_ GUARDED_BY(mutex_);
};

}  // namespace shardscope::shell
