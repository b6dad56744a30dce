// CudaWork: what the ops of one rank do on a device, with LibTorch. The counterpart of
// runtime::CpuWork, which computes on the CPU; what is the same is RankOps. Every op only puts
// work on its stream, the host waits for nothing, and what the host needs of a step it
// reads when the step has ended.
//
// Offload: gradients, state and weights that the host updates lie in pinned memory of the host.
// Copies of them are the GPU's work on streams of their own; what the host does with them (adding
// up, norm, update) is HostWork(), which a thread of CUDA does when the stream comes to it, so that
// no thread that issues waits. As a rule that thread is one for all streams of a GPU: virtual ranks
// update one after the other.
//
// Memory: buffers come from LibTorch's allocator of the device, or lie in one block at the places
// that PlaceBuffers() chose. A buffer of the allocator belongs to the stream that was current when
// it was allocated, and is given back when the executor says so (engine/cuda/device/reuse.h);
// nothing uses record_stream.
//
// Threads: as OpBodies says. On the CPU's executor (in tests) ops of different streams run at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "engine/cuda/device/reuse.h"
#include "engine/cuda/runtime/device_optimizer.h"
#include "engine/cuda/runtime/torch_memory.h"
#include "engine/runtime/ranks/rank_ops.h"

namespace shardscope::cuda {

// What a rank computes on.
struct DevicePlace {
  const model::SegmentModel* model = nullptr;  // shared by the ranks of a device; outlives them
  at::Device device = at::kCPU;
  bool uses_pool = false;  // buffers in one block
  // What allocator and driver say; null: nothing is known but what the ops count. As `model`.
  const DeviceMemory* memory = nullptr;
  bool is_first_of_device = true;  // which reports what the ranks of a device share
};

class CudaWork final : public runtime::RankOps {
 public:
  CudaWork(int rank, const DevicePlace& place, const runtime::RankContext& rank_context,
           model::Sampler sampler);
  ~CudaWork() override;

  int64_t Allocate(const executor::OpContext& context, plan::BufferId buffer) override;
  void Run(const executor::OpContext& context) override;
  std::function<void()> HostWork(const executor::OpContext& context) override;

  int64_t allocated_bytes() const override { return memory_.live_bytes(); }
  int64_t reserved_bytes() const override;
  int64_t device_used_bytes() const override;
  int64_t TakePeakBytes() override { return peak_bytes_.exchange(memory_.live_bytes()); }

 protected:
  void WithMemory(const std::function<void()>& work) override { OnDevice(work); }
  void OnSchedule(const plan::Schedule& schedule) override;
  void TakeBlock(plan::BufferId buffer, int64_t bytes) override;
  void GiveBlock(plan::BufferId buffer, int64_t bytes) override;
  std::byte* BlockOf(plan::BufferId buffer) override;
  void CountMemory(plan::MemoryCategory category, int64_t bytes) override;
  void AddLoss(const executor::OpContext& context, const at::Tensor& loss) override;
  // Throws if the gradient was not finite and no scaler skips the step, or if the transport was
  // aborted: a collective that was ended in its middle leaves the GPU no error behind. What the
  // allocator handed out beyond what the ops account for (workspaces of libraries, as a rule in the
  // first step) is counted from then on.
  int64_t Finish() override;
  void Unscale(const executor::OpContext& context) override;
  void GradNorm(const executor::OpContext& context) override;
  void Optimizer(const executor::OpContext& context) override;
  void Communicate(const executor::OpContext& context, const Collective& collective) override;
  void Forward(const executor::OpContext& context) override;

 private:
  // As RankOps::Guarded, and what LibTorch says of a CUDA error as the executor's own calls would.
  static void OnDevice(const std::function<void()>& work);

  // Of the running Schedule: whether the host updates, and which transient buffers are in its
  // memory: those of what it updates, and the scalars that it writes, which the GPU reaches there.
  bool IsInHostMemory(const plan::Buffer& buffer) const;
  bool IsPlacedOnHost(plan::BufferId buffer) const {
    return host_placement_.offsets[static_cast<size_t>(buffer)] != kNotPlaced;
  }
  void PlaceHostBuffers(const plan::Schedule& schedule);

  // What the allocator handed out and is not counted yet; counts it.
  int64_t CountUnaccounted();

  c10::DataPtr& BlockAt(plan::BufferId buffer) { return blocks_[static_cast<size_t>(buffer)]; }
  // One fp64.
  at::Tensor ScalarAt(plan::BufferId buffer) {
    return runtime::FlatView({BlockOf(buffer), at::kDouble, device_}, 0, 1);
  }

  const DevicePlace place_;
  std::atomic<int64_t> peak_bytes_{0};
  at::Tensor loss_;       // sum of the step's micro-batch losses, divided by their number
  at::Tensor norm_;       // of the gradient, before clipping
  at::Tensor found_inf_;  // above 0: it is not finite
  // Of this step, once an optimizer op has made them on this stream.
  std::optional<UpdateScalars> scalars_;
  int64_t scalars_step_ = -1;
  void* scalars_stream_ = nullptr;
  std::vector<c10::DataPtr> blocks_;  // by BufferId, of transient buffers
  Placement placement_;               // with uses_pool
  c10::DataPtr pool_;
  bool updates_on_host_ = false;
  Placement host_placement_;  // of transient buffers in the host's memory
  at::Tensor host_pool_;      // pinned where there is a GPU
};

}  // namespace shardscope::cuda
