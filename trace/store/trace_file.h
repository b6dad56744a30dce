// The names of one trace's files, and the lock that shows whether its writer lives.
//
// A trace is <stem>.live.db while it is written and <stem>.db once finished; <stem> is
// trace-<host>-<pid>. Where its size is bounded, the live trace is a row of segments,
// <stem>.live.db, <stem>.live.2.db, <stem>.live.3.db, ..., of which the oldest go (writer.h).
// The process that writes or finishes a trace holds an flock on <stem>.lock, which the kernel lets
// go when the process ends, however it ends.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/base/status.h"

namespace shardscope::store {

struct TraceFile {
  std::string stem;            // path without ".live.db", ".live.<segment>.db" or ".db"
  std::string ending = ".db";  // of the finished file; empty for a copy of another name

  // Segments count from 1.
  std::string LivePath(int64_t segment = 1) const;
  std::string FinishedPath() const { return stem + ending; }
  std::string UnfinishedPath() const { return stem + ".finishing"; }  // until it is whole
  std::string LockPath() const { return stem + ".lock"; }
  std::string Folder() const;
};

// `path` with its ending taken off; other names are kept whole and are finished files.
TraceFile TraceFileOf(const std::string& path);

// The numbers of the live segments that exist, ascending; none once the trace is finished.
std::vector<int64_t> LiveSegments(const TraceFile& file);

// Removes everything that a live trace has: segments, logs, and what a killed writer was about to
// add or to remove.
void RemoveLive(const TraceFile& file);

// Removes a SQLite file with its log.
void RemoveDatabase(const std::string& path);

// Bytes of a SQLite file with its log; 0 if there is none.
int64_t DatabaseBytes(const std::string& path);

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
  // Whether the descriptor is still the lock's: a recorded program may have closed it with all
  // others, or put a file of its own there.
  bool IsOpen() const;
  // Makes the lock file take room on the disk, as far as there is any, and gives it back: for what
  // has to be written where a disk is full. Only while the lock is held.
  void Reserve();
  void ReleaseReserve();
  // An error that says what helps, if no file there can grow: the disk or the quota is full, or a
  // file may not be larger. SQLite tells none of these. Leaves the lock file larger.
  Status CheckRoom() const;
  // Removes the lock file and lets go; once the trace is finished.
  void RemoveAndRelease();

 private:
  void Close();

  std::string path_;
  int descriptor_ = -1;
  uint64_t inode_ = 0;
};

// Whether a process holds the lock of a trace.
bool WriterLives(const TraceFile& file);

bool Exists(const std::string& path);
// Waits until a file (or with O_DIRECTORY in `flags` a folder) is on the disk.
Status SyncPath(const std::string& path, int flags);
// Whether this process may create files in `folder`.
bool CanWrite(const std::string& folder);
// The message of errno.
std::string SystemError();

// A program that is recorded may close every descriptor it has not made, or put its own on a
// number that it names, as a daemon does. If its next file then got the number of a trace, SQLite
// would write into that file. Numbers far above those that a kernel gives, the lowest free ones,
// are never given again: what the recorder writes fails then, the program's files are its own, and
// the writer opens the trace again (TraceWriter::Begin).
//
// From now on all files of SQLite in this process, and what KeptDescriptor() is asked for, have
// numbers as high as the process may have, up to 4096. Before the first of them is opened.
void KeepDescriptorsHigh();

// The same file at such a number, `descriptor` closed; itself if that was not asked for or cannot
// be. A negative one stays as it is.
int KeptDescriptor(int descriptor);

}  // namespace shardscope::store
