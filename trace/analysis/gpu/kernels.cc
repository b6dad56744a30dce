#include "trace/analysis/gpu/kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "trace/analysis/op_share.h"
#include "trace/base/interval.h"
#include "trace/base/trace_keys.h"
#include "trace/base/units.h"

namespace shardscope::analysis {
namespace {

using query::GpuTimes;
using query::GpuWork;
using query::GpuWorkKind;

// Each communication kernel with how many compute kernels it ran beside: those that began before
// its end, without those that had ended by its start.
int64_t CountPairs(std::vector<Interval> communication, const std::vector<Interval>& compute) {
  std::vector<int64_t> starts;
  std::vector<int64_t> ends;
  for (const Interval& interval : compute) {
    if (interval.start_ns == interval.end_ns) continue;
    starts.push_back(interval.start_ns);
    ends.push_back(interval.end_ns);
  }
  std::sort(starts.begin(), starts.end());
  std::sort(ends.begin(), ends.end());
  int64_t pairs = 0;
  for (const Interval& interval : communication) {
    if (interval.start_ns == interval.end_ns) continue;
    const auto begun = std::lower_bound(starts.begin(), starts.end(), interval.end_ns);
    const auto over = std::upper_bound(ends.begin(), ends.end(), interval.start_ns);
    pairs += (begun - starts.begin()) - (over - ends.begin());
  }
  return pairs;
}

void AddRank(const query::Snapshot& snapshot, const query::RankRows& rows, KernelSummary* summary) {
  std::vector<Interval> compute;
  std::vector<Interval> communication;
  std::vector<Interval> copy;
  for (const GpuWork& work : rows.gpu_work) {
    ++(work.kind == GpuWorkKind::kKernel ? summary->kernels : summary->copies);
    if (!work.plan_op.is_none()) ++summary->joined;
    if (work.times != GpuTimes::kMeasured) {
      ++summary->without_times;
      continue;
    }
    const Interval interval{work.start_ns, work.end_ns};
    const OpShare share = ShareOf(work, snapshot.FindPlanOp(work.plan_op));
    if (share == OpShare::kCompute) compute.push_back(interval);
    if (share == OpShare::kCommunication) communication.push_back(interval);
    if (share == OpShare::kCopy) copy.push_back(interval);
  }
  summary->overlapping_pairs += CountPairs(communication, compute);
  const std::vector<Interval> all_compute = Union(std::move(compute));
  const std::vector<Interval> all_communication = Union(std::move(communication));
  summary->compute_ns += TotalNs(all_compute);
  summary->communication_ns += TotalNs(all_communication);
  summary->overlap_ns += TotalNs(Intersect(all_compute, all_communication));
  summary->copy_ns += TotalNs(Union(std::move(copy)));
}

}  // namespace

KernelSummary SummarizeKernels(const query::Snapshot& snapshot) {
  KernelSummary summary;
  std::set<query::TrackId> overhead_tracks;
  for (const query::Track& track : snapshot.tracks) {
    if (track.name == trace_keys::kOverheadTrack) overhead_tracks.insert(track.id);
  }
  for (const query::RankRows& rows : snapshot.ranks) {
    if (rows.gpu_work.empty()) continue;
    ++summary.num_ranks;
    AddRank(snapshot, rows, &summary);
    if (overhead_tracks.empty()) continue;
    std::vector<Interval> overhead;
    for (const query::Span& span : rows.spans) {
      if (overhead_tracks.contains(span.track)) overhead.push_back({span.start_ns, span.end_ns});
    }
    summary.overhead_ns += TotalNs(Union(std::move(overhead)));
  }
  return summary;
}

std::string PrintKernels(const KernelSummary& summary) {
  if (summary.num_ranks == 0) return "";
  std::string text = fmt::format(
      "\nKernels (GPU, {} rank{}, all steps)\n  {} kernels, {} copies and memsets; an op launched "
      "{}\n",
      summary.num_ranks, summary.num_ranks == 1 ? "" : "s", summary.kernels, summary.copies,
      summary.joined == 0 ? "none of them" : fmt::format("{:.2f} %", 100 * summary.join_rate()));
  text +=
      fmt::format("  compute {}, communication {}, copy {}\n", FormatDuration(summary.compute_ns),
                  FormatDuration(summary.communication_ns), FormatDuration(summary.copy_ns));
  if (summary.communication_ns > 0) {
    text += fmt::format(
        "  overlap ratio {} by kernels, exposed {}; {} pairs of a communication and a compute "
        "kernel at once\n",
        FormatPercent(summary.overlap_ratio()), FormatDuration(summary.exposed_ns()),
        summary.overlapping_pairs);
  }
  if (summary.overhead_ns > 0) {
    text += fmt::format("  the tracer itself took {} as CUPTI tells it\n",
                        FormatDuration(summary.overhead_ns));
  }
  if (summary.without_times > 0) {
    text += fmt::format("  {} have no times: not in the sums\n", summary.without_times);
  }
  return text;
}

}  // namespace shardscope::analysis
