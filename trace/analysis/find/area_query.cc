// Which stretch of time is meant.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "trace/analysis/find/area.h"
#include "trace/analysis/no_such_steps.h"
#include "trace/analysis/scope.h"
#include "trace/base/units.h"
#include "trace/query/step_times.h"

namespace shardscope::analysis {
namespace {

using query::RankRows;
using query::Snapshot;

bool IsChosen(const std::vector<int32_t>& ranks, int32_t rank) {
  return ranks.empty() || std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

Result<Interval> TimeOfStep(const Snapshot& snapshot, int32_t step,
                            const std::vector<int32_t>& ranks) {
  std::optional<Interval> time;
  int32_t first = std::numeric_limits<int32_t>::max();
  int32_t last = -1;
  for (const RankRows& rows : snapshot.ranks) {
    if (!IsChosen(ranks, rows.rank) || rows.steps.empty()) continue;
    first = std::min(first, rows.steps[0].step);
    last = std::max(last, rows.steps.back().step);
    query::AddTimesOfSteps(rows, step, step, &time);
  }
  if (time && time->end_ns > time->start_ns) return *time;
  return NoSuchSteps(step, step, first, last);
}

Result<Interval> TimeInRun(const Snapshot& snapshot, const Interval& from_start) {
  const int64_t length_ns = snapshot.end_ns - snapshot.start_ns;
  const Interval cut{from_start.start_ns, std::min(from_start.end_ns, length_ns)};
  if (cut.start_ns < cut.end_ns) {
    return Interval{snapshot.start_ns + cut.start_ns, snapshot.start_ns + cut.end_ns};
  }
  return Status::Error(fmt::format("nothing from {} on: this trace has {}, from 0s on",
                                   FormatDuration(from_start.start_ns), FormatDuration(length_ns)));
}

}  // namespace

Result<AreaText> ParseArea(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) {
    if (const auto step = ParseStep(text)) return AreaText{step, {}};
  } else {
    const auto from = ParseDuration(text.substr(0, colon));
    const auto to = ParseDuration(text.substr(colon + 1));
    if (from && to && *from >= 0 && *from < *to) return AreaText{std::nullopt, {*from, *to}};
  }
  return Status::Error(
      "give a:b, from time a up to time b since the start of the run, such as 12.5s:13.1s, or the "
      "number of a step");
}

Result<AreaQuery> ResolveArea(const Snapshot& snapshot, const AreaText& text,
                              std::vector<int32_t> ranks) {
  for (const int32_t rank : ranks) {
    if (snapshot.FindRank(rank) != nullptr) continue;
    return Status::Error(fmt::format("no rank {}: this trace has {} of them, from {} on", rank,
                                     snapshot.ranks.size(),
                                     snapshot.ranks.empty() ? 0 : snapshot.ranks.front().rank));
  }
  const Result<Interval> time =
      text.step ? TimeOfStep(snapshot, *text.step, ranks) : TimeInRun(snapshot, text.time);
  if (!time.ok()) return time.status();
  return AreaQuery{*time, std::move(ranks)};
}

}  // namespace shardscope::analysis
