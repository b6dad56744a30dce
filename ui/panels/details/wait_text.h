// What the details panel says of waits between GPU streams. No ImGui.
#pragma once

#include <string>
#include <vector>

#include "ui/panels/details/details_text.h"
#include "ui/timeline/tracks/stream_waits.h"

namespace shardscope::panels {

// A row a wait, those that differ from the Schedule first; not more than fit.
std::vector<DetailRow> WaitRows(const std::vector<timeline::StreamWait>& waits,
                                ui::Language language);

// What a difference from the Schedule means; empty if there is none.
std::string WaitMeaning(const std::vector<timeline::StreamWait>& waits, ui::Language language);

}  // namespace shardscope::panels
