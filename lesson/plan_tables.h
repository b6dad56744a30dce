// A Schedule that was not run as tables, so that lessons ask of it as they ask of a trace:
//   plan_op       the ops of rank 0: columns as those of the trace, without id, schedule, program
//   plan_buffer   its buffers: kind, category, unit, segment, bytes, persistent
//   plan_unit     the model's units: name, elements
//   plan          one row: num_ranks, elements, predicted_peak_bytes and executed_peak_bytes, as in
//   the
//                 trace of that run (schedule, schedule_bound)
#pragma once

#include "engine/config/config.h"
#include "trace/base/status.h"
#include "trace/store/database.h"

namespace shardscope::lesson {

// `config` has passed Check(). Errors: no Schedule can be built of it. Nothing can be changed in
// the result.
Result<store::Database> PlanTables(const config::Config& config);

}  // namespace shardscope::lesson
