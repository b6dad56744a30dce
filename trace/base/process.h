// This process and its machine: the name of the host, folders that it made, memory, threads, and
// the messages for when the machine, or a limit of it, gives no more threads or memory.
#pragma once

#include <malloc.h>

#include <exception>
#include <functional>
#include <string>
#include <thread>

namespace shardscope {

// The text of an exception for the user. Without threads or memory it names which of them is short
// and what to do; the libraries' own words do not. Any thread.
std::string ErrorText(const std::exception& error);

// std::terminate() prints ErrorText() of an uncaught exception and ends the program with exit code
// 1, without a core file: a library's thread that gets no memory cannot be helped otherwise.
void EndOnShortage();

// The name of the machine, as in the names of trace files; "host" if it has none. Any thread.
std::string HostName();

// Gives every block of a megabyte or more a mapping of its own, which the system gets back when the
// block is freed. The C library would take such blocks from its heap once a few were freed, and
// what growing vectors leave behind there stays resident: 150 MB for a trace of 10 M op runs. For
// main() before other threads start. false: this allocator has no such thing.
inline bool ReturnLargeBlocks() { return mallopt(M_MMAP_THRESHOLD, 1 << 20) == 1; }

// Takes what an exception needs of it now. The C library takes it at the first use, and where there
// is none then it ends the process, instead of letting the exception report that memory ran out.
inline void ReserveForExceptions() {
  [[maybe_unused]] const volatile int used = std::uncaught_exceptions();
}

// A thread that takes no signals: those are for the threads that handle them. Throws
// std::system_error if it cannot be started; the signals of the calling thread stay as they were.
std::thread ThreadWithoutSignals(std::function<void()> body);

// Whether the process that made a folder still lives. The system lets go of it when
// the process ends in any way.
class FolderLock {
 public:
  FolderLock() = default;
  // Of a folder that this process has made. Where the file system has no locks, no process holds
  // it.
  explicit FolderLock(const std::string& folder);
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&& other) noexcept;
  ~FolderLock();

  // Whether a process on this machine holds it.
  static bool IsHeld(const std::string& folder);

 private:
  int descriptor_ = -1;
};

}  // namespace shardscope
