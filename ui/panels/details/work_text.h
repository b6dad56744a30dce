// What the details panel says of a kernel, a copy or a range: its rows and the sentence under them.
// No ImGui.
#pragma once

#include <string>
#include <vector>

#include "ui/panels/details/details_text.h"
#include "ui/timeline/tracks/work_facts.h"

namespace shardscope::panels {

std::vector<DetailRow> WorkRows(const timeline::WorkFacts& facts, ui::Language language);
std::string WorkMeaning(const timeline::WorkFacts& facts, ui::Language language);

// "kernel", "copy to the device", "range".
std::string WorkKindName(const timeline::WorkFacts& facts, ui::Language language);

}  // namespace shardscope::panels
