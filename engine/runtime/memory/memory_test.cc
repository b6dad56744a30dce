// The pool of one rank and the tensors from it.
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <unistd.h>
#include <csignal>
#include <cstring>
#include <string>
#include <thread>

#include "engine/runtime/memory/memory_pool.h"
#include "engine/runtime/memory/tensor_memory.h"
#include "engine/runtime/memory/tensor_memory_test_util.h"

namespace shardscope::runtime {
namespace {

constexpr size_t kLarge = MemoryPool::kLargeBytes;

TEST(MemoryPoolTest, KeepsLargeBlocksBySizeUntilTrimmed) {
  MemoryPool pool({});
  std::byte* block = pool.Allocate(kLarge);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % kAlignment, 0u);
  pool.Free(block, kLarge);
  EXPECT_EQ(pool.allocated_bytes(), 0);
  EXPECT_EQ(pool.reserved_bytes(), static_cast<int64_t>(kLarge));
  EXPECT_EQ(pool.Allocate(kLarge), block);
  pool.Free(block, kLarge);
  pool.Trim();
  EXPECT_EQ(pool.reserved_bytes(), 0);
}

TEST(MemoryPoolTest, CountsWhatWasAskedFor) {
  MemoryPool pool({});
  std::byte* small = pool.Allocate(1, kAlignment);
  std::byte* large = pool.Allocate(kLarge + 1, kAlignment);
  EXPECT_EQ(pool.allocated_bytes(), static_cast<int64_t>(kLarge) + 2);
  std::memset(large - kAlignment, 1, kAlignment + kLarge + 1);
  pool.Free(small, 1, kAlignment);
  pool.Free(large, kLarge + 1, kAlignment);
  EXPECT_EQ(pool.allocated_bytes(), 0);
  EXPECT_EQ(pool.TakePeakBytes(), static_cast<int64_t>(kLarge) + 2);
}

TEST(MemoryPoolTest, WhatRecentStepsDidNotUseGoesBack) {
  MemoryPool pool({});
  const auto use = [&pool](int blocks) {
    std::vector<std::byte*> used;
    for (int i = 0; i < blocks; ++i) used.push_back(pool.Allocate(kLarge));
    for (std::byte* block : used) pool.Free(block, kLarge);
    pool.EndStep();
    return pool.reserved_bytes() / static_cast<int64_t>(kLarge);
  };
  EXPECT_EQ(use(5), 5);
  // A step that needs all of them in time keeps them.
  for (int step = 1; step < 4 * MemoryPool::kStepsKept; ++step) {
    EXPECT_EQ(use(step % MemoryPool::kStepsKept == 1 ? 5 : 2), 5);
  }
  int64_t kept = 0;
  for (int step = 0; step < 2 * MemoryPool::kStepsKept; ++step) kept = use(2);
  EXPECT_EQ(kept, 2);
}

TEST(MemoryPoolTest, ResidentMemoryFollows) {
  constexpr size_t kBytes = 64 << 20;
  MemoryPool pool({});
  const int64_t before = ResidentBytes();
  std::byte* block = pool.Allocate(kBytes);
  std::memset(block, 1, kBytes);
  EXPECT_GT(ResidentBytes(), before + static_cast<int64_t>(kBytes) / 2);
  pool.Free(block, kBytes);
  pool.Trim();
  EXPECT_LT(ResidentBytes(), before + static_cast<int64_t>(kBytes) / 2);
}

TEST(MemoryPoolTest, RefusesToPassTheLimit) {
  MemoryPool pool({.rank = 3, .limit_bytes = 100});
  std::byte* block = pool.Allocate(80);
  EXPECT_THROW(pool.Allocate(21), std::runtime_error);
  EXPECT_EQ(pool.allocated_bytes(), 80);
  std::byte* rest = pool.Allocate(20);
  pool.Free(block, 80);
  pool.Free(rest, 20);
  EXPECT_EQ(pool.TakePeakBytes(), 100);
}

TEST(MemoryPoolDeathTest, FreedPagesAreInaccessibleWithPoison) {
  MemoryPool pool({.poison = true});
  std::byte* block = pool.Allocate(1000);
  float value = 0;
  std::memcpy(&value, block, sizeof(value));
  EXPECT_NE(value, value);  // NaN
  pool.Free(block, 1000);
  const auto read = [&] {
    std::signal(SIGSEGV, SIG_DFL);  // a sanitizer would report it
    std::memcpy(&value, block, sizeof(value));
  };
  EXPECT_DEATH(read(), "");
}

TEST(TensorMemoryTest, TensorsCountInTheScopesPoolWhoeverFreesThem) {
  InstallTensorMemory();
  const int64_t unscoped = UnscopedTensorBytes();
  auto pool = std::make_shared<MemoryPool>(MemoryPool::Options());
  at::Tensor small;
  at::Tensor large;
  {
    const TensorScope scope(pool);
    small = at::zeros({3}, at::kDouble);
    large = at::zeros({100'000}, at::kFloat);
  }
  EXPECT_EQ(reinterpret_cast<uintptr_t>(large.data_ptr()) % kAlignment, 0u);
  EXPECT_EQ(pool->allocated_bytes(), 24 + 400'000);
  EXPECT_EQ(UnscopedTensorBytes(), unscoped);
  const at::Tensor outside = at::zeros({5}, at::kFloat);
  EXPECT_EQ(UnscopedTensorBytes(), unscoped + 20);
  std::thread([&large] { large.reset(); }).join();
  EXPECT_EQ(pool->allocated_bytes(), 24);
  const std::weak_ptr<MemoryPool> observer = pool;
  pool.reset();
  EXPECT_FALSE(observer.expired());  // a tensor needs it
  small.reset();
  EXPECT_TRUE(observer.expired());
}

TEST(TensorMemoryTest, LateZerosAreZerosWhereverTheirPagesComeFrom) {
  InstallTensorMemory();
  const int64_t unscoped = UnscopedTensorBytes();
  for (const bool poison : {false, true}) {
    auto pool = std::make_shared<MemoryPool>(MemoryPool::Options{.poison = poison});
    for (int round = 0; round < 2; ++round) {  // what the first leaves is there for the second
      const TensorScope scope(pool);
      for (const int64_t elements : {0, 3, 100'000}) {
        at::Tensor zeros = LateZeros(elements, at::kFloat);
        EXPECT_EQ(zeros.dtype(), at::kFloat);
        EXPECT_EQ(zeros.sizes(), at::IntArrayRef({elements}));
        EXPECT_TRUE(zeros.eq(0).all().item<bool>()) << poison << round << elements;
        EXPECT_EQ(pool->allocated_bytes(), 4 * elements);
        zeros.fill_(7);
        zeros.reset();
        EXPECT_EQ(pool->allocated_bytes(), 0);
      }
    }
  }
  const at::Tensor outside = LateZeros(5, at::kDouble);
  EXPECT_TRUE(outside.eq(0).all().item<bool>());
  EXPECT_EQ(UnscopedTensorBytes(), unscoped + 40);
}

TEST(TensorMemoryTest, NewZerosTakeNoMemoryUntilTheyAreUsed) {
  constexpr int64_t kElements = 16 << 20;
  InstallTensorMemory();
  auto pool = std::make_shared<MemoryPool>(MemoryPool::Options());
  const TensorScope scope(pool);
  const int64_t before = ResidentBytes();
  const at::Tensor zeros = LateZeros(kElements, at::kFloat);
  EXPECT_LT(ResidentBytes(), before + 2 * kElements);
  zeros.fill_(1);
  EXPECT_GT(ResidentBytes(), before + 2 * kElements);
}

TEST(TensorMemoryTest, TemporariesAreTheHighestPointBeyondWhatIsKept) {
  InstallTensorMemory();
  const TemporaryMemory measured;
  const at::Tensor kept = at::zeros({100}, at::kDouble);
  {
    const at::Tensor first = at::zeros({1000}, at::kDouble);
    const at::Tensor second = at::zeros({500}, at::kDouble);
  }
  const at::Tensor later = at::zeros({50}, at::kDouble);
  EXPECT_EQ(measured.Finish(), 8 * (1600 - 150));
}

}  // namespace
}  // namespace shardscope::runtime
