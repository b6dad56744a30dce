// Communication ops of RankBodies: which memory each collective sends and receives.
#include <algorithm>

#include "engine/runtime/ranks/rank_bodies.h"
#include "trace/base/check.h"

namespace shardscope::runtime {

using executor::OpContext;
using plan::BufferId;
using plan::BufferKind;

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

// Calls collective(call), and reports the memory that the transport took meanwhile.
template <typename Collective>
void RankBodies::Communicate(const OpContext& context, const Collective& collective) {
  const int64_t start_ns = MonotonicNs();
  PoolScratch scratch(pool_.get());
  const std::string name = plan::OpName(*context.schedule, context.op());  // for errors
  collective(transport::Call{.rank = context.rank,
                             .communicator = context.op().communicator,
                             .op_name = name,
                             .wire_bytes = context.op().wire_bytes,
                             .op = context.index,
                             .scratch = &scratch});
  ReportTemporaries(context, scratch.peak_bytes(), start_ns);
}

void RankBodies::AllGather(const OpContext& context) {
  const plan::Op& op = context.op();
  const UnitLayout& layout = units_[static_cast<size_t>(op.unit)].layout();
  const BufferId target = op.writes.front();
  const UnitMemory to = UnitMemoryOf(context, target, op.dtype);
  std::vector<transport::GatherPiece> pieces;
  if (context.buffer(target).kind == BufferKind::kAllGatherOutput) {
    // In place: the copy-in put the own shard into its slot.
    const int64_t bytes = layout.shard_elements() * to.element_bytes();
    pieces.push_back({to.data + bytes * rank_, to.data, static_cast<size_t>(bytes)});
  } else {
    const BufferId cast = Find(context, op.reads, BufferKind::kCastShard);
    pieces =
        GatherPieces(layout, MemoryOf(context, cast == plan::kNone ? op.reads.front() : cast), to);
  }
  Communicate(context, [&](const auto& call) { transport_->AllGather(call, pieces); });
}

void RankBodies::ReduceScatter(const OpContext& context) {
  const plan::Op& op = context.op();
  const UnitLayout& layout = units_[static_cast<size_t>(op.unit)].layout();
  const BufferId source = op.reads.front();
  const UnitMemory from = UnitMemoryOf(context, source, op.dtype);
  std::byte* to = MemoryOf(context, op.writes.front());
  std::vector<transport::ReducePiece> pieces;
  if (context.buffer(source).kind == BufferKind::kReduceScatterInput) {
    pieces.push_back({from.data, to, static_cast<size_t>(layout.shard_elements())});
  } else {
    pieces = ReducePieces(layout, from, to);
  }
  Communicate(context, [&](const auto& call) {
    transport_->ReduceScatter(call, pieces, {op.dtype, model::GradientScale(job_->training)});
  });
}

void RankBodies::AllReduce(const OpContext& context) {
  const plan::Op& op = context.op();
  const BufferId buffer = op.writes.front();
  std::vector<transport::AllReducePiece> pieces;
  double scale = model::GradientScale(job_->training);
  switch (context.buffer(buffer).kind) {
    case BufferKind::kNorm:
      pieces.push_back({At(buffer).memory, 1});
      scale = 1;
      break;
    case BufferKind::kReduceScatterInput: {
      const UnitLayout& layout = units_[static_cast<size_t>(op.unit)].layout();
      pieces.push_back({At(buffer).memory, static_cast<size_t>(layout.shard_elements())});
      break;
    }
    default:
      SHARDSCOPE_CHECK(context.buffer(buffer).kind == BufferKind::kGradient);
      pieces = AllReducePieces(units_[static_cast<size_t>(op.unit)].layout(),
                               UnitMemoryOf(context, buffer, op.dtype));
  }
  Communicate(context, [&](const auto& call) {
    transport_->AllReduce(call, pieces, {op.dtype, scale});
  });
}

}  // namespace shardscope::runtime
