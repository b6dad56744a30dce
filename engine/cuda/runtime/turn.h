// Rotary positions on a device in one kernel: LibTorch has no operation for them, and eight of its
// own would each read and write all heads. What a thread does is compiled for the CPU as well, so
// that the same code is tested without a GPU.
#pragma once

#include <cstdint>

#include "engine/cuda/device/runtime_api.h"
#include "engine/cuda/transport/arithmetic.h"
#include "engine/cuda/transport/block_work.h"
#include "engine/plan/op.h"

namespace shardscope::cuda {

// Turns heads [batch, seq, parts, heads, 2 half] in place by their positions' angles: channel i
// together with channel i + half. Channels are contiguous; strides count elements.
struct TurnTask {
  void* heads = nullptr;
  const void* table = nullptr;  // cos, sin: [seq, 2, half] in the type in which heads are computed
  double direction = 1;         // -1: back
  plan::DType dtype = plan::DType::kFp32;  // of heads
  int64_t batch = 0;
  int64_t seq = 0;
  int64_t parts = 0;
  int64_t num_heads = 0;
  int64_t half = 0;
  int64_t batch_stride = 0;
  int64_t position_stride = 0;
  int64_t part_stride = 0;
  int64_t head_stride = 0;

  SHARDSCOPE_HOST_DEVICE int64_t NumRows() const { return batch * seq; }
};

// The thread's part of all heads of one position: row = sample * seq + position. Each product and
// sum is rounded by itself, as by operations on whole tensors. In 32 bits, whose division a GPU has
// to do less for.
template <typename Format>
SHARDSCOPE_HOST_DEVICE void TurnRow(const TurnTask& task, int64_t row, BlockThread thread) {
  using Stored = typename Format::Stored;
  using Sum = typename Format::Sum;
  const auto half = static_cast<uint32_t>(task.half);
  const auto num_heads = static_cast<uint32_t>(task.num_heads);
  const uint32_t pairs = static_cast<uint32_t>(task.parts) * num_heads * half;
  const int64_t position = row % task.seq;
  Stored* const of_row = static_cast<Stored*>(task.heads) + row / task.seq * task.batch_stride +
                         position * task.position_stride;
  const Sum* const angles = static_cast<const Sum*>(task.table) + position * 2 * task.half;
  for (uint32_t pair = thread.index; pair < pairs; pair += thread.count) {
    const uint32_t channel = pair % half;
    const uint32_t head = pair / half % num_heads;
    const uint32_t part = pair / half / num_heads;
    Stored* const at = of_row + part * task.part_stride + head * task.head_stride + channel;
    const Sum cosine = angles[channel];
    const Sum sine = angles[half + channel] * static_cast<Sum>(task.direction);
    const Sum first = Format::Load(at[0]);
    const Sum second = Format::Load(at[half]);
    at[0] = Format::Store(first * cosine - second * sine);
    at[half] = Format::Store(first * sine + second * cosine);
  }
}

// Calls `run` with the Format of `dtype`.
template <typename Run>
void WithFormat(plan::DType dtype, const Run& run) {
  switch (dtype) {
    case plan::DType::kFp32:
      return run(Fp32Format());
    case plan::DType::kBf16:
      return run(Bf16Format());
    case plan::DType::kFp16:
      return run(Fp16Format());
    case plan::DType::kFp64:
      return run(Fp64Format());
  }
}

// Puts the task on a stream of the device that is current. Throws RuntimeError if that fails.
using LaunchTurn = void (*)(const TurnTask& task, Stream stream);
void LaunchTurnKernel(const TurnTask& task, Stream stream);  // turn.cu

}  // namespace shardscope::cuda
