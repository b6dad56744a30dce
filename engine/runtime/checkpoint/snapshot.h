// Snapshot: a copy of what one rank writes of the state between two steps, so that the next steps
// run while it is written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "engine/checkpoint/index.h"
#include "engine/runtime/units/state_layout.h"
#include "trace/base/status.h"

namespace shardscope::runtime {

// What is kept of parameter `index` from step to step, by name: its weights and what the optimizer
// keeps of them, in the order of ShardedUnit::state_tensors(). The rank's rows, padding included,
// as ShardedUnit::SliceOf() and StateValues().
std::vector<std::pair<std::string, at::Tensor>> StateTensorsOf(const ShardedUnit& unit,
                                                               size_t index);

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
    int64_t bytes = 0;
    at::Tensor source;  // only while the copy is made
  };
  void Plan(const StateLayout& layout, int rank, std::span<const ShardedUnit> units);
  // Rows of the whole parameter if it has them, else a list of elements.
  static std::vector<int64_t> ShapeOf(const Part& part);

  std::vector<Part> parts_;
  std::unique_ptr<std::byte[]> bytes_;
  int64_t capacity_ = 0;
};

}  // namespace shardscope::runtime
