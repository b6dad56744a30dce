// SqlWorker: runs the SELECTs of the SQL panel over one run, one at a time, on a thread of its own.
//
// Threads: all calls on the owner's thread; statements run on the worker's.
#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "trace/base/mutex.h"
#include "ui/context.h"

namespace shardscope::shell {

class SqlWorker {
 public:
  // `path`: a run folder or a trace file. `wake` is called on the worker's thread when there is
  // something new. It lists the tables first.
  SqlWorker(std::string path, std::function<void()> wake);
  ~SqlWorker();  // cancels what runs

  // Instead of what runs.
  void Start(const std::string& sql);
  // What runs ends, and answers that it was cancelled.
  void Cancel();

  // Puts what there is into the console; what is typed stays.
  void Show(ui::SqlConsole* console) const;

 private:
  void Run();
  void ListTables();
  std::shared_ptr<const ui::SqlAnswer> Answer(const std::string& sql,
                                              const std::stop_token& stop) const;

  const std::string path_;
  const std::function<void()> wake_;
  mutable Mutex mutex_;
  CondVar asked_;
  std::optional<std::string> next_ GUARDED_BY(mutex_);
  std::string running_ GUARDED_BY(mutex_);
  std::stop_source cancel_ GUARDED_BY(mutex_);  // of what runs
  std::shared_ptr<const ui::SqlAnswer> answer_ GUARDED_BY(mutex_);
  std::shared_ptr<const std::vector<query::TableColumns>> tables_ GUARDED_BY(mutex_);
  bool stop_ GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: starts when all else is there
};

}  // namespace shardscope::shell
