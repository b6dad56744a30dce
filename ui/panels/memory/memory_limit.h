// engine.memory_limit in the memory panel: what it is, and what the error of a run that came to it,
// or of a change that would, says to do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/query/snapshot.h"
#include "ui/context.h"
#include "ui/draw_log.h"

namespace shardscope::panels {

// Bytes a rank; 0: none.
int64_t MemoryLimitOf(const query::Snapshot& snapshot);

// The last refusal if it is for lack of memory, else such an error of the run, in the language of
// the app; else empty.
std::string OutOfMemoryOf(const ui::Context& context);

// Its sentences: of a change that it was refused, what needs how much, what is live at the peak,
// what fits. Empty: nothing lacked memory.
std::vector<std::string> OutOfMemorySentences(const ui::Context& context);

// A bar with these, wrapped, as many as `box` has room for; returns where it ends. A click on its
// cross puts it away: `put_away` has that error until there is another one, or none.
float DrawOutOfMemory(const ui::Context& context, const ui::Box& box, std::string* put_away,
                      ui::DrawLog* log);

}  // namespace shardscope::panels
