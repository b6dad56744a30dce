#include "ui/timeline/pauses.h"

#include <algorithm>

namespace shardscope::timeline {

std::vector<PauseBox> PausesInView(const query::Snapshot& snapshot, const query::RankRows& rows,
                                   const Axis& axis, float min_width) {
  std::vector<PauseBox> boxes;
  const auto add = [&](const query::Pause& pause, bool is_open) {
    const PauseBox box{std::max(axis.X(pause.start_ns), axis.left()),
                       std::min(axis.X(pause.end_ns), axis.right()), pause, is_open};
    if (box.x1 - box.x0 >= min_width) boxes.push_back(box);
  };
  const Range& range = axis.range();
  const auto first = std::partition_point(
      rows.pauses.begin(), rows.pauses.end(),
      [&](const query::Pause& pause) { return pause.end_ns <= range.start_ns; });
  for (auto pause = first; pause != rows.pauses.end() && pause->start_ns < range.end_ns; ++pause) {
    add(*pause, false);
  }
  if (snapshot.paused && !rows.steps.empty()) {
    const query::Step& last = rows.steps.back();
    add({last.step + 1, query::PauseCause::kUser, last.end_ns, range.end_ns}, true);
  }
  return boxes;
}

}  // namespace shardscope::timeline
