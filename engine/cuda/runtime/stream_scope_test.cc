// StreamScope with a device of the test's own in LibTorch's registry.
#include "engine/cuda/runtime/stream_scope.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <gtest/gtest.h>

#include <vector>

namespace shardscope::cuda {
namespace {

const c10::Device kDevice(c10::DeviceType::PrivateUse1, 0);

std::vector<c10::StreamId>& Streams() {
  static std::vector<c10::StreamId> streams = {0};
  return streams;
}

struct FakeGuard final : c10::impl::NoOpDeviceGuardImpl<c10::DeviceType::PrivateUse1> {
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override {
    const c10::StreamId before = Streams().back();
    Streams().push_back(stream.id());
    return c10::Stream(c10::Stream::UNSAFE, kDevice, before);
  }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, FakeGuard);

TEST(StreamScope, SetsAndRestores) {
  int handle = 0;  // an address, as a cudaStream_t is
  int inner_handle = 0;
  {
    const StreamScope scope(kDevice, &handle);
    EXPECT_EQ(Streams().back(), reinterpret_cast<intptr_t>(&handle));
    {
      const StreamScope inner(kDevice, &inner_handle);
      EXPECT_EQ(Streams().back(), reinterpret_cast<intptr_t>(&inner_handle));
    }
    EXPECT_EQ(Streams().back(), reinterpret_cast<intptr_t>(&handle));
  }
  EXPECT_EQ(Streams().back(), 0);
}

TEST(StreamScope, NothingHappensWithoutStreamOrOnTheCpu) {
  const size_t before = Streams().size();
  int handle = 0;
  {
    const StreamScope no_stream(kDevice, nullptr);
    const StreamScope cpu(c10::Device(c10::kCPU), &handle);
  }
  EXPECT_EQ(Streams().size(), before);
}

}  // namespace
}  // namespace shardscope::cuda
