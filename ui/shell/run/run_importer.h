// RunImporter: imports what another profiler recorded, and opens it, while the window goes on. Of
// large files a preview comes first: a run of their beginnings.
//
// Threads: all calls on the owner's thread; reading and writing on the importer's own.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "trace/base/mutex.h"
#include "trace/base/status.h"
#include "ui/shell/run/progress_wake.h"
#include "ui/shell/run/run_session.h"

namespace shardscope::shell {

class RunImporter {
 public:
  // `wake` is called on the importer's threads when there is something to take or to show.
  RunImporter(std::string path, std::function<void()> wake, const query::ReadLimits& limits = {});
  // Waits until the import has stopped, and removes the preview.
  ~RunImporter();
  RunImporter(const RunImporter&) = delete;
  RunImporter& operator=(const RunImporter&) = delete;

  const std::string& path() const { return path_; }
  // Of all bytes, those that were read; and how long the rest takes at this pace, 0: not known yet.
  double share() const;
  int64_t left_ns() const;

  // The preview, once it is there; else null.
  std::unique_ptr<RunSession> TakePreview();
  // The whole run, or the error; once.
  std::optional<Result<std::unique_ptr<RunSession>>> TakeRun();

  // Asks it to stop; nothing is left of it.
  void Cancel() { cancelled_ = true; }
  bool ended() const { return ended_; }

 private:
  void Run();
  void MakePreview();
  bool Progress(int64_t read_bytes, int64_t all_bytes);

  const std::string path_;
  const std::function<void()> wake_;
  const query::ReadLimits limits_;  // of the whole run
  std::atomic<bool> cancelled_ = false;
  std::atomic<bool> ended_ = false;
  std::atomic<int64_t> began_ns_ = 0;  // of reading all of it
  std::atomic<int64_t> read_bytes_ = 0;
  std::atomic<int64_t> all_bytes_ = 0;
  ProgressWake progress_wake_;
  mutable Mutex mutex_;
  std::string preview_folder_;  // the importer's thread; once it has ended anyone
  std::unique_ptr<RunSession> preview_ GUARDED_BY(mutex_);
  std::optional<Result<std::unique_ptr<RunSession>>> run_ GUARDED_BY(mutex_);
  std::thread thread_;  // last: starts when all else is there
};

}  // namespace shardscope::shell
