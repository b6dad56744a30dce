// When finished steps ran: from the first start to the last end.
#pragma once

#include <algorithm>
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

}  // namespace shardscope::query
