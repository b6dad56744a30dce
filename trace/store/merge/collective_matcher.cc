#include "trace/store/merge/collective_matcher.h"

#include <algorithm>

#include "trace/store/merge/clock_map.h"

namespace shardscope::store {
namespace {

constexpr size_t kMostPartial = 1 << 16;
constexpr size_t kMostRows = 1 << 20;
constexpr size_t kMostCommunicators = 1 << 12;

}  // namespace

void CollectiveMatcher::AddCollective(const schema::CollectiveRow& row) {
  if (row.group_size < 2 || rows_.size() >= kMostRows) return;
  const std::string_view name = row.communicator;
  auto communicator = communicators_.find(name);
  if (communicator == communicators_.end()) {
    if (communicators_.size() >= kMostCommunicators) return;
    const auto index = static_cast<int32_t>(communicators_.size());
    communicator = communicators_.emplace(name, index).first;
  }
  rows_[row.op_run] = {{communicator->second, row.sequence}, row.group_size};
}

void CollectiveMatcher::AddOpRun(size_t clock, const schema::OpRunRow& run) {
  const auto row = rows_.find(run.id);
  if (row == rows_.end()) return;
  const auto [key, group_size] = row->second;
  rows_.erase(row);
  if (!IsSaneNs(run.started_ns) || !IsSaneNs(run.ended_ns) || run.started_ns > run.ended_ns) return;
  const auto [partial, is_new] = partial_.try_emplace(key);
  if (is_new) order_.push_back(key);
  SharedCollective& times = partial->second.times;
  const auto place = std::lower_bound(
      times.begin(), times.end(), clock,
      [](const CollectiveTimes& one, size_t wanted) { return one.clock < wanted; });
  if (place == times.end() || place->clock != clock) {
    times.insert(place, {clock, run.started_ns, run.ended_ns, run.ended_ns});
  } else {
    place->last_start_ns = std::max(place->last_start_ns, run.started_ns);
    place->first_end_ns = std::min(place->first_end_ns, run.ended_ns);
    place->last_end_ns = std::max(place->last_end_ns, run.ended_ns);
  }
  if (++partial->second.num_ranks < group_size) return;
  if (times.size() > 1) complete_.push_back(std::move(times));
  partial_.erase(partial);
}

void CollectiveMatcher::Forget() {
  // Complete ones behind an incomplete one stay in the queue, so its length is bounded too.
  while (!order_.empty() &&
         (order_.size() > 2 * kMostPartial || !partial_.contains(order_.front()))) {
    partial_.erase(order_.front());
    order_.pop_front();
  }
}

void CollectiveMatcher::Add(size_t clock, const RowBatch& rows, size_t first_collective,
                            size_t first_op_run) {
  const auto& collectives = rows.Get<schema::CollectiveRow>();
  for (size_t i = first_collective; i < collectives.size(); ++i) AddCollective(collectives[i]);
  const auto& op_runs = rows.Get<schema::OpRunRow>();
  for (size_t i = first_op_run; i < op_runs.size(); ++i) AddOpRun(clock, op_runs[i]);
  Forget();
}

}  // namespace shardscope::store
