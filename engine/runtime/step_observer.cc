#include "engine/runtime/step_observer.h"

#include <map>
#include <utility>

#include "trace/base/mutex.h"

namespace shardscope::runtime {

StepObserver::StepObserver(int num_ranks) {
  for (int rank = 0; rank < num_ranks; ++rank) ranks_.push_back(std::make_unique<OfRank>());
}

void StepObserver::OnOpEnd(const executor::OpContext& context, const executor::OpTimes& times) {
  if (next_ != nullptr) next_->OnOpEnd(context, times);
  const plan::Op& op = context.op();
  OfRank& rank = *ranks_[static_cast<size_t>(context.rank)];
  const MutexLock lock(rank.mutex);
  if (rank.first_issue_ns == 0 || times.issued_ns < rank.first_issue_ns) {
    rank.first_issue_ns = times.issued_ns;
  }
  const words::OpShare share = TraitsOf(plan::CategoryOf(op.kind)).share;
  if (share == words::OpShare::kCompute) {
    rank.compute.push_back({times.started_ns, times.ended_ns});
  } else if (share == words::OpShare::kCommunication) {
    rank.communication.push_back({times.started_ns, times.ended_ns});
  }
  if (op.kind == plan::OpKind::kForward) {
    rank.segment_forward_ns.emplace_back(op.segment, times.ended_ns - times.started_ns);
    for (const int32_t unit : context.schedule->segments[static_cast<size_t>(op.segment)].units) {
      rank.forwards.push_back({unit, op.micro_batch, times.ended_ns - times.started_ns});
    }
  }
}

void StepObserver::OnMemory(const executor::OpContext& context, plan::BufferId buffer,
                            int64_t bytes, int64_t issued_ns, int64_t executed_ns) {
  if (next_ != nullptr) next_->OnMemory(context, buffer, bytes, issued_ns, executed_ns);
}

void StepObserver::OnOtherMemory(const executor::OpContext& context,
                                 const executor::MemoryChange& change) {
  if (next_ != nullptr) next_->OnOtherMemory(context, change);
}

StepTimes StepObserver::Take(int rank_index) {
  OfRank& rank = *ranks_[static_cast<size_t>(rank_index)];
  const MutexLock lock(rank.mutex);
  StepTimes times;
  times.first_issue_ns = std::exchange(rank.first_issue_ns, 0);
  const std::vector<Interval> communication = Union(std::exchange(rank.communication, {}));
  times.communication_ns = TotalNs(communication);
  times.exposed_ns = TotalNs(Subtract(communication, Union(std::exchange(rank.compute, {}))));
  times.segment_forward_ns = std::exchange(rank.segment_forward_ns, {});
  std::map<std::pair<int32_t, int32_t>, int64_t> sums;
  for (const Forward& forward : std::exchange(rank.forwards, {})) {
    sums[{forward.unit, forward.micro_batch}] += forward.duration_ns;
  }
  for (const auto& [key, duration_ns] : sums) {
    times.unit_forward_ns.emplace_back(key.first, duration_ns);
  }
  return times;
}

}  // namespace shardscope::runtime
