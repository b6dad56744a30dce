#include "engine/runtime/step_reports.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include "trace/base/mutex.h"

namespace shardscope::runtime {
namespace {

// Sums in rank order, so that they do not depend on which rank came first.
StepReport OfAllRanks(const std::vector<StepReport>& by_rank) {
  const auto num_ranks = static_cast<int64_t>(by_rank.size());
  StepReport all = by_rank.front();
  int64_t num_losses = all.tokens > 0 ? 1 : 0;
  for (const StepReport& one : std::span(by_rank).subspan(1)) {
    all.loss += one.loss;
    all.tokens += one.tokens;
    all.counts = all.counts && one.counts;
    num_losses += one.tokens > 0 ? 1 : 0;
    all.step_ns = std::max(all.step_ns, one.step_ns);
    all.exposed_ns += one.exposed_ns;
    all.communication_ns += one.communication_ns;
    all.peak_bytes = std::max(all.peak_bytes, one.peak_bytes);
  }
  all.loss /= static_cast<double>(std::max<int64_t>(1, num_losses));
  all.exposed_ns /= num_ranks;
  all.communication_ns /= num_ranks;
  return all;
}

}  // namespace

std::optional<StepReport> StepReports::Add(int rank, const StepReport& report) {
  const MutexLock lock(mutex_);
  Collected& collected = steps_[report.step];
  collected.by_rank.resize(static_cast<size_t>(num_ranks_));
  collected.by_rank[static_cast<size_t>(rank)] = report;
  if (++collected.num_reports < num_ranks_) return std::nullopt;
  last_ = OfAllRanks(collected.by_rank);
  steps_.erase(report.step);
  return last_;
}

std::optional<StepReport> StepReports::Last() const {
  const MutexLock lock(mutex_);
  return last_;
}

}  // namespace shardscope::runtime
