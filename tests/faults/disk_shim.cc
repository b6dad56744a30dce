// LD_PRELOAD: a disk that fails, for the tests in this folder. Without root there is no other way
// to fill a disk or to slow it down while a program runs.
//
// Acts on files below $DISK_SHIM_FOLDER, as the file $DISK_SHIM_CONTROL says at that moment:
//   full           writing fails with ENOSPC
//   room <bytes>   the folder's files may have so many bytes together, then as full
//   read-only      writing, creating, renaming and removing fail with EROFS, and access() says so
//   slow <ms>      writing and syncing take that long
//   anything else  nothing
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

namespace {

std::string Control() {
  const char* path = std::getenv("DISK_SHIM_CONTROL");
  if (path == nullptr) return "";
  // By system call: open() is one of the functions replaced here.
  const auto descriptor = static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, O_RDONLY));
  if (descriptor < 0) return "";
  std::array<char, 64> text = {};
  const ssize_t bytes = read(descriptor, text.data(), text.size() - 1);
  syscall(SYS_close, descriptor);
  return bytes > 0 ? std::string(text.data(), static_cast<size_t>(bytes)) : "";
}

bool Inside(std::string_view path) {
  const char* folder = std::getenv("DISK_SHIM_FOLDER");
  return folder != nullptr && path.substr(0, std::strlen(folder)) == folder;
}

bool Inside(int descriptor) {
  std::array<char, 4096> path = {};
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t bytes = readlink(link.c_str(), path.data(), path.size() - 1);
  return bytes > 0 && Inside(std::string_view(path.data(), static_cast<size_t>(bytes)));
}

// Whether writing to a file below the folder fails now; sets errno. Slow is slow here.
bool WritingFails() {
  const std::string control = Control();
  if (control.starts_with("full")) errno = ENOSPC;
  if (control.starts_with("read-only")) errno = EROFS;
  int ms = 0;
  if (std::sscanf(control.c_str(), "slow %d", &ms) == 1) {
    const timespec time = {ms / 1000, ms % 1000 * 1'000'000L};
    nanosleep(&time, nullptr);
  }
  return control.starts_with("full") || control.starts_with("read-only");
}

// Bytes of the files in the folder, without those of its folders.
int64_t FolderBytes() {
  int64_t bytes = 0;
  DIR* folder = opendir(std::getenv("DISK_SHIM_FOLDER"));
  while (const dirent* entry = folder == nullptr ? nullptr : readdir(folder)) {
    struct stat file = {};
    if (fstatat(dirfd(folder), entry->d_name, &file, 0) == 0 && S_ISREG(file.st_mode)) {
      bytes += file.st_size;
    }
  }
  if (folder != nullptr) closedir(folder);
  return bytes;
}

// Whether `bytes` more at `offset` (negative: where the descriptor stands) are more than the folder
// may have.
bool GrowingFails(int descriptor, off_t offset, size_t bytes) {
  long room = 0;
  if (std::sscanf(Control().c_str(), "room %ld", &room) != 1) return false;
  struct stat file = {};
  if (fstat(descriptor, &file) != 0) return false;
  if (offset < 0) offset = lseek(descriptor, 0, SEEK_CUR);
  const int64_t growth = offset + static_cast<int64_t>(bytes) - file.st_size;
  if (growth <= 0 || FolderBytes() + growth <= room) return false;
  errno = ENOSPC;
  return true;
}

bool ChangingFails(const char* path) {
  if (!Inside(std::string_view(path)) || !Control().starts_with("read-only")) return false;
  errno = EROFS;
  return true;
}

template <typename Function>
Function Real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

ssize_t write(int descriptor, const void* data, size_t bytes) {
  if (Inside(descriptor) && (WritingFails() || GrowingFails(descriptor, -1, bytes))) return -1;
  return syscall(SYS_write, descriptor, data, bytes);
}

ssize_t pwrite64(int descriptor, const void* data, size_t bytes, off64_t offset) {
  if (Inside(descriptor) && (WritingFails() || GrowingFails(descriptor, offset, bytes))) return -1;
  return syscall(SYS_pwrite64, descriptor, data, bytes, offset);
}
ssize_t pwrite(int descriptor, const void* data, size_t bytes, off_t offset) {
  return pwrite64(descriptor, data, bytes, offset);
}

int ftruncate64(int descriptor, off64_t bytes) noexcept {
  if (Inside(descriptor) && WritingFails()) return -1;
  return static_cast<int>(syscall(SYS_ftruncate, descriptor, bytes));
}
int ftruncate(int descriptor, off_t bytes) noexcept { return ftruncate64(descriptor, bytes); }

int fsync(int descriptor) {
  if (Inside(descriptor) && WritingFails()) return -1;
  return static_cast<int>(syscall(SYS_fsync, descriptor));
}
int fdatasync(int descriptor) {
  if (Inside(descriptor) && WritingFails()) return -1;
  return static_cast<int>(syscall(SYS_fdatasync, descriptor));
}

int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  if ((flags & (O_CREAT | O_WRONLY | O_RDWR)) != 0 && ChangingFails(path)) return -1;
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}
int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return open64(path, flags, mode);
}

int access(const char* path, int mode) noexcept {
  if ((mode & W_OK) != 0 && ChangingFails(path)) return -1;
  return static_cast<int>(syscall(SYS_faccessat, AT_FDCWD, path, mode));
}
int mkdir(const char* path, mode_t mode) noexcept {
  if (ChangingFails(path)) return -1;
  return static_cast<int>(syscall(SYS_mkdir, path, mode));
}
int rename(const char* from, const char* to) noexcept {
  if (ChangingFails(to)) return -1;
  return static_cast<int>(syscall(SYS_rename, from, to));
}
int unlink(const char* path) noexcept {
  if (ChangingFails(path)) return -1;
  return static_cast<int>(syscall(SYS_unlink, path));
}

FILE* fopen64(const char* path, const char* mode) {
  if (mode[0] != 'r' && ChangingFails(path)) return nullptr;
  static const auto real = Real<FILE* (*)(const char*, const char*)>("fopen64");
  return real(path, mode);
}
FILE* fopen(const char* path, const char* mode) { return fopen64(path, mode); }

}  // extern "C"
