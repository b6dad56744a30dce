// A checkpoint to read: which parameters it has, and their elements, each range where it is wanted.
// Files are memory-mapped, so that a reader takes from the disk what it asks for and no more, and
// what it takes is checked against the index.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/checkpoint/index.h"
#include "trace/base/mapped_file.h"
#include "trace/base/status.h"

namespace shardscope::checkpoint {

// Threads: any; const methods together.
class Checkpoint {
 public:
  // `folder`: of one checkpoint. Errors: none there, half written, damaged, a file that is missing
  // or has another length, of a newer version.
  static Result<Checkpoint> Open(const std::string& folder);

  const std::string& folder() const { return folder_; }
  const Index& index() const { return index_; }

  // The elements of `runs` of a tensor of this checkpoint, in that order, in the tensor's dtype;
  // `out` has room for them. Errors: a block whose checksum is another one; they name another
  // checkpoint that is whole, where one lies beside this.
  Status Read(const TensorEntry& tensor, std::span<const ElementRun> runs, std::byte* out) const;
  // All of it, in row-major order.
  Result<std::vector<std::byte>> ReadAll(const ParameterEntry& parameter,
                                         std::string_view tensor = kParameter) const;
  // Bytes [first, first + count) of file `file`, checked.
  Result<std::span<const std::byte>> Bytes(int32_t file, int64_t first, int64_t count) const;

  // Checks every byte of the file `name`, if the index lists it.
  Status VerifyFile(std::string_view name) const;

 private:
  struct File {
    MappedFile bytes;
    std::unique_ptr<std::atomic<bool>[]> is_checked;  // by block
  };

  std::string folder_;
  Index index_;
  std::vector<File> files_;
};

}  // namespace shardscope::checkpoint
