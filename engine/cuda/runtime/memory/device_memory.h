// DeviceMemory: what a device's allocator and driver say of its memory, beside what the ops count.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

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
  // Of the device's memory by anybody: contexts, libraries and other processes, too. -1: not known.
  // On a thread whose device it is.
  virtual int64_t InUse() const = 0;
};

}  // namespace shardscope::cuda
