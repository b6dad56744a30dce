// StreamScope: makes a stream of ours LibTorch's current one.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <optional>

namespace shardscope::cuda {

// While it lives, LibTorch's operations and allocations of this thread go to `stream` (a
// cudaStream_t) of `device`. Without effect for the CPU, or without a stream. Do not let it pass to
// another thread.
//
// It uses LibTorch through the interface that all devices share, so that nothing here links
// libc10_cuda. That a CUDA stream's id is its handle is what getStreamFromExternal() relies on
// (c10/cuda/CUDAStream.cpp); handles are even, ids of LibTorch's own streams odd.
class StreamScope {
 public:
  StreamScope(c10::Device device, void* stream) {
    if (device.is_cpu() || stream == nullptr) return;
    const auto id = static_cast<c10::StreamId>(reinterpret_cast<intptr_t>(stream));
    before_ = c10::impl::getDeviceGuardImpl(device.type())
                  ->exchangeStream(c10::Stream(c10::Stream::UNSAFE, device, id));
  }
  ~StreamScope() {
    if (before_) c10::impl::getDeviceGuardImpl(before_->device_type())->exchangeStream(*before_);
  }

  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  std::optional<c10::Stream> before_;
};

// LibTorch's current stream of `device` on this thread (a cudaStream_t), while it is one of ours or
// the default one.
inline void* CurrentStream(c10::Device device) {
  const c10::StreamId id = c10::impl::getDeviceGuardImpl(device.type())->getStream(device).id();
  return reinterpret_cast<void*>(static_cast<intptr_t>(id));
}

}  // namespace shardscope::cuda
