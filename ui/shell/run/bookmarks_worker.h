// BookmarksWorker: reads and keeps the bookmarks of the open run on a thread of its own, so that no
// frame waits for a disk. Another program's changes of the file are seen within a second. What
// cannot be kept stays in the list while the run is open, and is tried again with the next change.
// The list stays, and nothing is written, while the run is not in its place: that is looked for as
// often as the file is.
//
// Threads: all calls on the owner's thread; files are the worker's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "trace/base/mutex.h"
#include "trace/bookmarks/bookmarks.h"
#include "ui/context.h"
#include "ui/shell/run/folder_watch.h"

namespace shardscope::shell {

using BookmarkListPtr = std::shared_ptr<const ui::BookmarkList>;

class BookmarksWorker {
 public:
  // Of which run: as for bookmarks::FileOf(). `opened` empty: of none that has a path; its
  // bookmarks are kept in memory only. `wake` is called on the worker's thread when the list
  // changes, or whether the run is in its place; it may be empty. `run` null: it always is.
  BookmarksWorker(std::string opened, std::string run_folder, std::function<void()> wake,
                  std::shared_ptr<FolderWatch> run = nullptr);
  ~BookmarksWorker();  // keeps what was asked before
  BookmarksWorker(const BookmarksWorker&) = delete;
  BookmarksWorker& operator=(const BookmarksWorker&) = delete;

  void Apply(bookmarks::Change change);

  // Null until the file was looked for.
  BookmarkListPtr Latest() const;

 private:
  // What tells that the file is another than before.
  struct FileLook {
    int64_t changed_ns = 0;
    int64_t bytes = -1;  // no file
    uint64_t inode = 0;
    bool operator==(const FileLook&) const = default;
  };

  void Run();
  void Look(const std::vector<bookmarks::Change>& news);
  Status LookAtRun();
  FileLook LookAtFile() const;
  void Publish(std::string problem);

  const std::string opened_;
  const std::string run_folder_;
  const std::function<void()> wake_;
  const std::shared_ptr<FolderWatch> run_;
  // On the worker's thread.
  std::string file_;
  std::optional<FileLook> seen_;
  std::vector<bookmarks::Bookmark> kept_;   // in the file
  std::vector<bookmarks::Change> unsaved_;  // that the file could not take

  mutable Mutex mutex_;
  CondVar asked_;
  std::vector<bookmarks::Change> changes_ GUARDED_BY(mutex_);
  BookmarkListPtr latest_ GUARDED_BY(mutex_);
  bool stop_ GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: starts when all else is there
};

}  // namespace shardscope::shell
