// The kernels, and their launches. What a thread does is in block_work.h and arithmetic.h.
#include <cuda_runtime.h>

#include <algorithm>
#include <string>

#include "engine/cuda/transport/block_work.h"
#include "engine/cuda/transport/kernels.h"

namespace shardscope::cuda {
namespace {

constexpr int kThreads = 512;
// As few blocks as NCCL takes for a large collective: the rest of the GPU computes meanwhile.
constexpr uint64_t kBlocksPaced = 16;
constexpr uint64_t kBlocksUnpaced = 512;  // all of any GPU
// What a block moves between two looks at the clock.
constexpr uint64_t kChunkBytes = 64 << 10;

__device__ uint64_t NowNs() {
  uint64_t time;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
  return time;
}

// The whole block waits until `part` of the collective's bytes are due.
__device__ void KeepPace(const Pace& pace, double part) {
  if (pace.window == nullptr) return;
  __syncthreads();
  if (threadIdx.x == 0) {
    const LinkWindow window = *pace.window;
    const uint64_t due_ns = DueAt(window, pace.from + (pace.to - pace.from) * part);
    Spin spin{NowNs(), pace.limit_ns};
    uint32_t sleep_ns = 0;
    while (spin.WaitsOn(NowNs(), due_ns, &sleep_ns)) __nanosleep(sleep_ns);
  }
  __syncthreads();
}

__device__ BlockThread ThisThread() { return {threadIdx.x, blockDim.x}; }

// Arguments are read where the launch put them: taking the address of a copy would put that into
// every thread's own memory.
__global__ void __launch_bounds__(kThreads)
    CopyKernel(const __grid_constant__ CopyTask task, const __grid_constant__ Pace pace) {
  const uint64_t chunks = (task.bytes + kChunkBytes - 1) / kChunkBytes;  // of an input
  const uint64_t all = chunks * static_cast<uint64_t>(task.num_inputs);
  for (uint64_t chunk = blockIdx.x; chunk < all; chunk += gridDim.x) {
    const uint64_t input = chunk / chunks;
    const uint64_t begin = chunk % chunks * kChunkBytes;
    const char* from = static_cast<const char*>(task.inputs[input]) + begin;
    char* to = static_cast<char*>(task.output) + input * task.bytes + begin;
    const uint64_t left = task.bytes - begin;
    if (to != from) CopyBytes(to, from, left < kChunkBytes ? left : kChunkBytes, ThisThread());
    KeepPace(pace, static_cast<double>(chunk + 1) / static_cast<double>(all));
  }
}

template <typename Format>
__global__ void __launch_bounds__(kThreads)
    SumKernel(const __grid_constant__ SumTask task, const __grid_constant__ Pace pace) {
  constexpr uint64_t kChunk = kChunkBytes / sizeof(typename Format::Stored);
  const uint64_t chunks = (task.elements + kChunk - 1) / kChunk;
  for (uint64_t chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {
    const uint64_t begin = chunk * kChunk;
    const uint64_t end = begin + kChunk < task.elements ? begin + kChunk : task.elements;
    SumElements<Format>(task, begin, end, ThisThread());
    KeepPace(pace, static_cast<double>(chunk + 1) / static_cast<double>(chunks));
  }
}

// One thread. Collectives of other communicators may reserve at the same moment.
__global__ void ReserveKernel(LinkWires* wires, LinkWindow* window, LinkRequest request) {
  const uint64_t arrival_ns = NowNs();
  // Whoever holds the lock runs already, and lets go of it after a few reads and writes.
  while (atomicCAS(&wires->lock, 0U, 1U) != 0U) {
  }
  __threadfence();
  *window = ReserveWindow(arrival_ns, request, wires);
  __threadfence();
  atomicExch(&wires->lock, 0U);
}

__global__ void ClockKernel(uint64_t* step_ns) {
  uint64_t smallest = ~uint64_t{0};
  uint64_t last = NowNs();
  for (int i = 0; i < 100000; ++i) {
    const uint64_t now = NowNs();
    if (now > last && now - last < smallest) smallest = now - last;
    last = now;
  }
  *step_ns = smallest == ~uint64_t{0} ? 0 : smallest;
}

void CheckCuda(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  throw RuntimeError(std::string(what) + ": " + cudaGetErrorString(code) + " (CUDA error " +
                     std::to_string(static_cast<int>(code)) + ")");
}

unsigned BlocksFor(uint64_t bytes, const Pace& pace) {
  const uint64_t most = pace.window == nullptr ? kBlocksUnpaced : kBlocksPaced;
  return static_cast<unsigned>(
      std::clamp<uint64_t>((bytes + kChunkBytes - 1) / kChunkBytes, 1, most));
}

class RealKernels final : public Kernels {
 public:
  void Copy(const CopyTask& task, const Pace& pace, Stream stream) override {
    CopyKernel<<<BlocksFor(task.bytes * static_cast<uint64_t>(task.num_inputs), pace), kThreads, 0,
                 static_cast<cudaStream_t>(stream)>>>(task, pace);
    CheckCuda(cudaGetLastError(), "launch of the copy kernel");
  }

  void Sum(const SumTask& task, const Pace& pace, Stream stream) override {
    const unsigned blocks =
        BlocksFor(task.elements * static_cast<uint64_t>(plan::BytesOf(task.dtype)), pace);
    auto* const cuda_stream = static_cast<cudaStream_t>(stream);
    switch (task.dtype) {
      case plan::DType::kFp32:
        SumKernel<Fp32Format><<<blocks, kThreads, 0, cuda_stream>>>(task, pace);
        break;
      case plan::DType::kBf16:
        SumKernel<Bf16Format><<<blocks, kThreads, 0, cuda_stream>>>(task, pace);
        break;
      case plan::DType::kFp16:
        SumKernel<Fp16Format><<<blocks, kThreads, 0, cuda_stream>>>(task, pace);
        break;
      case plan::DType::kFp64:
        SumKernel<Fp64Format><<<blocks, kThreads, 0, cuda_stream>>>(task, pace);
        break;
    }
    CheckCuda(cudaGetLastError(), "launch of the sum kernel");
  }

  void Reserve(LinkWires* wires, LinkWindow* window, const LinkRequest& request,
               Stream stream) override {
    ReserveKernel<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(wires, window, request);
    CheckCuda(cudaGetLastError(), "launch of the link's kernel");
  }

  int64_t MeasureClockStepNs() override {
    uint64_t* step_ns = nullptr;
    uint64_t result = 0;
    CheckCuda(cudaMalloc(&step_ns, sizeof(*step_ns)), "cudaMalloc");
    ClockKernel<<<1, 1>>>(step_ns);
    const cudaError_t code = cudaMemcpy(&result, step_ns, sizeof(result), cudaMemcpyDeviceToHost);
    cudaFree(step_ns);
    CheckCuda(code, "reading the GPU's clock");
    return static_cast<int64_t>(result);
  }
};

}  // namespace

std::unique_ptr<Kernels> MakeKernels() { return std::make_unique<RealKernels>(); }

}  // namespace shardscope::cuda
