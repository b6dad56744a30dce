// FileSaver: makes and writes files that the user asked for, on threads of their own, so that no
// frame waits for them.
//
// Threads: all calls on the owner's thread; files are made on others.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "trace/base/mutex.h"
#include "trace/base/status.h"
#include "ui/shell/run/folder_watch.h"

namespace shardscope::shell {

// Where files about a run go: the folder `exports` beside its bookmarks. `path`: of the run, as it
// was opened; `run_folder`: of its traces. Empty where there is no run.
std::string ExportsFolder(const std::string& path, const std::string& run_folder);

struct SavedFile {
  std::string folder = "";                    // is made where it is missing, in one that is there
  std::string name;                           // "steps"
  std::string extension;                      // ".csv"
  std::function<Result<std::string>()> make;  // its bytes; called on another thread
  // Called by TakeEnded() once it is written; may be empty.
  std::function<void(const std::string& path)> then = nullptr;
  // Of the run: nothing is written while it is not in its place. Null: it always is.
  std::shared_ptr<FolderWatch> run = nullptr;
};

class FileSaver {
 public:
  // `wake` is called on any thread once a file is written or could not be; it may be empty.
  explicit FileSaver(std::function<void()> wake) : wake_(std::move(wake)) {}
  ~FileSaver();  // waits for what is being written
  FileSaver(const FileSaver&) = delete;
  FileSaver& operator=(const FileSaver&) = delete;

  // As steps-1.csv, steps-2.csv, ...: nothing is written over.
  void Save(SavedFile file);

  // What has ended since the last call: the path of each file, or why there is none.
  std::vector<Result<std::string>> TakeEnded();

 private:
  Result<std::string> Write(const SavedFile& file);

  const std::function<void()> wake_;
  Mutex naming_;  // held while a file is named and written: numbers are not given twice
  Mutex mutex_;
  struct Ended {
    Result<std::string> path;
    std::function<void(const std::string& path)> then;
  };
  std::vector<Ended> ended_ GUARDED_BY(mutex_);
  std::vector<std::future<void>> running_;  // last: what they use is there
};

}  // namespace shardscope::shell
