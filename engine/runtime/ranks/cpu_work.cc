#include "engine/runtime/ranks/cpu_work.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <string>
#include <utility>

#include "engine/executor/execution_sink.h"
#include "engine/runtime/memory/tensor_memory.h"
#include "engine/runtime/ranks/thread_setup.h"
#include "trace/base/time.h"

namespace shardscope::runtime {

using executor::OpContext;
using plan::BufferId;

namespace {

// What the transport takes from the rank's pool for one call, and the highest point of that. One
// thread.
class PoolScratch final : public transport::ScratchMemory {
 public:
  explicit PoolScratch(MemoryPool* pool) : pool_(pool) {}
  std::byte* Take(size_t bytes) override {
    std::byte* block = pool_->Allocate(bytes);
    taken_bytes_ += static_cast<int64_t>(bytes);
    peak_bytes_ = std::max(peak_bytes_, taken_bytes_);
    return block;
  }
  void GiveBack(std::byte* block, size_t bytes) override {
    pool_->Free(block, bytes);
    taken_bytes_ -= static_cast<int64_t>(bytes);
  }
  int64_t peak_bytes() const { return peak_bytes_; }

 private:
  MemoryPool* const pool_;
  int64_t taken_bytes_ = 0;
  int64_t peak_bytes_ = 0;
};

}  // namespace

CpuWork::CpuWork(int rank, const RankContext& rank_context, model::Sampler sampler)
    : RankOps(rank, rank_context.model, at::kCPU, rank_context, std::move(sampler)),
      pool_(std::make_shared<MemoryPool>(MemoryPool::Options{.rank = rank,
                                                             .limit_bytes = job_->memory_limit,
                                                             .explain = job_->explain_out_of_memory,
                                                             .poison = job_->poison})),
      host_pool_(
          std::make_shared<MemoryPool>(MemoryPool::Options{.rank = rank, .poison = job_->poison})) {
  const TensorScope scope(IsOffloaded(layout_) ? host_pool_ : pool_);
  MakeUnits();
}

CpuWork::~CpuWork() {
  // A failed step leaves its buffers bound.
  for (size_t id = 0; id < blocks_.size(); ++id) {
    if (blocks_[id] == nullptr) continue;
    const Bound& bound = At(static_cast<BufferId>(id));
    PoolOf(static_cast<BufferId>(id))
        .Free(blocks_[id], static_cast<size_t>(bound.bytes + bound.gap_bytes));
  }
}

void CpuWork::WithMemory(const std::function<void()>& work) {
  const c10::InferenceMode no_autograd;
  const TensorScope scope(pool_);
  work();
}

void CpuWork::WithStateMemory(const StateLayout& layout, const std::function<void()>& work) {
  const c10::InferenceMode no_autograd;
  const TensorScope scope(IsOffloaded(layout) ? host_pool_ : pool_);
  work();
}

void CpuWork::OnSchedule(const plan::Schedule& schedule) {
  pool_->Trim();
  host_pool_->Trim();
  blocks_.clear();
  blocks_.resize(schedule.ProgramOf(rank_).buffers.size());
  is_on_host_.clear();
  for (const plan::Buffer& buffer : schedule.ProgramOf(rank_).buffers) {
    is_on_host_.push_back(plan::MemoryCategoryOf(buffer.kind) == plan::MemoryCategory::kHost);
  }
}

int64_t CpuWork::Finish() {
  pool_->EndStep();
  host_pool_->EndStep();
  const int64_t unaccounted = pool_->allocated_bytes() - memory_.live_bytes();
  memory_.Add(plan::MemoryCategory::kOther, unaccounted);
  return unaccounted;
}

void CpuWork::TakeBlock(BufferId buffer, int64_t bytes) {
  BlockAt(buffer) = PoolOf(buffer).Allocate(static_cast<size_t>(bytes));
}

void CpuWork::GiveBlock(BufferId buffer, int64_t bytes) {
  PoolOf(buffer).Free(BlockAt(buffer), static_cast<size_t>(bytes));
  BlockAt(buffer) = nullptr;
}

void CpuWork::Run(const OpContext& context) {
  ComputeOnOneThread();
  if (plan::CategoryOf(context.op().kind) == plan::Category::kCommunication) AskForShortSlices();
  const c10::InferenceMode no_autograd;
  const TensorScope scope(pool_);
  Guarded([&] { Dispatch(context); });
}

void CpuWork::ReportTemporaries(const OpContext& context, int64_t bytes, int64_t start_ns) {
  if (bytes == 0) return;
  rank_context_.sink->OnOtherMemory(context, {plan::MemoryCategory::kTemporary, bytes, start_ns});
  rank_context_.sink->OnOtherMemory(context,
                                    {plan::MemoryCategory::kTemporary, -bytes, MonotonicNs()});
}

void CpuWork::Forward(const OpContext& context) {
  const int64_t start_ns = MonotonicNs();
  const TemporaryMemory temporaries;
  RankOps::Forward(context);
  ReportTemporaries(context, temporaries.Finish(), start_ns);
}

void CpuWork::Backward(const OpContext& context) {
  const int64_t start_ns = MonotonicNs();
  const TemporaryMemory temporaries;
  RankOps::Backward(context);
  ReportTemporaries(context, temporaries.Finish(), start_ns);
}

void CpuWork::AddLoss(const OpContext& /*context*/, const at::Tensor& loss) {
  outcome_.loss += loss.item<double>() / static_cast<double>(job_->training.micro_batches);
}

// Reports the memory that the transport took meanwhile.
void CpuWork::Communicate(const OpContext& context, const Collective& collective) {
  const int64_t start_ns = MonotonicNs();
  PoolScratch scratch(pool_.get());
  const std::string name = plan::OpName(*context.schedule, context.op());
  transport::Call call = CallOf(context, name);
  call.scratch = &scratch;
  collective(call);
  ReportTemporaries(context, scratch.peak_bytes(), start_ns);
}

}  // namespace shardscope::runtime
