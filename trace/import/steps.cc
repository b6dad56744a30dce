#include "trace/import/steps.h"

#include <algorithm>
#include <limits>
#include <string_view>

namespace shardscope::imports {
namespace {

// torch/optim/optimizer.py: profile_hook_step().
constexpr std::string_view kOptimizerStep = "Optimizer.step#";

// When the last of a step's optimizers was done, for each step; each optimizer has a range of its
// own once a step.
std::vector<int64_t> EndsOfOptimizers(const Recording& recording) {
  std::vector<const RecordedSpan*> spans;
  for (const RecordedSpan& span : recording.spans) {
    if (recording.tracks[span.track].IsOfDevice()) continue;
    if (recording.names[span.name].starts_with(kOptimizerStep)) spans.push_back(&span);
  }
  std::stable_sort(spans.begin(), spans.end(), [](const RecordedSpan* a, const RecordedSpan* b) {
    return a->start_ns < b->start_ns;
  });
  std::vector<int64_t> ends_ns;
  if (spans.empty()) return ends_ns;
  const Names::Index last = spans.back()->name;
  int64_t end_ns = std::numeric_limits<int64_t>::min();
  for (const RecordedSpan* span : spans) {
    // A range inside another is the same step once more.
    if (span->name != last || span->start_ns < end_ns) continue;
    end_ns = span->start_ns + span->duration_ns;
    ends_ns.push_back(end_ns);
  }
  return ends_ns;
}

}  // namespace

HostSteps::HostSteps(const Recording& recording) : steps_(recording.steps) {
  std::sort(steps_.begin(), steps_.end(),
            [](const RecordedStep& a, const RecordedStep& b) { return a.start_ns < b.start_ns; });
  // The same mark may stand on several threads.
  const auto same = [](const RecordedStep& a, const RecordedStep& b) {
    return a.number == b.number;
  };
  steps_.erase(std::unique(steps_.begin(), steps_.end(), same), steps_.end());
  if (!steps_.empty() || !recording.has_unmarked_step) return;
  are_marked_ = false;
  int64_t first_ns = std::numeric_limits<int64_t>::max();
  int64_t last_ns = std::numeric_limits<int64_t>::min();
  const auto widen = [&](const auto& interval) {
    first_ns = std::min(first_ns, interval.start_ns);
    last_ns = std::max(last_ns, interval.start_ns + interval.duration_ns);
  };
  for (const RecordedSpan& span : recording.spans) widen(span);
  for (const RecordedWork& work : recording.works) widen(work);
  if (first_ns > last_ns) return;
  const std::vector<int64_t> ends_ns = EndsOfOptimizers(recording);
  are_marked_ = ends_ns.size() > 1;
  int64_t start_ns = first_ns;
  for (size_t i = 0; are_marked_ && i + 1 < ends_ns.size(); ++i) {
    steps_.push_back({static_cast<int64_t>(i), start_ns, ends_ns[i] - start_ns});
    start_ns = ends_ns[i];
  }
  steps_.push_back({static_cast<int64_t>(steps_.size()), start_ns, last_ns - start_ns});
}

int64_t HostSteps::IndexAt(int64_t time_ns) const {
  const auto after =
      std::upper_bound(steps_.begin(), steps_.end(), time_ns,
                       [](int64_t time, const RecordedStep& step) { return time < step.start_ns; });
  return after - steps_.begin() - 1;
}

}  // namespace shardscope::imports
