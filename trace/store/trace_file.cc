#include "trace/store/trace_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace shardscope::store {
namespace {

bool RemoveSuffix(std::string* text, std::string_view suffix) {
  if (!text->ends_with(suffix)) return false;
  text->resize(text->size() - suffix.size());
  return true;
}

// Whether the locked file is still the one with that name: a finisher removes the lock file while
// it holds it.
bool SameFile(int descriptor, const std::string& path) {
  struct stat open_file = {};
  struct stat named_file = {};
  return fstat(descriptor, &open_file) == 0 && stat(path.c_str(), &named_file) == 0 &&
         open_file.st_ino == named_file.st_ino && open_file.st_dev == named_file.st_dev;
}

}  // namespace

std::string TraceFile::Folder() const {
  const size_t slash = stem.rfind('/');
  return slash == std::string::npos ? std::string(".") : stem.substr(0, slash + 1);
}

TraceFile TraceFileOf(const std::string& path) {
  TraceFile file{path};
  if (!RemoveSuffix(&file.stem, ".live.db")) RemoveSuffix(&file.stem, ".db");
  return file;
}

TraceFile NewTraceFile(const std::string& folder) {
  std::array<char, 256> host = {};
  if (gethostname(host.data(), host.size() - 1) != 0) host = {'h', 'o', 's', 't'};
  const std::string base = fmt::format("{}/trace-{}-{}", folder, host.data(), getpid());
  TraceFile file{base};
  // A container may give the same process id again.
  for (int attempt = 2; Exists(file.LivePath()) || Exists(file.FinishedPath()); ++attempt) {
    file.stem = fmt::format("{}-{}", base, attempt);
  }
  return file;
}

Result<TraceLock> TraceLock::TryTake(const TraceFile& file) {
  const std::string path = file.LockPath();
  while (true) {
    const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor < 0) {
      return Status::Error(fmt::format("cannot create {}: {}", path, SystemError()));
    }
    TraceLock lock;
    lock.path_ = path;
    lock.descriptor_ = descriptor;
    if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) return TraceLock();
    if (SameFile(descriptor, path)) return lock;
  }
}

TraceLock::TraceLock(TraceLock&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

TraceLock& TraceLock::operator=(TraceLock&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

TraceLock::~TraceLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

void TraceLock::RemoveAndRelease() {
  if (descriptor_ < 0) return;
  unlink(path_.c_str());
  close(descriptor_);
  descriptor_ = -1;
}

bool WriterLives(const TraceFile& file) {
  Result<TraceLock> lock = TraceLock::TryTake(file);
  if (!lock.ok()) return false;
  if (!lock->held()) return true;
  lock->RemoveAndRelease();
  return false;
}

bool Exists(const std::string& path) {
  struct stat file = {};
  return stat(path.c_str(), &file) == 0;
}

bool CanWrite(const std::string& folder) { return access(folder.c_str(), W_OK) == 0; }

std::string SystemError() { return std::strerror(errno); }  // NOLINT: one thread reads it at once

}  // namespace shardscope::store
