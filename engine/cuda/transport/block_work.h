// What one thread of a block does of a chunk that the block copies or sums: compiled for the GPU
// and for the CPU, so that the same code is tested without a GPU. No CUDA headers.
//
// Note: bytes on their way
// A trip to the GPU's memory takes some 700 ns. A multiprocessor whose 512 threads ask for 4 bytes
// each and wait reads 3 GB/s, and the 16 blocks of a paced collective 47 GB/s: less than a fast
// link that they are to emulate (a reduce-scatter of two ranks over 80 GB/s reads 160 GB/s). So a
// thread asks for kUnitsAtOnce units of up to 16 bytes before it uses the first: 32 KiB on their
// way in each block, by the same reckoning 750 GB/s in 16.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/cuda/transport/arithmetic.h"
#include "engine/cuda/transport/kernels.h"

// Of the device's compiler, which also passes the code on to the host's.
#ifdef __CUDA_ARCH__
#define SHARDSCOPE_UNROLL _Pragma("unroll")
#else
#define SHARDSCOPE_UNROLL
#endif

namespace shardscope::cuda {

inline constexpr int kUnitsAtOnce = 4;

// One load or store of a thread: 16 bytes, whatever they are.
struct alignas(16) [[gnu::may_alias]] Words {
  uint32_t first = 0;
  uint32_t second = 0;
  uint32_t third = 0;
  uint32_t fourth = 0;
};

// Which thread of its block it is.
struct BlockThread {
  uint32_t index = 0;
  uint32_t count = 1;  // threads of the block
};

// The bits that are set in any of the addresses: alignment that all have.
SHARDSCOPE_HOST_DEVICE inline uintptr_t BitsOf(const void* a, const void* b) {
  return reinterpret_cast<uintptr_t>(a) | reinterpret_cast<uintptr_t>(b);
}

// The thread's part of `count` units.
template <typename Unit>
SHARDSCOPE_HOST_DEVICE void CopyUnits(Unit* to, const Unit* from, uint64_t count,
                                      BlockThread thread) {
  const uint64_t stride = uint64_t{kUnitsAtOnce} * thread.count;
  for (uint64_t base = thread.index; base < count; base += stride) {
    Unit units[kUnitsAtOnce] = {};
    SHARDSCOPE_UNROLL
    for (int k = 0; k < kUnitsAtOnce; ++k) {
      const uint64_t unit = base + static_cast<uint64_t>(k) * thread.count;
      if (unit < count) units[k] = from[unit];
    }
    SHARDSCOPE_UNROLL
    for (int k = 0; k < kUnitsAtOnce; ++k) {
      const uint64_t unit = base + static_cast<uint64_t>(k) * thread.count;
      if (unit < count) to[unit] = units[k];
    }
  }
}

// The thread's part of [from, from + bytes); ranges do not overlap.
SHARDSCOPE_HOST_DEVICE inline void CopyBytes(char* to, const char* from, uint64_t bytes,
                                             BlockThread thread) {
  const uintptr_t bits = BitsOf(to, from);
  uint64_t done = 0;
  if ((bits & 15) == 0) {
    done = bytes / 16 * 16;
    CopyUnits(reinterpret_cast<Words*>(to), reinterpret_cast<const Words*>(from), bytes / 16,
              thread);
  } else if ((bits & 3) == 0) {
    struct [[gnu::may_alias]] Word {
      uint32_t bits = 0;
    };
    done = bytes / 4 * 4;
    CopyUnits(reinterpret_cast<Word*>(to), reinterpret_cast<const Word*>(from), bytes / 4, thread);
  }
  CopyUnits(to + done, from + done, bytes - done, thread);
}

// The thread's part of a sum over `count` units from element `first` on. The inputs are added in
// order, element by element: the first starts the sum, as adding it to zero would turn -0 into +0.
// All loads of a unit come before its store, so the output may be one of the inputs.
template <typename Format, typename Unit>
SHARDSCOPE_HOST_DEVICE void SumUnits(const SumTask& task, uint64_t first, uint64_t count,
                                     BlockThread thread) {
  using Stored = typename Format::Stored;
  using Sum = typename Format::Sum;
  constexpr int kLanes = sizeof(Unit) / sizeof(Stored);
  const auto scale = static_cast<Sum>(task.scale);
  const uint64_t stride = uint64_t{kUnitsAtOnce} * thread.count;
  for (uint64_t base = thread.index; base < count; base += stride) {
    Sum sums[kUnitsAtOnce][kLanes] = {};
    Stored lanes[kLanes] = {};
    for (int input = 0; input < task.num_inputs; ++input) {
      const auto* from =
          reinterpret_cast<const Unit*>(static_cast<const Stored*>(task.inputs[input]) + first);
      Unit units[kUnitsAtOnce] = {};
      SHARDSCOPE_UNROLL
      for (int k = 0; k < kUnitsAtOnce; ++k) {
        const uint64_t unit = base + static_cast<uint64_t>(k) * thread.count;
        if (unit < count) units[k] = from[unit];
      }
      SHARDSCOPE_UNROLL
      for (int k = 0; k < kUnitsAtOnce; ++k) {
        __builtin_memcpy(lanes, &units[k], sizeof(Unit));
        SHARDSCOPE_UNROLL
        for (int lane = 0; lane < kLanes; ++lane) {
          const Sum value = Format::Load(lanes[lane]);
          sums[k][lane] = input == 0 ? value : sums[k][lane] + value;
        }
      }
    }
    auto* to = reinterpret_cast<Unit*>(static_cast<Stored*>(task.output) + first);
    SHARDSCOPE_UNROLL
    for (int k = 0; k < kUnitsAtOnce; ++k) {
      SHARDSCOPE_UNROLL
      for (int lane = 0; lane < kLanes; ++lane) lanes[lane] = Format::Store(sums[k][lane] * scale);
      Unit result;
      __builtin_memcpy(&result, lanes, sizeof(Unit));
      const uint64_t unit = base + static_cast<uint64_t>(k) * thread.count;
      if (unit < count) to[unit] = result;
    }
  }
}

// The thread's part of elements [begin, end). A chunk starts at a multiple of 16 bytes from the
// pieces' starts.
template <typename Format>
SHARDSCOPE_HOST_DEVICE void SumElements(const SumTask& task, uint64_t begin, uint64_t end,
                                        BlockThread thread) {
  using Stored = typename Format::Stored;
  constexpr uint64_t kLanes = sizeof(Words) / sizeof(Stored);
  uintptr_t bits = BitsOf(task.output, task.output);
  for (int input = 0; input < task.num_inputs; ++input) bits |= BitsOf(task.inputs[input], nullptr);
  const uint64_t wide = (bits & 15) == 0 ? (end - begin) / kLanes : 0;
  SumUnits<Format, Words>(task, begin, wide, thread);
  SumUnits<Format, Stored>(task, begin + wide * kLanes, end - begin - wide * kLanes, thread);
}

}  // namespace shardscope::cuda
