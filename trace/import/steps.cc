#include "trace/import/steps.h"

#include <algorithm>
#include <limits>

namespace shardscope::imports {

HostSteps::HostSteps(const Recording& recording) : steps_(recording.steps) {
  std::sort(steps_.begin(), steps_.end(),
            [](const RecordedStep& a, const RecordedStep& b) { return a.start_ns < b.start_ns; });
  // The same mark may stand on several threads.
  const auto same = [](const RecordedStep& a, const RecordedStep& b) {
    return a.number == b.number;
  };
  steps_.erase(std::unique(steps_.begin(), steps_.end(), same), steps_.end());
  if (!steps_.empty() || !recording.has_unmarked_step) return;
  int64_t first_ns = std::numeric_limits<int64_t>::max();
  int64_t last_ns = std::numeric_limits<int64_t>::min();
  const auto widen = [&](const auto& interval) {
    first_ns = std::min(first_ns, interval.start_ns);
    last_ns = std::max(last_ns, interval.start_ns + interval.duration_ns);
  };
  for (const RecordedSpan& span : recording.spans) widen(span);
  for (const RecordedWork& work : recording.works) widen(work);
  if (first_ns <= last_ns) steps_.push_back({0, first_ns, last_ns - first_ns});
}

int64_t HostSteps::IndexAt(int64_t time_ns) const {
  const auto after =
      std::upper_bound(steps_.begin(), steps_.end(), time_ns,
                       [](int64_t time, const RecordedStep& step) { return time < step.start_ns; });
  return after - steps_.begin() - 1;
}

}  // namespace shardscope::imports
