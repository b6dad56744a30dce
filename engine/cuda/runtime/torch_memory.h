// What a device's allocator and driver say of its memory, beside what the ops count.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <string>

#include "engine/cuda/device/runtime_api.h"

namespace shardscope::cuda {

// Threads: any.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  // Bytes that the threads of `rank` asked LibTorch's allocator for and that have not been given
  // back; -1: not known.
  virtual int64_t HandedOut(int rank) const = 0;
  // What the allocator holds from the driver.
  virtual int64_t Reserved(c10::Device device) const = 0;
  // Taken of the device's memory: by contexts, libraries and other processes, too. -1: not known.
  // On a thread whose device it is.
  virtual int64_t InUse() const = 0;
};

// LibTorch's CUDA caching allocator, heard block by block, and the driver. Nothing of CUDA's side
// of LibTorch is linked: its allocator is found in the library that is loaded. One a process: what
// listens to the allocator does so to its end.
class TorchMemory final : public DeviceMemory {
 public:
  // Once LibTorch has initialised CUDA, and before it allocates anything.
  explicit TorchMemory(const RuntimeApi& api);

  // Why blocks are not known; empty if they are.
  const std::string& why_not() const { return why_not_; }

  // What the calling thread allocates from now on is `rank`'s, whichever thread gives it back.
  static void EnterThread(int rank);

  int64_t HandedOut(int rank) const override;
  int64_t Reserved(c10::Device device) const override;
  int64_t InUse() const override;

 private:
  const RuntimeApi api_;
  const std::string why_not_;
};

}  // namespace shardscope::cuda
