#include "trace/base/input_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "trace/base/regular_file.h"
#include "trace/base/units.h"

namespace shardscope {
namespace {

// An open regular file.
class InputFile {
 public:
  static Result<InputFile> Open(const std::string& path) {
    // Not blocking: that is about pipes, which are refused below.
    InputFile file(path, open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
    struct stat status = {};
    if (file.descriptor_ < 0 || fstat(file.descriptor_, &status) != 0) return file.CannotRead();
    SHARDSCOPE_RETURN_IF_ERROR(CheckRegularFile(path, status));
    file.size_ = status.st_size;
    return file;
  }

  InputFile(InputFile&& other) noexcept
      : path_(std::move(other.path_)),
        descriptor_(std::exchange(other.descriptor_, -1)),
        size_(other.size_) {}
  InputFile& operator=(InputFile&&) = delete;
  ~InputFile() {
    if (descriptor_ >= 0) close(descriptor_);
  }

  int64_t size() const { return size_; }

  // At most so many bytes: fewer at the end of the file.
  Result<std::string> Read(int64_t offset, size_t max_bytes) const {
    constexpr size_t kBlock = size_t{1} << 16;
    std::string bytes;
    size_t filled = 0;
    while (filled < max_bytes) {
      // The size of a file in /proc, or of one that grows, is of no use.
      bytes.resize(std::min(max_bytes, filled + kBlock));
      const ssize_t count = pread(descriptor_, bytes.data() + filled, bytes.size() - filled,
                                  offset + static_cast<int64_t>(filled));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return CannotRead();
      if (count == 0) break;
      filled += static_cast<size_t>(count);
    }
    bytes.resize(filled);
    return bytes;
  }

 private:
  InputFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  Status CannotRead() const { return CannotReadFile(path_); }

  std::string path_;
  int descriptor_;
  int64_t size_ = 0;
};

}  // namespace

Result<std::string> ReadFile(const std::string& path, size_t max_bytes) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  Result<std::string> bytes = file.Read(0, max_bytes + 1);
  if (bytes.ok() && bytes->size() > max_bytes) {
    return Status::Error(fmt::format("{} is larger than {}: it is no file of this kind", path,
                                     FormatBytes(static_cast<int64_t>(max_bytes))));
  }
  return bytes;
}

Result<FileEnd> ReadFileEnd(const std::string& path, int64_t offset, size_t max_bytes) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  FileEnd end;
  end.offset = std::max(offset, file.size() - static_cast<int64_t>(max_bytes));
  Result<std::string> bytes = file.Read(end.offset, max_bytes);
  if (!bytes.ok()) return bytes.status();
  end.bytes = std::move(bytes).value();
  return end;
}

}  // namespace shardscope
