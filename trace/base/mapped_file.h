// A regular file as memory: for files that are large, and of which only parts are wanted.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "trace/base/status.h"

namespace shardscope {

// Read-only, mapped until it is destroyed; pages come from the disk as they are touched. A file
// that others make shorter meanwhile ends the process (SIGBUS): only for files that nothing writes
// to any more.
class MappedFile {
 public:
  // Errors name the path and the reason: not there, no right, a folder, a pipe or a device.
  static Result<MappedFile> Open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

  // The whole pages of this part may leave memory again.
  void Forget(size_t first, size_t count) const;

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> bytes_;
};

}  // namespace shardscope
