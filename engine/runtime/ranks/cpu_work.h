// CpuWork: what the ops of one rank do, with LibTorch on the CPU. Owns the rank's memory pool
// and binds every buffer of the running Schedule to a place in it.
//
// Threads: as OpBodies says.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/runtime/memory/memory_pool.h"
#include "engine/runtime/ranks/rank_ops.h"

namespace shardscope::runtime {

class CpuWork final : public RankOps {
 public:
  CpuWork(int rank, const RankContext& rank_context, model::Sampler sampler);
  ~CpuWork() override;

  void Run(const executor::OpContext& context) override;

  int64_t allocated_bytes() const override { return pool_->allocated_bytes(); }
  int64_t reserved_bytes() const override { return pool_->reserved_bytes(); }
  int64_t TakePeakBytes() override { return pool_->TakePeakBytes(); }

 protected:
  void WithMemory(const std::function<void()>& work) override;
  void WithStateMemory(const StateLayout& layout, const std::function<void()>& work) override;
  void OnSchedule(const plan::Schedule& schedule) override;
  void TakeBlock(plan::BufferId buffer, int64_t bytes) override;
  void GiveBlock(plan::BufferId buffer, int64_t bytes) override;
  std::byte* BlockOf(plan::BufferId buffer) override { return BlockAt(buffer); }
  void AddLoss(const executor::OpContext& context, const at::Tensor& loss) override;
  int64_t Finish() override;
  void Unscale(const executor::OpContext& context) override { UnscaleOnHost(context); }
  void GradNorm(const executor::OpContext& context) override { GradNormOnHost(context); }
  void Optimizer(const executor::OpContext& context) override { OptimizerOnHost(context); }
  void Communicate(const executor::OpContext& context, const Collective& collective) override;
  void Forward(const executor::OpContext& context) override;
  void Backward(const executor::OpContext& context) override;

 private:
  friend class CpuWorkInside;  // of tests

  std::byte*& BlockAt(plan::BufferId buffer) { return blocks_[static_cast<size_t>(buffer)]; }
  // Reports what an op took for itself since `start_ns` and gave back.
  void ReportTemporaries(const executor::OpContext& context, int64_t bytes, int64_t start_ns);

  std::shared_ptr<MemoryPool> pool_;  // shared with the tensors from it
  // Of what is offloaded: the host's memory, as that of a GPU's host would be. No limit holds for
  // it.
  std::shared_ptr<MemoryPool> host_pool_;
  MemoryPool& PoolOf(plan::BufferId buffer) {
    return is_on_host_[static_cast<size_t>(buffer)] ? *host_pool_ : *pool_;
  }
  std::vector<bool> is_on_host_;    // by BufferId
  std::vector<std::byte*> blocks_;  // by BufferId: from the pool, of a transient buffer; or null
};

}  // namespace shardscope::runtime
