// SqlWorker: runs the SELECTs of the SQL panel over one run, one at a time, on a thread of its own.
//
// Threads: all calls on the owner's thread; statements run on the worker's.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "trace/base/mutex.h"
#include "ui/context.h"
#include "ui/shell/run/folder_watch.h"
#include "ui/shell/run/one_at_a_time.h"

namespace shardscope::shell {

using SqlAnswerPtr = std::shared_ptr<const ui::SqlAnswer>;

class SqlWorker final : public OneAtATime<std::string, SqlAnswerPtr> {
 public:
  // `run`: whose rows are selected, none while it is not in its place. `wake` is called on the
  // worker's thread when there is something new. It lists the tables first.
  SqlWorker(std::shared_ptr<FolderWatch> run, std::function<void()> wake);
  ~SqlWorker() override;  // cancels what runs

  // Instead of what runs.
  void Start(const std::string& sql);
  // What runs ends, and answers that it was cancelled.
  void Cancel();

  // Puts what there is into the console; what is typed stays.
  void Show(ui::SqlConsole* console) const;

 private:
  void Prepare() override;
  SqlAnswerPtr Make(const std::string& sql, const std::stop_token& stop) override;
  bool Keep(const std::string& sql, SqlAnswerPtr answer, bool is_cancelled) override
      REQUIRES(mutex_);

  const std::shared_ptr<FolderWatch> run_;
  SqlAnswerPtr answer_ GUARDED_BY(mutex_);
  std::shared_ptr<const std::vector<query::TableColumns>> tables_ GUARDED_BY(mutex_);
};

}  // namespace shardscope::shell
