// What is heard of LibTorch's CUDA allocator, from a fake libc10_cuda.so; what the driver says,
// from the fake CUDA runtime.
#include "engine/cuda/runtime/torch_memory.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "tests/fake_cuda/fake_runtime_test_util.h"
#include "tests/fake_torch/fake_c10_cuda.h"

namespace shardscope::cuda {
namespace {

template <typename Function>
Function Find(const char* name) {
  static void* const library = dlopen(SHARDSCOPE_FAKE_C10_CUDA, RTLD_NOW);
  EXPECT_NE(library, nullptr) << dlerror();
  return reinterpret_cast<Function>(dlsym(library, name));
}

// Each case is a process of its own: who listens to the allocator cannot leave it.
template <typename Body>
void WithAllocator(FakeC10CudaKind kind, const Body& body) {
  EXPECT_EXIT(
      {
        Find<decltype(&FakeC10CudaReset)>("FakeC10CudaReset")(kind);
        Find<decltype(&FakeC10CudaInit)>("FakeC10CudaInit")();
        body();
        std::_Exit(testing::Test::HasFailure() ? 1 : 0);
      },
      testing::ExitedWithCode(0), "");
}

TEST(TorchMemoryDeathTest, CountsWhatEachRankAskedForWhoeverGivesItBack) {
  WithAllocator(kFakeCaching, [] {
    const auto allocate = Find<decltype(&FakeC10CudaAllocate)>("FakeC10CudaAllocate");
    const auto free = Find<decltype(&FakeC10CudaFree)>("FakeC10CudaFree");
    const TorchMemory memory(TheFake().api);
    EXPECT_EQ(memory.why_not(), "");
    allocate(7, 512);  // by a thread of no rank
    TorchMemory::EnterThread(0);
    void* const first = allocate(1000, 1024);
    void* second = nullptr;
    std::thread([&] {
      TorchMemory::EnterThread(1);
      second = allocate(300, 512);
      free(first, /*is_used=*/0);
      allocate(50, 512);
    }).join();
    EXPECT_EQ(memory.HandedOut(0), 0);
    EXPECT_EQ(memory.HandedOut(1), 350);
    EXPECT_EQ(memory.HandedOut(2), 0);
    free(second, /*is_used=*/1);  // given back, whoever still uses it
    EXPECT_EQ(memory.HandedOut(1), 50);
  });
}

TEST(TorchMemoryDeathTest, AnotherAllocatorIsNotKnown) {
  for (const FakeC10CudaKind kind : {kFakeAsync, kFakeUncached}) {
    WithAllocator(kind, [] {
      const TorchMemory memory(TheFake().api);
      EXPECT_NE(memory.why_not(), "");
      EXPECT_EQ(memory.HandedOut(0), -1);
    });
  }
}

TEST(TorchMemory, WithoutTheLibraryNothingIsKnown) {
  const TorchMemory memory(TheFake().api);
  EXPECT_NE(memory.why_not(), "");
  EXPECT_EQ(memory.HandedOut(0), -1);
}

TEST(TorchMemory, WhatIsInUseIsTheDriversFigure) {
  const RuntimeApi& api = TheFake().api;
  FakeOptions fake;
  TheFake().control->reset(&fake);
  const TorchMemory memory(api);
  const int64_t before = memory.InUse();
  void* block = nullptr;
  ASSERT_EQ(api.Malloc(&block, 12345), kSuccess);
  EXPECT_EQ(memory.InUse() - before, 12345);
  ASSERT_EQ(api.Free(block), kSuccess);
  EXPECT_EQ(memory.InUse(), before);
  fake.fail_call = "cudaMemGetInfo";
  fake.fail_code = 2;
  TheFake().control->reset(&fake);
  EXPECT_EQ(memory.InUse(), -1);
  EXPECT_EQ(api.GetLastError(), kSuccess);
}

}  // namespace
}  // namespace shardscope::cuda
