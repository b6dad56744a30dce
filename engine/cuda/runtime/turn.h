// Rotary positions on a device in one kernel: LibTorch has no operation for them, and eight of its
// own would each read and write all heads. What a thread does is compiled for the CPU as well, so
// that the same code is tested without a GPU.
#pragma once

#include <cstdint>

#include "engine/cuda/device/runtime_api.h"
#include "engine/cuda/transport/arithmetic.h"
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

  SHARDSCOPE_HOST_DEVICE int64_t NumPairs() const { return batch * seq * parts * num_heads * half; }
};

// Pair number `pair`, channels fastest. Each product and sum is rounded by itself, as by operations
// on whole tensors.
template <typename Format>
SHARDSCOPE_HOST_DEVICE void TurnPair(const TurnTask& task, int64_t pair) {
  using Stored = typename Format::Stored;
  using Sum = typename Format::Sum;
  const int64_t channel = pair % task.half;
  int64_t rest = pair / task.half;
  const int64_t head = rest % task.num_heads;
  rest /= task.num_heads;
  const int64_t part = rest % task.parts;
  rest /= task.parts;
  const int64_t position = rest % task.seq;
  const int64_t sample = rest / task.seq;
  Stored* const at = static_cast<Stored*>(task.heads) + sample * task.batch_stride +
                     position * task.position_stride + part * task.part_stride +
                     head * task.head_stride + channel;
  const Sum* const angle = static_cast<const Sum*>(task.table) + position * 2 * task.half + channel;
  const Sum cosine = angle[0];
  const Sum sine = angle[task.half] * static_cast<Sum>(task.direction);
  const Sum first = Format::Load(at[0]);
  const Sum second = Format::Load(at[task.half]);
  at[0] = Format::Store(first * cosine - second * sine);
  at[task.half] = Format::Store(first * sine + second * cosine);
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
