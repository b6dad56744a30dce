#include "engine/cuda/runtime/stream_scope.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace shardscope::cuda {

StreamScope::StreamScope(c10::Device device, void* stream) {
  if (device.is_cpu() || stream == nullptr) return;
  const auto id = static_cast<c10::StreamId>(reinterpret_cast<intptr_t>(stream));
  before_ = c10::impl::getDeviceGuardImpl(device.type())
                ->exchangeStream(c10::Stream(c10::Stream::UNSAFE, device, id));
}

StreamScope::~StreamScope() {
  if (before_) c10::impl::getDeviceGuardImpl(before_->device_type())->exchangeStream(*before_);
}

}  // namespace shardscope::cuda
