#include "trace/import/steps.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "trace/base/torch_range_names.h"

namespace shardscope::imports {
namespace {

enum class HostPart : uint8_t { kNone, kOptimizer, kZeroGrad, kBackward, kOperator };

HostPart PartOf(const Recording& recording, const RecordedSpan& span) {
  const std::string& name = recording.names[span.name];
  if (name.starts_with(torch_range_names::kOptimizerStep)) return HostPart::kOptimizer;
  if (name.starts_with(torch_range_names::kZeroGrad)) return HostPart::kZeroGrad;
  if (name.starts_with(torch_range_names::kBackward)) return HostPart::kBackward;
  return span.is_operator ? HostPart::kOperator : HostPart::kNone;
}

// When each step's optimizers were done. A step has as many ranges of optimizers as the program has
// optimizers (one for each parameter, where they run in the backward), all perhaps of one name: a
// new step is one with a forward, which are operators in no backward, and a backward of its own.
std::vector<int64_t> EndsOfOptimizers(const Recording& recording) {
  std::vector<std::pair<const RecordedSpan*, HostPart>> spans;
  for (const RecordedSpan& span : recording.spans) {
    if (recording.tracks[span.track].IsOfDevice()) continue;
    const HostPart part = PartOf(recording, span);
    if (part != HostPart::kNone) spans.emplace_back(&span, part);
  }
  std::stable_sort(spans.begin(), spans.end(), [](const auto& a, const auto& b) {
    return a.first->start_ns < b.first->start_ns;
  });
  std::vector<int64_t> ends_ns;
  bool has_forward = false;
  bool has_backward = false;
  int64_t no_forward_until_ns = std::numeric_limits<int64_t>::min();
  for (const auto& [span, part] : spans) {
    const int64_t end_ns = span->start_ns + span->duration_ns;
    switch (part) {
      case HostPart::kNone:
        break;
      case HostPart::kOperator:
        has_forward = has_forward || span->start_ns >= no_forward_until_ns;
        continue;
      case HostPart::kBackward:
        has_backward = true;
        break;
      case HostPart::kOptimizer:
        if (ends_ns.empty() || (has_forward && has_backward)) ends_ns.push_back(end_ns);
        has_forward = has_backward = false;
        [[fallthrough]];
      case HostPart::kZeroGrad:
        if (!ends_ns.empty() && !has_forward) ends_ns.back() = std::max(ends_ns.back(), end_ns);
        break;
    }
    no_forward_until_ns = std::max(no_forward_until_ns, end_ns);
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
