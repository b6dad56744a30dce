// The kernel of turn.h, and its launch.
#include "engine/cuda/runtime/turn.h"

#include <cuda_runtime.h>

#include <string>

namespace shardscope::cuda {
namespace {

constexpr int kThreads = 256;

template <typename Format>
__global__ void __launch_bounds__(kThreads) TurnKernel(const __grid_constant__ TurnTask task) {
  TurnRow<Format>(task, blockIdx.x, {threadIdx.x, blockDim.x});
}

}  // namespace

void LaunchTurnKernel(const TurnTask& task, Stream stream) {
  if (task.NumRows() == 0) return;
  WithFormat(task.dtype, [&]<typename Format>(Format) {
    TurnKernel<Format>
        <<<static_cast<unsigned>(task.NumRows()), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
            task);
  });
  const cudaError_t code = cudaGetLastError();
  if (code == cudaSuccess) return;
  throw RuntimeError(std::string("launch of the kernel of rotary positions: ") +
                     cudaGetErrorString(code) + " (CUDA error " +
                     std::to_string(static_cast<int>(code)) + ")");
}

}  // namespace shardscope::cuda
