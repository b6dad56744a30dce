#include "trace/store/descriptors.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

namespace shardscope::store {
namespace {

// A fork copies the table of descriptors up to the highest: 32 KiB.
constexpr rlim_t kHighest = 4096;
// Room above the first for all that a recorder opens at once.
constexpr rlim_t kRoom = 64;

std::atomic<bool> are_high = false;

int OpenHigh(const char* path, int flags, int mode) {
  return KeptDescriptor(open(path, flags, mode));
}

}  // namespace

void KeepDescriptorsHigh() {
  are_high = true;
  // Null: the system call of SQLite's own table that opens files, whichever connection does so.
  sqlite3_vfs* const files = sqlite3_vfs_find(nullptr);
  if (files == nullptr || files->iVersion < 3 || files->xSetSystemCall == nullptr) return;
  files->xSetSystemCall(files, "open", reinterpret_cast<sqlite3_syscall_ptr>(&OpenHigh));
}

int KeptDescriptor(int descriptor) {
  if (descriptor < 0 || !are_high) return descriptor;
  const int error = errno;
  rlimit limit = {};
  int high = -1;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    const rlim_t above = std::min(limit.rlim_cur, kHighest);
    if (above > kRoom && static_cast<rlim_t>(descriptor) < above - kRoom) {
      high = fcntl(descriptor, F_DUPFD_CLOEXEC, static_cast<int>(above - kRoom));
    }
  }
  errno = error;
  if (high < 0) return descriptor;
  close(descriptor);
  return high;
}

}  // namespace shardscope::store
