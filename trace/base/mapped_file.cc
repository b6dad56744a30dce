#include "trace/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "trace/base/regular_file.h"
#include "trace/base/round_up.h"

namespace shardscope {
namespace {

Result<std::span<const std::byte>> Map(const std::string& path, int descriptor) {
  struct stat status = {};
  if (fstat(descriptor, &status) != 0) return CannotReadFile(path);
  SHARDSCOPE_RETURN_IF_ERROR(CheckRegularFile(path, status));
  const auto size = static_cast<size_t>(status.st_size);
  if (size == 0) return std::span<const std::byte>();
  void* const data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (data == MAP_FAILED) return CannotReadFile(path);
  return std::span(static_cast<const std::byte*>(data), size);
}

}  // namespace

Result<MappedFile> MappedFile::Open(const std::string& path) {
  // Not blocking: that is about pipes, which are refused.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (descriptor < 0) return CannotReadFile(path);
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
