#include "ui/timeline/minimap.h"

#include <algorithm>

namespace shardscope::timeline {
namespace {

constexpr float kMinBar = 3;

struct Group {
  MinimapBar bar;
  double step_ns = 0;
  double exposed_ns = 0;
  int count = 0;
  bool warm_up = false;
};

}  // namespace

std::vector<MinimapBar> MakeMinimap(const std::vector<analysis::StepBreakdown>& steps, int32_t rank,
                                    const Axis& axis) {
  std::vector<Group> groups;
  for (const analysis::StepBreakdown& step : steps) {
    if (step.rank != rank) continue;
    // What lies between two steps is of neither.
    const bool follows = !groups.empty() && axis.X(step.start_ns) - groups.back().bar.x1 < kMinBar;
    if (!follows || groups.back().bar.x1 - groups.back().bar.x0 >= kMinBar) {
      groups.emplace_back().bar.x0 = axis.X(step.start_ns);
      groups.back().bar.first_step = step.step;
      groups.back().warm_up = analysis::IsWarmUp(step);
    }
    Group& group = groups.back();
    group.bar.x1 = axis.X(step.end_ns);
    group.bar.last_step = step.step;
    group.step_ns += static_cast<double>(step.step_ns);
    group.exposed_ns += static_cast<double>(step.time.exposed_ns);
    ++group.count;
  }
  double tallest = 0;
  // The first step of a run takes far longer than the rest and would flatten them all.
  for (const Group& group : groups) {
    const bool warm_up = group.warm_up && groups.size() > 2;
    if (!warm_up) tallest = std::max(tallest, group.step_ns / group.count);
  }
  std::vector<MinimapBar> bars;
  for (Group& group : groups) {
    const double mean_ns = group.step_ns / group.count;
    const double height = tallest > 0 ? std::min(mean_ns / tallest, 1.0) : 0;
    group.bar.height = static_cast<float>(height);
    if (group.step_ns > 0) {
      group.bar.exposed = static_cast<float>(height * group.exposed_ns / group.step_ns);
    }
    bars.push_back(group.bar);
  }
  return bars;
}

Range DragMinimap(const Axis& axis, Range view, float x, int64_t grabbed_ns) {
  const int64_t start = axis.Ns(x) - grabbed_ns;
  return {start, start + view.length_ns()};
}

}  // namespace shardscope::timeline
