// RunFolder: the files of a run's directory (DESIGN section 5) other than its trace.
#pragma once

#include <cstdint>
#include <string>

#include "trace/base/folder_lock.h"
#include "trace/base/status.h"

namespace shardscope::runtime {

// Whether --dump can be written to `path` (empty: nothing is to be). It is written when the run has
// ended; a wrong path shall not cost that run.
Status CheckDumpPath(const std::string& path);

class RunFolder {
 public:
  // Whether a run may be started in `path`: not there yet, or an empty folder. Creates nothing.
  static Status CheckFree(const std::string& path);

  // Creates the folder with what is missing above it, and its sub-folders.
  static Result<RunFolder> Create(const std::string& path);

  // The folder of a run that another process has created.
  static Result<RunFolder> Attach(const std::string& path);

  const std::string& path() const { return path_; }
  std::string name() const;  // last part of the path
  std::string checkpoints() const { return path_ + "/checkpoints"; }

  // Replaces run.toml in one step, so that readers never see half of it.
  Status WriteConfig(const std::string& toml) const;
  Status WriteSchedule(int64_t number, const std::string& text) const;

  // Appends one line with the time of day to log.txt. One thread at a time.
  void Log(const std::string& line) const;

 private:
  explicit RunFolder(std::string path) : path_(std::move(path)) {}

  std::string path_;
  FolderLock lock_;  // of the process that created it
};

}  // namespace shardscope::runtime
