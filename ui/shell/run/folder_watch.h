// FolderWatch: keeps which folder, or which single trace file, a run was opened as, and tells
// whether its path still leads there. What else is in a folder does not matter: segments come and
// go, a trace is renamed when it is finished, a checkpoint is written.
//
// Threads: any. Look() may block on a slow file system: not in a frame.
#pragma once

#include <atomic>
#include <string>

#include "trace/base/mutex.h"
#include "trace/base/status.h"
#include "ui/run_place.h"

namespace shardscope::shell {

class FolderWatch {
 public:
  // What cannot be looked at now counts as there for ever.
  explicit FolderWatch(std::string path);
  ~FolderWatch();
  FolderWatch(const FolderWatch&) = delete;
  FolderWatch& operator=(const FolderWatch&) = delete;

  // Looks now. What an error hides (no permission, a failing disk) is as it was seen last.
  ui::RunPlace Look();
  // The same; an error in the words of the banner unless it is there.
  Status Check();

  // What the last look has seen; never blocks.
  ui::RunPlace seen() const { return seen_; }
  const std::string& path() const { return path_; }

 private:
  ui::RunPlace LookNow() const;

  const std::string path_;
  // Held open: the number of a removed folder's inode would be given to the next one.
  const int opened_;
  const bool is_folder_;
  Mutex looking_;  // a look that began earlier does not end later
  std::atomic<ui::RunPlace> seen_ = ui::RunPlace::kThere;
};

}  // namespace shardscope::shell
