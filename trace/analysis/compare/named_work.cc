#include "trace/analysis/compare/named_work.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "trace/analysis/capped_sum.h"
#include "trace/base/torch_range_names.h"

namespace shardscope::analysis {
namespace {

// By index of its name.
using WorkByIndex = std::unordered_map<int32_t, NamedWork>;

void AddWork(int32_t name, int64_t count, int64_t duration_ns, WorkByIndex* work) {
  NamedWork& sum = (*work)[name];
  sum.count += count;
  AddCapped(duration_ns, &sum.duration_ns);
}

// Times of the steps, sorted; steps of a rank do not overlap.
class StepTimes {
 public:
  StepTimes(const query::RankRows& rows, const std::set<int32_t>& steps) {
    for (const query::Step& step : rows.steps) {
      if (steps.contains(step.step)) times_.push_back({step.start_ns, step.end_ns});
    }
    std::sort(times_.begin(), times_.end(),
              [](const Interval& a, const Interval& b) { return a.start_ns < b.start_ns; });
  }
  bool Contain(int64_t time_ns) const {
    const auto after =
        std::partition_point(times_.begin(), times_.end(),
                             [&](const Interval& step) { return step.start_ns <= time_ns; });
    return after != times_.begin() && time_ns < std::prev(after)->end_ns;
  }

 private:
  std::vector<Interval> times_;
};

// Of one thread, `spans` in any order. What lies inside of another span is taken from its time.
void AddOwnTimes(std::vector<query::Span>* spans, WorkByIndex* work) {
  std::stable_sort(spans->begin(), spans->end(), [](const query::Span& a, const query::Span& b) {
    return std::pair(a.start_ns, -a.end_ns) < std::pair(b.start_ns, -b.end_ns);
  });
  std::vector<const query::Span*> around;
  for (const query::Span& span : *spans) {
    while (!around.empty() && around.back()->end_ns <= span.start_ns) around.pop_back();
    const int64_t end_ns =
        around.empty() ? span.end_ns : std::min(span.end_ns, around.back()->end_ns);
    const int64_t duration_ns = std::max<int64_t>(end_ns - span.start_ns, 0);
    AddWork(span.name, 1, duration_ns, work);
    if (!around.empty()) (*work)[around.back()->name].duration_ns -= duration_ns;
    around.push_back(&span);
  }
}

void AddSpans(const query::RankRows& rows, const std::set<int32_t>& steps,
              const std::vector<bool>& is_left_out, WorkByIndex* work) {
  const StepTimes times(rows, steps);
  std::map<query::TrackId, std::vector<query::Span>> by_track;
  for (const query::Span& span : rows.spans) {
    const bool known = span.name >= 0 && static_cast<size_t>(span.name) < is_left_out.size();
    if (!known || is_left_out[static_cast<size_t>(span.name)]) continue;
    if (span.category == query::SpanCategory::kWait || !times.Contain(span.start_ns)) continue;
    by_track[span.track].push_back(span);
  }
  for (auto& [track, spans] : by_track) AddOwnTimes(&spans, work);
}

}  // namespace

WorkByName WorkOf(const query::Snapshot& snapshot, const MeasuredSide& side) {
  std::set<int32_t> steps;
  for (const int32_t at : side.middle) steps.insert(side.steps[static_cast<size_t>(at)]);
  WorkByName result;
  for (const query::RankRows& rows : snapshot.ranks) result.of_gpu |= !rows.gpu_work.empty();
  WorkByIndex work;
  std::vector<bool> is_left_out;
  if (!result.of_gpu) {
    for (const std::string& name : snapshot.names) {
      is_left_out.push_back(name.starts_with(torch_range_names::kStep));
    }
  }
  for (const query::RankRows& rows : snapshot.ranks) {
    if (!result.of_gpu) {
      AddSpans(rows, steps, is_left_out, &work);
      continue;
    }
    for (const query::GpuWork& row : rows.gpu_work) {
      if (!steps.contains(row.step)) continue;
      AddWork(row.name, 1, std::max<int64_t>(row.end_ns - row.start_ns, 0), &work);
    }
  }
  for (const auto& [name, sum] : work) {
    if (name < 0 || static_cast<size_t>(name) >= snapshot.names.size()) continue;
    NamedWork& named = result.names[snapshot.names[static_cast<size_t>(name)]];
    named.count += sum.count;
    AddCapped(std::max<int64_t>(sum.duration_ns, 0), &named.duration_ns);
  }
  return result;
}

}  // namespace shardscope::analysis
