#include "trace/base/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace shardscope {
namespace {

int OpenFolder(const std::string& folder) {
  return open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

}  // namespace

FolderLock::FolderLock(const std::string& folder) : descriptor_(OpenFolder(folder)) {
  static_cast<void>(flock(descriptor_, LOCK_EX | LOCK_NB));
}

FolderLock::FolderLock(FolderLock&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}

FolderLock& FolderLock::operator=(FolderLock&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

bool FolderLock::IsHeld(const std::string& folder) {
  FolderLock probe;
  probe.descriptor_ = OpenFolder(folder);
  return probe.descriptor_ >= 0 && flock(probe.descriptor_, LOCK_SH | LOCK_NB) != 0 &&
         errno == EWOULDBLOCK;
}

}  // namespace shardscope
