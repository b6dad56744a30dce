#include "trace/base/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "trace/base/round_up.h"

namespace shardscope {
namespace {

Status CannotRead(const std::string& path) {
  return Status::Error(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
}

Result<std::span<const std::byte>> Map(const std::string& path, int descriptor) {
  struct stat status = {};
  if (fstat(descriptor, &status) != 0) return CannotRead(path);
  if (S_ISDIR(status.st_mode)) return Status::Error(path + " is a folder: name a file in it");
  if (!S_ISREG(status.st_mode)) {
    return Status::Error(path + " is a pipe or a device: copy what it gives into a file first");
  }
  const auto size = static_cast<size_t>(status.st_size);
  if (size == 0) return std::span<const std::byte>();
  void* const data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (data == MAP_FAILED) return CannotRead(path);
  return std::span(static_cast<const std::byte*>(data), size);
}

}  // namespace

Result<MappedFile> MappedFile::Open(const std::string& path) {
  // Not blocking: that is about pipes, which are refused.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (descriptor < 0) return CannotRead(path);
  const Result<std::span<const std::byte>> bytes = Map(path, descriptor);
  close(descriptor);
  if (!bytes.ok()) return bytes.status();
  return MappedFile(*bytes);
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::Forget(size_t first, size_t count) const {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t begin = RoundUp(first, page);
  const size_t end = (first + count) / page * page;
  if (end <= begin || end > bytes_.size()) return;
  madvise(const_cast<std::byte*>(bytes_.data()) + begin, end - begin, MADV_DONTNEED);
}

}  // namespace shardscope
