// FinishedTrace: a large finished trace file as a LiveTrace: a few steps at once, everything later.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "trace/base/status.h"
#include "trace/query/live_trace.h"

namespace shardscope::store {
class FinishedSource;
}

namespace shardscope::query {

// The first Snapshot (`loading`) has the steps around the newest change of a knob, or the last
// ones; the second and last one, from a thread of its own, has everything. `folder` and `name` are
// what the Snapshots say.
Result<std::unique_ptr<LiveTrace>> OpenFinishedTrace(std::unique_ptr<store::FinishedSource> source,
                                                     std::string folder, std::string name,
                                                     std::function<void()> on_change);

}  // namespace shardscope::query
