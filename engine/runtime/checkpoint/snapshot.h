// Snapshot: a copy of what one rank writes of the state between two steps, so that the next steps
// run while it is written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "engine/checkpoint/folder.h"
#include "engine/checkpoint/index.h"
#include "engine/runtime/units/state_blocks.h"
#include "engine/runtime/units/state_layout.h"
#include "trace/base/status.h"

namespace shardscope::runtime {

class Snapshot {
 public:
  // On the rank's host thread, between two steps. Of state that several ranks hold each takes a
  // part, all parts of one length. Throws std::bad_alloc. The memory of the last call is used
  // again.
  void Take(const StateLayout& layout, int rank, std::span<const ShardedUnit> units);

  // The memory that it holds.
  int64_t capacity() const { return capacity_; }

  // Writes the file `folder`/`name`, a tensor for each part. Returns its entry, and of each
  // parameter what lies in it.
  Result<checkpoint::Index> Write(const std::string& folder, const std::string& name) const;

 private:
  struct Part {
    std::string parameter;
    std::vector<int64_t> whole_shape;
    std::string tensor;
    std::string dtype;
    std::vector<checkpoint::ElementRun> runs;  // of the whole parameter
    int64_t offset = 0;                        // in bytes_
    at::Tensor source;                         // only while the copy is made
    // Of what is kept in blocks; it is copied as it is kept, and decoded while it is written.
    struct Scales {
      BlockRange range = BlockRange::kSigned;
      int64_t offset = 0;  // in bytes_
      at::Tensor source;   // as above
    };
    std::optional<Scales> blocks;
  };
  // Fills parts_, but for where their bytes are; MakeRoom() says that.
  void Plan(const StateLayout& layout, int rank, std::span<const ShardedUnit> units);
  void MakeRoom();
  checkpoint::TensorBytes BytesOf(const Part& part) const;
  // Rows of the whole parameter if it has them, else a list of elements.
  static std::vector<int64_t> ShapeOf(const Part& part);

  std::vector<Part> parts_;
  std::unique_ptr<std::byte[]> bytes_;
  int64_t capacity_ = 0;
};

}  // namespace shardscope::runtime
