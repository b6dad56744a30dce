#include "trace/store/trace_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "trace/base/process.h"
#include "trace/base/regular_file.h"

namespace shardscope::store {
namespace {

bool RemoveSuffix(std::string* text, std::string_view suffix) {
  if (!text->ends_with(suffix)) return false;
  text->resize(text->size() - suffix.size());
  return true;
}

// The number in ".live.db" (1) or ".live.<number>.db" (2 and more).
std::optional<int64_t> SegmentOfEnding(std::string_view ending) {
  if (ending == ".live.db") return 1;
  constexpr std::string_view kStart = ".live.";
  constexpr std::string_view kEnd = ".db";
  if (!ending.starts_with(kStart) || !ending.ends_with(kEnd)) return std::nullopt;
  if (ending.size() <= kStart.size() + kEnd.size()) return std::nullopt;
  ending.remove_prefix(kStart.size());
  ending.remove_suffix(kEnd.size());
  int64_t segment = 0;
  const auto [end, error] =
      std::from_chars(ending.data(), ending.data() + ending.size(), segment, 10);
  if (error != std::errc() || end != ending.data() + ending.size()) return std::nullopt;
  // One way to write each number, as LivePath() does.
  if (segment < 2 || ending.front() == '0') return std::nullopt;
  return segment;
}

// What follows the stem in the names of all files of a trace.
std::vector<std::string> Endings(const TraceFile& file) {
  const std::string name = std::filesystem::path(file.stem).filename().string();
  std::vector<std::string> endings;
  std::error_code error;
  std::filesystem::directory_iterator it(file.Folder(), error);
  for (const std::filesystem::directory_iterator end; !error && it != end; it.increment(error)) {
    const std::string entry = it->path().filename().string();
    if (entry.starts_with(name)) endings.push_back(entry.substr(name.size()));
  }
  return endings;
}

// Of the lock file: a few hundred rare rows.
constexpr size_t kReserveBytes = 256 << 10;

int64_t FileBytes(const std::string& path) {
  struct stat file = {};
  return stat(path.c_str(), &file) == 0 ? file.st_size : 0;
}

// 0: no open file.
uint64_t InodeOfOpen(int descriptor) {
  struct stat file = {};
  return fstat(descriptor, &file) == 0 ? file.st_ino : 0;
}

// A fork copies the table of descriptors up to the highest: 32 KiB.
constexpr rlim_t kHighest = 4096;
// Room above the first for all that a recorder opens at once.
constexpr rlim_t kRoom = 64;

std::atomic<bool> are_high = false;

int OpenHigh(const char* path, int flags, int mode) {
  return KeptDescriptor(open(path, flags, mode));
}

}  // namespace

std::string TraceFile::Folder() const {
  const size_t slash = stem.rfind('/');
  return slash == std::string::npos ? std::string(".") : stem.substr(0, slash + 1);
}

std::string TraceFile::LivePath(int64_t segment) const {
  return segment == 1 ? stem + ".live.db" : fmt::format("{}.live.{}.db", stem, segment);
}

TraceFile TraceFileOf(const std::string& path) {
  const size_t ending = path.rfind(".live.");
  if (ending != std::string::npos && SegmentOfEnding(std::string_view(path).substr(ending))) {
    return TraceFile{path.substr(0, ending)};
  }
  TraceFile file{path};
  if (!RemoveSuffix(&file.stem, file.ending)) file.ending.clear();
  return file;
}

std::vector<int64_t> LiveSegments(const TraceFile& file) {
  std::vector<int64_t> segments;
  for (const std::string& ending : Endings(file)) {
    if (const auto segment = SegmentOfEnding(ending)) segments.push_back(*segment);
  }
  std::sort(segments.begin(), segments.end());
  return segments;
}

void RemoveLive(const TraceFile& file) {
  for (const std::string& ending : Endings(file)) {
    if (ending.starts_with(".live.")) unlink((file.stem + ending).c_str());
  }
}

void RemoveDatabase(const std::string& path) {
  unlink(path.c_str());
  unlink((path + "-wal").c_str());
  unlink((path + "-shm").c_str());
}

int64_t DatabaseBytes(const std::string& path) {
  return FileBytes(path) + FileBytes(path + "-wal") + FileBytes(path + "-shm");
}

TraceFile NewTraceFile(const std::string& folder) {
  const std::string base = fmt::format("{}/trace-{}-{}", folder, HostName(), getpid());
  TraceFile file{base};
  // A container may give the same process id again.
  for (int attempt = 2; !LiveSegments(file).empty() || Exists(file.FinishedPath()); ++attempt) {
    file.stem = fmt::format("{}-{}", base, attempt);
  }
  return file;
}

Result<TraceLock> TraceLock::TryTake(const TraceFile& file) {
  constexpr int kMostAttempts = 100;
  const std::string path = file.LockPath();
  int attempts = 0;
  while (true) {
    const int descriptor = KeptDescriptor(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (descriptor < 0) {
      return Status::Error(fmt::format("cannot create {}: {}", path, SystemError()));
    }
    TraceLock lock;
    lock.path_ = path;
    lock.descriptor_ = descriptor;
    lock.inode_ = InodeOfOpen(descriptor);
    if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
      // A process that asks whether a writer lives shares the lock for a moment; its holder shares
      // it with none.
      if (++attempts > kMostAttempts || flock(descriptor, LOCK_SH | LOCK_NB) != 0) {
        return TraceLock();
      }
      std::this_thread::sleep_for(std::chrono::microseconds(100) * attempts);
      continue;
    }
    // A finisher removes the lock file while it holds it.
    if (IsFileAt(descriptor, path)) return lock;
  }
}

TraceLock::TraceLock(TraceLock&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      inode_(other.inode_) {}

TraceLock& TraceLock::operator=(TraceLock&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(inode_, other.inode_);
  return *this;
}

TraceLock::~TraceLock() { Close(); }

bool TraceLock::IsOpen() const { return descriptor_ >= 0 && InodeOfOpen(descriptor_) == inode_; }

void TraceLock::Close() {
  if (IsOpen()) close(descriptor_);
  descriptor_ = -1;
}

// Zeros, as a file system may not keep room for what is only announced.
void TraceLock::Reserve() {
  const std::string zeros(kReserveBytes, '\0');
  if (pwrite(descriptor_, zeros.data(), zeros.size(), 0) < 0) ReleaseReserve();
}

void TraceLock::ReleaseReserve() {
  if (IsOpen()) static_cast<void>(!ftruncate(descriptor_, 0));
}

// Behind what is reserved. A write that finds room for a part says why only when it is tried again.
Status TraceLock::CheckRoom() const {
  struct stat file = {};
  if (!IsOpen() || fstat(descriptor_, &file) != 0) return Status::Ok();
  const std::string zeros(kReserveBytes, '\0');
  ssize_t written = 0;
  for (size_t done = 0; done < zeros.size(); done += static_cast<size_t>(written)) {
    written = pwrite(descriptor_, zeros.data() + done, zeros.size() - done,
                     file.st_size + static_cast<off_t>(done));
    if (written <= 0) break;
  }
  if (written >= 0) return Status::Ok();
  const int code = errno;
  if (code != ENOSPC && code != EDQUOT && code != EFBIG) return Status::Ok();
  return Status::Error(fmt::format("cannot write a trace in {}: {}: {}", TraceFile{path_}.Folder(),
                                   SystemError(),
                                   code == EFBIG ? "raise the limit of a file's size (ulimit -f)"
                                                 : "make room there, or name another folder"));
}

void TraceLock::RemoveAndRelease() {
  if (descriptor_ < 0) return;
  unlink(path_.c_str());
  Close();
}

Status SyncPath(const std::string& path, int flags) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | flags);
  if (descriptor < 0) return Status::Error(fmt::format("cannot open {}: {}", path, SystemError()));
  const int code = fsync(descriptor);
  const std::string error = code == 0 ? "" : SystemError();
  close(descriptor);
  if (code != 0) return Status::Error(fmt::format("cannot write {} to disk: {}", path, error));
  return Status::Ok();
}

// Asks without creating anything, so that it works on another user's run.
bool WriterLives(const TraceFile& file) {
  const int descriptor = open(file.LockPath().c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool held = flock(descriptor, LOCK_SH | LOCK_NB) != 0;
  close(descriptor);
  return held;
}

bool Exists(const std::string& path) {
  struct stat file = {};
  return stat(path.c_str(), &file) == 0;
}

bool CanWrite(const std::string& folder) { return access(folder.c_str(), W_OK) == 0; }

std::string SystemError() { return std::strerror(errno); }  // NOLINT: one thread reads it at once

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
