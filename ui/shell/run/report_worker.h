// ReportWorker: makes the Report of the newest Snapshot on a thread of its own, at most ten times a
// second, so that no frame waits for it.
//
// Threads: Request() and Latest() on the owner's thread; the report is made on the worker's.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "trace/analysis/report.h"
#include "ui/context.h"

namespace shardscope::shell {

struct Findings {
  std::shared_ptr<const analysis::Report> report;
  ui::ChangeSummary change;
  bool loading = false;  // of a snapshot that was
};
using FindingsPtr = std::shared_ptr<const Findings>;

// On the calling thread: for headless pictures, and inside the worker.
FindingsPtr MakeFindings(const query::Snapshot& snapshot);

class ReportWorker {
 public:
  // `wake` is called on the worker's thread after new findings.
  explicit ReportWorker(std::function<void()> wake);
  ~ReportWorker();  // waits for the report in the making

  // Asks for the report of this snapshot; a newer request replaces an older one that has not begun.
  void Request(query::SnapshotPtr snapshot);

  // Null until the first is made.
  FindingsPtr Latest() const;

 private:
  void Run();

  const std::function<void()> wake_;
  mutable std::mutex mutex_;
  std::condition_variable requested_;
  query::SnapshotPtr next_;  // guarded by mutex_, as are the two below
  FindingsPtr latest_;
  bool stop_ = false;
  std::thread thread_;  // last: starts when all else is there
};

}  // namespace shardscope::shell
