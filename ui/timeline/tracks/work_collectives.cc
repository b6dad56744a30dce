// Which collective a kernel of the GPU is of: part of the RunIndex.
#include <algorithm>
#include <utility>

#include "ui/timeline/run_index.h"

namespace shardscope::timeline {

// Kernels of a recorded program belong to the NCCL operation whose launch they were launched in.
bool RunIndex::TakeNcclKernel(const query::RankRows& rows, uint32_t row, RankIndex* rank) {
  const query::GpuWork& work = rows.gpu_work[row];
  // Operations come in the order of their launches, but for some of other threads.
  constexpr ptrdiff_t kOutOfOrder = 64;
  const auto after = std::partition_point(
      rows.nccl.begin(), rows.nccl.end(), [&work](const query::NcclOperation& operation) {
        return operation.launch_start_ns <= work.launch_start_ns;
      });
  auto operation = after + std::min<ptrdiff_t>(rows.nccl.end() - after, kOutOfOrder);
  const auto first = after - std::min<ptrdiff_t>(after - rows.nccl.begin(), kOutOfOrder);
  while (operation != first) {
    --operation;
    if (operation->launch_track != work.launch_track) continue;
    if (work.launch_start_ns < operation->launch_start_ns ||
        work.launch_start_ns > operation->launch_end_ns) {
      continue;
    }
    rank->nccl_of_work[row] = static_cast<uint32_t>(operation - rows.nccl.begin());
    if (operation->sequence >= 0) {
      Arrive(ArrivalKey(operation->communicator, operation->sequence), work.start_ns, rows.rank);
    }
    return true;
  }
  return false;
}

void RunIndex::TakeNccl(const query::Snapshot& snapshot, const query::RankRows& rows,
                        RankIndex* rank, Consumed* consumed) {
  if (rows.nccl.empty()) return;
  std::vector<uint32_t> early = std::exchange(consumed->early_work, {});
  for (; consumed->gpu_work < rows.gpu_work.size(); ++consumed->gpu_work) {
    const query::GpuWork& work = rows.gpu_work[consumed->gpu_work];
    const bool foreign = work.plan_op < 0 && work.category == query::SpanCategory::kCommunication;
    if (foreign) early.push_back(static_cast<uint32_t>(consumed->gpu_work));
  }
  for (const uint32_t row : early) {
    if (!TakeNcclKernel(rows, row, rank) && query::MayGrow(snapshot.state)) {
      consumed->early_work.push_back(row);
    }
  }
  // NCCL says nothing of some kernels, ever: only the newest are waited for.
  constexpr size_t kMostWaiting = 4096;
  std::vector<uint32_t>& waiting = consumed->early_work;
  if (waiting.size() > kMostWaiting) waiting.erase(waiting.begin(), waiting.end() - kMostWaiting);
}

uint32_t RunIndex::OpRunOf(const query::RankRows& rows, const RankIndex& rank,
                           const query::GpuWork& work) {
  if (work.plan_op < 0) return kNoRow;
  for (const SpanColumn& column : rank.columns) {
    if (&column == &rank.column(LaneKind::kExposed)) continue;  // of no op
    const size_t last = column.FirstStartingAt(work.end_ns + 1);
    for (size_t at = column.FirstTouching(work.start_ns - 1); at < last; ++at) {
      if (column[at].instant) continue;
      const query::OpRun& run = rows.op_runs[column[at].row];
      if (run.plan_op == work.plan_op && run.step == work.step) return column[at].row;
    }
  }
  return kNoRow;
}

const Arrival* RunIndex::ArrivalOfWork(const query::RankRows& rows, const RankIndex& rank,
                                       uint32_t row) const {
  const auto nccl = rank.nccl_of_work.find(row);
  if (nccl != rank.nccl_of_work.end()) {
    const query::NcclOperation& operation = rows.nccl[nccl->second];
    const auto found = arrivals_.find(ArrivalKey(operation.communicator, operation.sequence));
    return found == arrivals_.end() ? nullptr : &found->second;
  }
  const uint32_t op_row = OpRunOf(rows, rank, rows.gpu_work[row]);
  const query::Collective* collective =
      op_row == kNoRow ? nullptr : CollectiveOf(rows, rank, op_row);
  return collective == nullptr ? nullptr : ArrivalOf(*collective);
}

}  // namespace shardscope::timeline
