#include "engine/config/socket_io.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "trace/base/check.h"

namespace shardscope::config {

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    Close();
    fd_ = other.Release();
  }
  return *this;
}

void Descriptor::Close() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

int Descriptor::Release() { return std::exchange(fd_, -1); }

std::optional<std::string> LineBuffer::NextLine() {
  const size_t newline = pending_.find('\n', scanned_);
  if (newline == std::string::npos || newline - begin_ > limit_) {
    pending_.erase(0, begin_);
    begin_ = 0;
    scanned_ = newline == std::string::npos ? pending_.size() : 0;
    return std::nullopt;
  }
  std::string line = pending_.substr(begin_, newline - begin_);
  begin_ = scanned_ = newline + 1;
  return line;
}

bool LineBuffer::overflown() const {
  const size_t newline = pending_.find('\n', scanned_);
  return (newline == std::string::npos ? pending_.size() : newline) - begin_ > limit_;
}

ReadState ReadAvailable(int fd, LineBuffer* lines) {
  char bytes[65536];
  const ssize_t count = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
  if (count > 0) {
    lines->Append({bytes, static_cast<size_t>(count)});
    return ReadState::kOpen;
  }
  const bool would_wait = count < 0 && (errno == EAGAIN || errno == EINTR);
  return would_wait ? ReadState::kOpen : ReadState::kClosed;
}

bool WriteAvailable(int fd, std::string* bytes) {
  size_t written = 0;
  bool is_open = true;
  while (written < bytes->size()) {
    const ssize_t count =
        send(fd, bytes->data() + written, bytes->size() - written, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      is_open = errno == EAGAIN;
      break;
    }
    written += static_cast<size_t>(count);
  }
  bytes->erase(0, written);
  return is_open;
}

WakeUp::WakeUp() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  SHARDSCOPE_CHECK(event_.valid());
}

void WakeUp::Raise() {
  const uint64_t one = 1;
  // It fails only if the counter is full, and then the flag is raised already.
  [[maybe_unused]] const ssize_t count = write(event_.get(), &one, sizeof(one));
}

void WakeUp::Lower() {
  uint64_t raised = 0;
  [[maybe_unused]] const ssize_t count = read(event_.get(), &raised, sizeof(raised));
}

Result<Descriptor> NewSocket() {
  Descriptor socket_fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_fd.valid())
    return Status::Error(fmt::format("cannot make a control socket: {}", std::strerror(errno)));
  return socket_fd;
}

Result<sockaddr_un> AddressOf(const std::string& path) {
  if (path.size() > kMaxSocketPath)
    return Status::Error(fmt::format("the socket path {} has {} bytes, and {} are the most", path,
                                     path.size(), kMaxSocketPath));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

}  // namespace shardscope::config
