// DeviceWork: what the ops of one rank do on a device, with LibTorch. The counterpart of
// runtime::RankBodies, which computes on the CPU: every op only puts work on its stream, the host
// waits for nothing, and what the host wants to know of a step it reads when the step has ended.
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
#include <string>
#include <vector>

#include "engine/cuda/device/reuse.h"
#include "engine/cuda/runtime/device_model.h"
#include "engine/model/data.h"
#include "engine/runtime/memory/rank_memory.h"
#include "engine/runtime/ranks/device.h"
#include "engine/runtime/units/sharded_unit.h"
#include "engine/runtime/units/unit_views.h"

namespace shardscope::cuda {

// What a rank computes on.
struct DevicePlace {
  const DeviceModel* model = nullptr;  // shared by the ranks of a device; outlives them
  at::Device device = at::kCPU;
  bool uses_pool = false;  // buffers in one block
};

class DeviceWork : public runtime::RankWork {
 public:
  DeviceWork(int rank, const DevicePlace& place, const runtime::Surroundings& surroundings,
             model::Sampler sampler);
  ~DeviceWork() override;

  void set_on_control(std::function<void(int64_t step)> on_control) override {
    on_control_ = std::move(on_control);
  }
  void BeginStep(const plan::Schedule& schedule, double learning_rate) override;
  // Throws if the gradient was not finite.
  int64_t EndStep() override;
  const runtime::StepOutcome& outcome() const override { return outcome_; }

  int64_t Allocate(const executor::OpContext& context, plan::BufferId buffer) override;
  void Run(const executor::OpContext& context) override;
  int64_t Free(const executor::OpContext& context, plan::BufferId buffer) override;

  runtime::ShardedUnit& unit(size_t index) override { return units_[index]; }
  int64_t allocated_bytes() const override { return memory_.live_bytes(); }
  int64_t reserved_bytes() const override;
  int64_t TakePeakBytes() override { return peak_bytes_.exchange(memory_.live_bytes()); }
  const std::vector<std::vector<int64_t>>& kept_batches() const override { return kept_batches_; }

 private:
  // One transient buffer of the running Schedule.
  struct Bound {
    c10::DataPtr memory;
    int64_t bytes = 0;
    int64_t gap_bytes = 0;  // beside `bytes`: alignment, or what a kernel keeps for its backward
    model::Saved saved;     // kActivation
    at::Tensor gradient;    // kActivationGradient
    DeviceTokens tokens;    // kBatch
  };

  // device_work.cc
  Bound& At(plan::BufferId buffer) { return bound_[static_cast<size_t>(buffer)]; }
  const runtime::UnitLayout& LayoutOf(int32_t unit) const {
    return units_[static_cast<size_t>(unit)].layout();
  }
  int64_t GapBytes(const plan::Buffer& buffer) const;
  c10::DataPtr NewBlock(plan::BufferId buffer, int64_t bytes);
  void CountMemory(plan::MemoryCategory category, int64_t bytes);
  void ReportOther(const executor::OpContext& context, int64_t bytes);
  std::byte* MemoryOf(const executor::OpContext& context, plan::BufferId buffer);
  runtime::UnitMemory UnitMemoryOf(const executor::OpContext& context, plan::BufferId buffer,
                                   plan::DType dtype);
  void RunKind(const executor::OpContext& context);
  void LoadBatch(const executor::OpContext& context);

  // device_work_ops.cc
  std::vector<at::Tensor> ParameterViews(const executor::OpContext& context, int32_t segment);
  std::vector<at::Tensor> GradientViews(const executor::OpContext& context, int32_t segment);
  void Forward(const executor::OpContext& context);
  void Backward(const executor::OpContext& context);
  void GradNorm(const executor::OpContext& context);
  void Optimizer(const executor::OpContext& context);
  void Cast(const executor::OpContext& context);
  void CopyIn(const executor::OpContext& context);
  void CopyOut(const executor::OpContext& context);
  void Accumulate(const executor::OpContext& context);

  // device_work_collectives.cc
  transport::Call CallOf(const executor::OpContext& context, const std::string& name) const;
  void AllGather(const executor::OpContext& context);
  void ReduceScatter(const executor::OpContext& context);
  void AllReduce(const executor::OpContext& context);

  const int rank_;
  const DevicePlace place_;
  const runtime::Surroundings surroundings_;
  const runtime::Job* const job_;
  const at::ScalarType type_;  // in which it computes
  model::Sampler sampler_;
  std::function<void(int64_t step)> on_control_;

  runtime::RankMemory memory_;
  std::atomic<int64_t> peak_bytes_{0};
  std::vector<runtime::ShardedUnit> units_;
  std::vector<std::vector<size_t>> segment_parameters_;  // segment -> indices in its unit
  at::Tensor loss_;  // sum of the step's micro-batch losses, divided by their number
  at::Tensor norm_;  // of the gradient, before clipping

  // The running step.
  const plan::Schedule* schedule_ = nullptr;
  std::vector<Bound> bound_;  // by BufferId
  Placement placement_;       // with uses_pool
  c10::DataPtr pool_;
  double learning_rate_ = 0;
  runtime::StepOutcome outcome_;
  std::vector<std::vector<int64_t>> kept_batches_;
};

}  // namespace shardscope::cuda
