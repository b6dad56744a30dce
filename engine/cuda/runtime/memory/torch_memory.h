// TorchMemory: LibTorch's CUDA caching allocator, heard block by block, and the driver. Nothing of
// CUDA's side of LibTorch is linked: its allocator is found in the library that is loaded.
#pragma once

#include <memory>
#include <string>

#include "engine/cuda/device/runtime_api.h"
#include "engine/cuda/runtime/memory/device_memory.h"

namespace shardscope::cuda {

// One a process: who listens to the allocator listens to its end.
class TorchMemory final : public DeviceMemory {
 public:
  // Once LibTorch has initialised CUDA, and before it allocates anything.
  explicit TorchMemory(const RuntimeApi& api);

  // Why blocks are not known; empty if they are.
  const std::string& why_not() const { return why_not_; }

  // What the calling thread allocates from now on is `rank`'s, whoever gives it back.
  static void EnterThread(int rank);

  int64_t HandedOut(int rank) const override;
  int64_t Reserved(c10::Device device) const override;
  int64_t InUse() const override;

 private:
  const RuntimeApi api_;
  const std::string why_not_;
};

}  // namespace shardscope::cuda
