// When finished steps ran, from the first start to the last end, and which ran when.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "trace/base/interval.h"
#include "trace/query/snapshot.h"

namespace shardscope::query {

// Makes `times` reach over the steps [first, last] of one rank too; none of them leaves it alone.
inline void AddTimesOfSteps(const RankRows& rows, int32_t first, int32_t last,
                            std::optional<Interval>* times) {
  rows.steps.ForEachOfSteps(first, last, [times](const Step& row, size_t) {
    if (!*times) *times = Interval{row.start_ns, row.end_ns};
    (*times)->start_ns = std::min((*times)->start_ns, row.start_ns);
    (*times)->end_ns = std::max((*times)->end_ns, row.end_ns);
  });
}

// Over all ranks; nullopt: none has finished any of these steps.
inline std::optional<Interval> TimesOfSteps(const Snapshot& snapshot, int32_t first, int32_t last) {
  std::optional<Interval> times;
  for (const RankRows& rows : snapshot.ranks) AddTimesOfSteps(rows, first, last, &times);
  return times;
}

// Rows of RankRows::steps that follow each other.
struct TouchedSteps {
  RowList<Step>::Iterator first;
  RowList<Step>::Iterator last;  // behind them

  RowList<Step>::Iterator begin() const { return first; }
  RowList<Step>::Iterator end() const { return last; }
  bool empty() const { return first == last; }
  std::ptrdiff_t size() const { return last - first; }
};

// The finished steps of a rank that have a part in `range`. They lie in `rows`, which outlives
// them.
inline TouchedSteps StepsThatTouch(const RankRows& rows, Interval range) {
  const auto first =
      std::partition_point(rows.steps.begin(), rows.steps.end(),
                           [&](const Step& step) { return step.end_ns <= range.start_ns; });
  const auto last = std::partition_point(
      first, rows.steps.end(), [&](const Step& step) { return step.start_ns < range.end_ns; });
  return {first, last};
}

// The finished step of a rank that `time_ns` is in, in `rows`; nullptr: none.
inline const Step* StepAt(const RankRows& rows, int64_t time_ns) {
  const auto step = std::partition_point(rows.steps.begin(), rows.steps.end(),
                                         [&](const Step& row) { return row.end_ns <= time_ns; });
  return step != rows.steps.end() && step->start_ns <= time_ns ? &*step : nullptr;
}

// The newest step that all ranks have finished; -1: none.
inline int32_t NewestStepOfAll(const Snapshot& snapshot) {
  int32_t newest = snapshot.ranks.empty() ? -1 : INT32_MAX;
  for (const RankRows& rows : snapshot.ranks) {
    newest = std::min(newest, rows.steps.empty() ? -1 : rows.steps.back().step);
  }
  return newest;
}

}  // namespace shardscope::query
