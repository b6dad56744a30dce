// engine.memory_limit in the memory panel: a line over the stacks, and what the error of a run that
// came to it, or of a change that would, says to do.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trace/query/snapshot.h"
#include "ui/context.h"
#include "ui/draw_log.h"

namespace shardscope::panels {

// Bytes a rank; 0: none.
int64_t MemoryLimitOf(const query::Snapshot& snapshot);

// A line at `y` across `box`, with its label at the left.
void DrawMemoryLimit(const ui::Context& context, int64_t limit_bytes, const ui::Box& box, float y,
                     ui::DrawLog* log);

// The last refusal if it is for lack of memory, else such an error of the run; else empty.
std::string OutOfMemoryOf(const ui::Context& context);

// Its sentences: what needs how much, what is live at the peak, what fits.
std::vector<std::string_view> OutOfMemoryLines(std::string_view text);

// A bar with a sentence a line, as many as `box` has room for; returns where it ends.
float DrawOutOfMemory(const ui::Context& context, const ui::Box& box, ui::DrawLog* log);

}  // namespace shardscope::panels
