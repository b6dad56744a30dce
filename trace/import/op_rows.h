// Writes the ops of a recording as rows: a Schedule, what ran of it, and its collectives.
#pragma once

#include <cstdint>
#include <string>

#include "trace/base/status.h"
#include "trace/import/ops.h"
#include "trace/import/recording.h"
#include "trace/import/recording_rows.h"
#include "trace/import/steps.h"
#include "trace/schema/rows.h"
#include "trace/store/finished_writer.h"

namespace shardscope::imports {

inline constexpr schema::ScheduleId kInferredSchedule{1};

// The track of a lane has the id behind those of the recording's tracks.
inline schema::TrackId IdOfLane(const Recording& recording, uint32_t lane) {
  return schema::TrackId(static_cast<int64_t>(recording.tracks.size()) + lane + 1);
}
inline schema::PlanOpId IdOfOp(uint32_t op) { return schema::PlanOpId(int64_t{op} + 1); }

// Of a group as collectives name it: that, with what it was made for where the file says so.
std::string CommunicatorOfGroup(const Recording& recording, const std::string& name);

Status WriteOpRows(const RunFacts& facts, const Recording& recording, const HostSteps& steps,
                   const InferredOps& ops, store::FinishedWriter* writer);

}  // namespace shardscope::imports
