// What both ends of the control socket share: a descriptor that closes itself, lines out of a byte
// stream, and a flag that wakes a thread out of poll().
#pragma once

#include <sys/un.h>

#include <optional>
#include <string>
#include <string_view>

#include "trace/base/status.h"

namespace shardscope::config {

inline constexpr size_t kMaxSocketPath = 107;  // sockaddr_un::sun_path without its final zero

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.Release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor() { Close(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  void Close();

 private:
  int Release();
  int fd_ = -1;
};

// Cuts what arrives into lines of at most `limit` bytes.
class LineBuffer {
 public:
  explicit LineBuffer(size_t limit) : limit_(limit) {}
  void Append(std::string_view bytes) { pending_ += bytes; }
  std::optional<std::string> NextLine();  // without its newline
  bool overflown() const;                 // the line at hand is already over the limit

 private:
  size_t limit_;
  std::string pending_;
  size_t begin_ = 0;    // of the line at hand, in pending_
  size_t scanned_ = 0;  // pending_[begin_, scanned_) holds no newline
};

// Reads what is there without waiting. kOpen: more may come; kClosed: the other end has gone.
enum class ReadState : uint8_t { kOpen, kClosed };
ReadState ReadAvailable(int fd, LineBuffer* lines);

// Writes as much of `bytes` as goes without waiting and removes it. False: the other end has gone.
bool WriteAvailable(int fd, std::string* bytes);

// Any thread may call Raise; a poll() on fd() then returns. Never lowered by itself.
class WakeUp {
 public:
  WakeUp();
  int fd() const { return event_.get(); }
  void Raise();
  void Lower();

 private:
  Descriptor event_;
};

// A new non-blocking Unix stream socket, closed on exec.
Result<Descriptor> NewSocket();

// Error: over kMaxSocketPath bytes.
Result<sockaddr_un> AddressOf(const std::string& path);

}  // namespace shardscope::config
