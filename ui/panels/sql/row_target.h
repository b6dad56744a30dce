// Where in the timeline a row of a SELECT is, by the names of its columns as docs/trace.md has
// them. No Dear ImGui.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trace/query/select.h"
#include "trace/query/snapshot.h"
#include "ui/commands.h"

namespace shardscope::panels {

// What shows it: its op run, selected (`op_run`; `id` where `ready_ns` or `ready_ms` says that it
// is one); else its time, from a start with an end or a duration; else its step. Empty: the row
// tells of none, or of one that the snapshot lacks. `origin_ns`: what columns in ms count from.
ui::Commands CommandsToShow(const query::Snapshot& snapshot, std::optional<int64_t> origin_ns,
                            const std::vector<std::string>& names,
                            const std::vector<query::Cell>& cells);

}  // namespace shardscope::panels
