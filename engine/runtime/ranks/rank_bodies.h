// RankBodies: what the ops of one rank do, with LibTorch on the CPU. Owns the rank's shards and
// binds every buffer of the running Schedule to memory.
//
// Threads: as OpBodies says. Entries of the buffer tables are written by one op and read by ops
// that the Schedule orders after it, so they need no lock.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "engine/model/data.h"
#include "engine/model/segments.h"
#include "engine/runtime/memory/memory_pool.h"
#include "engine/runtime/memory/rank_memory.h"
#include "engine/runtime/ranks/device.h"
#include "engine/runtime/units/sharded_unit.h"
#include "engine/runtime/units/unit_views.h"

namespace shardscope::runtime {

class RankBodies : public RankWork {
 public:
  RankBodies(int rank, const Surroundings& surroundings, model::Sampler sampler);
  ~RankBodies() override;

  void set_on_control(std::function<void(int64_t step)> on_control) override {
    on_control_ = std::move(on_control);
  }

  void BeginStep(const plan::Schedule& schedule, double learning_rate) override;
  int64_t EndStep() override;
  const StepOutcome& outcome() const override { return outcome_; }

  int64_t Allocate(const executor::OpContext& context, plan::BufferId buffer) override;
  void Run(const executor::OpContext& context) override;
  int64_t Free(const executor::OpContext& context, plan::BufferId buffer) override;

  ShardedUnit& unit(size_t index) override { return units_[index]; }
  int64_t allocated_bytes() const override { return pool_->allocated_bytes(); }
  int64_t reserved_bytes() const override { return pool_->reserved_bytes(); }
  int64_t TakePeakBytes() override { return pool_->TakePeakBytes(); }
  const RankMemory& memory() const { return memory_; }
  const MemoryPool& pool() const { return *pool_; }
  // For tests: where a buffer lies now; null if it is a tensor or not there.
  const std::byte* BoundMemory(plan::BufferId id) const {
    return bound_[static_cast<size_t>(id)].memory;
  }

  const std::vector<std::vector<int64_t>>& kept_batches() const override { return kept_batches_; }

 private:
  // One transient buffer of the running Schedule.
  struct Bound {
    std::byte* memory = nullptr;  // from the pool
    int64_t bytes = 0;
    int64_t gap_bytes = 0;     // beside `bytes`
    model::Saved saved;        // kActivation
    at::Tensor gradient;       // kActivationGradient
    model::TokenBatch tokens;  // kBatch; in `memory`
  };

  // rank_bodies.cc
  int64_t GapBytes(const plan::Buffer& buffer) const;
  void ReportOther(const executor::OpContext& context, int64_t bytes);
  Bound& At(plan::BufferId buffer) { return bound_[static_cast<size_t>(buffer)]; }
  // The first buffer of `kind` among `ids`, or kNone.
  static plan::BufferId Find(const executor::OpContext& context,
                             const std::vector<plan::BufferId>& ids, plan::BufferKind kind);
  std::byte* MemoryOf(const executor::OpContext& context, plan::BufferId buffer);
  UnitMemory UnitMemoryOf(const executor::OpContext& context, plan::BufferId buffer,
                          plan::DType dtype) {
    return {MemoryOf(context, buffer), model::ScalarTypeOf(dtype), at::kCPU};
  }
  void RunKind(const executor::OpContext& context);
  void LoadBatch(const executor::OpContext& context);

  // rank_compute.cc
  std::vector<at::Tensor> ParameterViews(const executor::OpContext& context, int32_t segment);
  std::vector<at::Tensor> GradientViews(const executor::OpContext& context, int32_t segment);
  // Reports what an op took for itself since `start_ns` and gave back.
  void ReportTemporaries(const executor::OpContext& context, int64_t bytes, int64_t start_ns);
  void Forward(const executor::OpContext& context);
  void Backward(const executor::OpContext& context);
  void GradNorm(const executor::OpContext& context);
  void Optimizer(const executor::OpContext& context);

  // rank_copies.cc
  void Cast(const executor::OpContext& context);
  void CopyIn(const executor::OpContext& context);
  void CopyOut(const executor::OpContext& context);
  void Accumulate(const executor::OpContext& context);

  // rank_collectives.cc
  template <typename Collective>
  void Communicate(const executor::OpContext& context, const Collective& collective);
  void AllGather(const executor::OpContext& context);
  void ReduceScatter(const executor::OpContext& context);
  void AllReduce(const executor::OpContext& context);

  const int rank_;
  const Job* job_;
  const model::Model* model_;
  model::Sampler sampler_;
  transport::Transport* transport_;
  executor::ExecutionSink* sink_;
  std::function<void(int64_t step)> on_control_;

  std::shared_ptr<MemoryPool> pool_;  // shared with the tensors from it
  RankMemory memory_;
  std::vector<ShardedUnit> units_;
  std::vector<std::vector<size_t>> segment_parameters_;  // segment -> indices in its unit

  // The running step.
  const plan::Schedule* schedule_ = nullptr;
  std::vector<Bound> bound_;  // by BufferId
  double learning_rate_ = 0;
  StepOutcome outcome_;
  std::vector<std::vector<int64_t>> kept_batches_;
};

}  // namespace shardscope::runtime
