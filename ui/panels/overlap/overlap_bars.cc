#include "ui/panels/overlap/overlap_bars.h"

#include <algorithm>
#include <utility>

namespace shardscope::panels {
namespace {

using Steps = std::vector<const analysis::StepBreakdown*>;

double Median(const Steps& steps, int64_t analysis::TimeSplit::*part) {
  std::vector<double> values;
  for (const analysis::StepBreakdown* step : steps) {
    values.push_back(static_cast<double>(step->time.*part));
  }
  return analysis::Percentile(std::move(values), 0.5);
}

OverlapBar BarOf(const Steps& steps) {
  OverlapBar bar;
  bar.first_step = steps.front()->step;
  bar.last_step = steps.back()->step;
  bar.compute_ns = Median(steps, &analysis::TimeSplit::compute_ns);
  bar.exposed_ns = Median(steps, &analysis::TimeSplit::exposed_ns);
  bar.exposed_copy_ns = Median(steps, &analysis::TimeSplit::exposed_copy_ns);
  bar.idle_ns = Median(steps, &analysis::TimeSplit::idle_ns);
  int64_t overlap_ns = 0;
  int64_t communication_ns = 0;
  for (const analysis::StepBreakdown* step : steps) {
    overlap_ns += step->time.overlap_ns;
    communication_ns += step->time.communication_ns;
  }
  bar.has_communication = communication_ns > 0;
  if (bar.has_communication) {
    bar.overlap_ratio = static_cast<double>(overlap_ns) / static_cast<double>(communication_ns);
  }
  return bar;
}

}  // namespace

std::vector<OverlapBar> MakeBars(const std::vector<analysis::StepBreakdown>& steps, int32_t rank,
                                 int max_bars, int32_t change_step) {
  Steps chosen;
  for (const analysis::StepBreakdown& step : steps) {
    if (step.rank == rank) chosen.push_back(&step);
  }
  if (chosen.size() > static_cast<size_t>(analysis::kWarmUpSteps)) {
    std::erase_if(chosen, [](const auto* step) { return analysis::IsWarmUp(*step); });
  }
  std::vector<OverlapBar> bars;
  // One bar more than fits may come from the change's boundary.
  const auto limit = static_cast<size_t>(std::max(max_bars - 1, 1));
  const size_t per_bar = std::max<size_t>((chosen.size() + limit - 1) / limit, 1);
  Steps group;
  for (const analysis::StepBreakdown* step : chosen) {
    const bool crosses =
        !group.empty() && group.back()->step < change_step && step->step >= change_step;
    if (group.size() == per_bar || crosses) {
      bars.push_back(BarOf(group));
      group.clear();
    }
    group.push_back(step);
  }
  if (!group.empty()) bars.push_back(BarOf(group));
  return bars;
}

}  // namespace shardscope::panels
