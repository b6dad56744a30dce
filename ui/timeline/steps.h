// Where the steps of a run begin and end, the one that goes on too. No ImGui.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "trace/query/snapshot.h"

namespace shardscope::timeline {

struct StepSpan {
  int32_t step = 0;
  int64_t start_ns = 0;
  int64_t end_ns = 0;  // so far, of one that goes on
  bool operator==(const StepSpan&) const = default;
};

// Over all ranks, ascending; unfinished ones are not among them.
std::vector<StepSpan> FinishedSteps(const query::Snapshot& snapshot);

// The step of the rank's newest ops that has no end: it goes on, or the run ended in it. Looks at
// the ops of two steps only.
std::optional<StepSpan> UnfinishedStep(const query::RankRows& rows);

// One step over all ranks, finished or not; nullopt if nothing of it was recorded.
std::optional<StepSpan> FindStep(const query::Snapshot& snapshot, int32_t step);

// The first and the last recorded step; nullopt if there is none.
std::optional<std::pair<int32_t, int32_t>> RecordedSteps(const query::Snapshot& snapshot);

// Whether some of the step, or of what is there of it, is between these times.
inline bool IsStepWithin(const query::Snapshot& snapshot, int32_t step, int64_t from_ns,
                         int64_t to_ns) {
  const std::optional<StepSpan> span = FindStep(snapshot, step);
  return span && span->start_ns < to_ns && span->end_ns > from_ns;
}

}  // namespace shardscope::timeline
