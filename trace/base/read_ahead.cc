#include "trace/base/read_ahead.h"

#include <fcntl.h>
#include <unistd.h>

#include <memory>
#include <new>
#include <system_error>
#include <utility>

#include "trace/base/process.h"

namespace shardscope {
namespace {

constexpr size_t kPieceBytes = size_t{512} << 10;

}  // namespace

ReadAhead::~ReadAhead() {
  std::thread thread;
  {
    const MutexLock lock(mutex_);
    stops_ = true;
    thread = std::move(thread_);
  }
  if (thread.joinable()) thread.join();
}

void ReadAhead::Ask(size_t first, size_t count) {
  if (count == 0) return;
  const MutexLock lock(mutex_);
  for (size_t piece = first / kPieceBytes; piece <= (first + count - 1) / kPieceBytes; ++piece) {
    asked_.insert(piece);
  }
  if (is_reading_) return;
  if (thread_.joinable()) thread_.join();  // it took the lock for the last time
  try {
    thread_ = ThreadWithoutSignals([this] { Read(); });
    is_reading_ = true;
  } catch (const std::system_error&) {  // no more threads: all is read as it is touched
    asked_.clear();
    changed_.notify_all();
  }
}

void ReadAhead::WaitFor(size_t first, size_t count) {
  if (count == 0) return;
  MutexLock lock(mutex_);
  changed_.wait(lock, [&]() REQUIRES(mutex_) {
    const auto next = asked_.lower_bound(first / kPieceBytes);
    return next == asked_.end() || *next > (first + count - 1) / kPieceBytes;
  });
}

void ReadAhead::Read() {
  // Both only while there is something to read: a model may have hundreds of files.
  const int descriptor = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  const std::unique_ptr<std::byte[]> bytes(new (std::nothrow) std::byte[kPieceBytes]);
  size_t at = 0;
  MutexLock lock(mutex_);
  if (descriptor < 0 || bytes == nullptr) asked_.clear();
  while (!asked_.empty() && !stops_) {
    auto piece = asked_.lower_bound(at);
    if (piece == asked_.end()) piece = asked_.begin();
    at = *piece;
    lock.unlock();
    // An error, or the file's end, is that of whoever touches the part.
    static_cast<void>(
        pread(descriptor, bytes.get(), kPieceBytes, static_cast<off_t>(at * kPieceBytes)));
    lock.lock();
    asked_.erase(at);
    changed_.notify_all();
  }
  changed_.notify_all();
  is_reading_ = false;
  if (descriptor >= 0) close(descriptor);
}

}  // namespace shardscope
