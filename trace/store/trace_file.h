// The names of one trace's files, and the lock that says whether its writer lives.
//
// A trace is <stem>.live.db while it is written and <stem>.db once finished; <stem> is
// trace-<host>-<pid>. Whoever writes or finishes it holds an flock on <stem>.lock, which the kernel
// lets go when the process ends, however it ends.
#pragma once

#include <string>

#include "trace/base/status.h"

namespace shardscope::store {

struct TraceFile {
  std::string stem;  // path without ".live.db" or ".db"

  std::string LivePath() const { return stem + ".live.db"; }
  std::string FinishedPath() const { return stem + ".db"; }
  std::string LockPath() const { return stem + ".lock"; }
  std::string Folder() const;
};

// `path` with ".live.db" or ".db" taken off; other names are kept and are finished files.
TraceFile TraceFileOf(const std::string& path);

// A stem in `folder` that no trace has yet.
TraceFile NewTraceFile(const std::string& folder);

class TraceLock {
 public:
  // Empty if another process (or another part of this one) holds it.
  static Result<TraceLock> TryTake(const TraceFile& file);

  TraceLock() = default;
  TraceLock(TraceLock&& other) noexcept;
  TraceLock& operator=(TraceLock&& other) noexcept;
  ~TraceLock();

  bool held() const { return descriptor_ >= 0; }
  // Removes the lock file and lets go; once the trace is finished.
  void RemoveAndRelease();

 private:
  std::string path_;
  int descriptor_ = -1;
};

// Whether somebody holds the lock of a trace. Where locks cannot be created: no.
bool WriterLives(const TraceFile& file);

bool Exists(const std::string& path);
// Whether this process may create files in `folder`.
bool CanWrite(const std::string& folder);
// The message of errno.
std::string SystemError();

}  // namespace shardscope::store
