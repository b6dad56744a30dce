// Reading parts of a file before they are wanted, so that what maps it need not wait for the disk.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "trace/base/mutex.h"

namespace shardscope {

// Reads what it is asked for into the system's cache, on a thread of its own while there is any, in
// the order in which it lies in the file, whoever asked: so the disk is read as one plain read of
// the file would, where madvise(MADV_WILLNEED) of several parts comes to half its speed.
//
// Threads: any number at once.
class ReadAhead {
 public:
  // Of a file that can be read; else nothing is read ahead.
  explicit ReadAhead(std::string path) : path_(std::move(path)) {}
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  void Ask(size_t first, size_t count) EXCLUDES(mutex_);
  // Returns once all of this part has been read that was asked for.
  void WaitFor(size_t first, size_t count) EXCLUDES(mutex_);

 private:
  void Read() EXCLUDES(mutex_);

  const std::string path_;
  Mutex mutex_;
  CondVar changed_;
  // Pieces of the file, each kPieceBytes, that are not read yet.
  std::set<size_t> asked_ GUARDED_BY(mutex_);
  bool is_reading_ GUARDED_BY(mutex_) = false;
  bool stops_ GUARDED_BY(mutex_) = false;
  std::thread thread_ GUARDED_BY(mutex_);
};

}  // namespace shardscope
