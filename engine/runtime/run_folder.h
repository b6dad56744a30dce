// RunFolder: the files of a run's directory other than its trace.
#pragma once

#include <cstdint>
#include <string>

#include "trace/base/process.h"
#include "trace/base/status.h"

namespace shardscope::runtime {

// Whether --dump can be written to `path` (empty: nothing is to be). It is written when the run has
// ended; a wrong path shall not cost that run.
Status CheckDumpPath(const std::string& path);

// Why no folder can be made at `path`, or nothing be written to the one that is there; empty: it
// can.
std::string WhyNotWritable(const std::string& path);

// What becomes of a run whose folder is taken: the user named the folder, or the clock did.
enum class IfTaken : uint8_t { kRefuse, kNumber };

class RunFolder {
 public:
  // Whether a run may be started in `path`: nothing there yet has a name that a run's files have.
  // Creates nothing.
  static Status CheckFree(const std::string& path, IfTaken if_taken = IfTaken::kRefuse);

  // Creates the folder with what is missing above it, and its sub-folders. With kNumber `path`, or
  // the first free one of `path`-2, `path`-3, ... Of runs that start at the same moment each gets
  // its own.
  static Result<RunFolder> Create(const std::string& path, IfTaken if_taken = IfTaken::kRefuse);

  // The folder of a run that another process has created.
  static Result<RunFolder> Attach(const std::string& path);

  const std::string& path() const { return path_; }
  std::string name() const;  // last part of the path
  std::string checkpoints() const { return path_ + "/checkpoints"; }

  // Takes away what a run leaves that did not get as far as its trace, so that the corrected
  // command may name the folder again.
  void Discard() const;

  // Replaces run.toml in one step, so that readers never see half of it.
  Status WriteConfig(const std::string& toml) const;
  Status WriteSchedule(int64_t number, const std::string& text) const;

  // Appends one line with the time of day to log.txt: one write, from any thread.
  void Log(const std::string& line) const;

 private:
  RunFolder(std::string path, bool is_new) : path_(std::move(path)), is_new_(is_new) {}

  std::string path_;
  bool is_new_ = false;  // there was no folder before
  FolderLock lock_;      // of the process that created it
};

}  // namespace shardscope::runtime
