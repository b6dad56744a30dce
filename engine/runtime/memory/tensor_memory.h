// LibTorch's CPU tensors, allocated from the MemoryPool of the rank that makes them: every tensor
// byte is counted where LibTorch asks for it, whatever the Schedule says.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <memory>

#include "engine/runtime/memory/memory_pool.h"

namespace shardscope::runtime {

// Puts this allocator in the place of LibTorch's own, once per process; first thing in a run.
void InstallTensorMemory();

// While it lives, tensors that this thread makes come from `pool`. They may outlive the scope, and
// keep the pool alive then; any thread may free them.
class TensorScope {
 public:
  explicit TensorScope(const std::shared_ptr<MemoryPool>& pool);
  ~TensorScope();
  TensorScope(const TensorScope&) = delete;
  TensorScope& operator=(const TensorScope&) = delete;

 private:
  const std::shared_ptr<MemoryPool>* const before_;
};

// at::zeros({elements}, type), of which each page is made and cleared as it is first used: that of
// a large model's state takes longer than reading the model from disk.
at::Tensor LateZeros(int64_t elements, at::ScalarType type);

// What LibTorch allocates inside one op and gives back before it ends: from construction to
// Finish(), on one thread. Do not nest.
//
// Only the op's highest point is kept: a trace with every temporary would be larger than useful.
class TemporaryMemory {
 public:
  TemporaryMemory();

  // Bytes at the highest point, beyond what is still held now.
  int64_t Finish() const;
};

}  // namespace shardscope::runtime
