// Finds what the Runs panel offers: runs, presets, the trainer, a free folder.
#pragma once

#include <string>
#include <vector>

#include "ui/context.h"

namespace shardscope::shell {

// `recent`: folders opened before, newest first; joined by the runs in ./runs. Runs that are gone
// are left out.
ui::Places FindPlaces(const std::vector<std::string>& recent, const std::string& program_folder);

// The same without any runs.
ui::Places FindProgramPlaces(const std::string& program_folder);

}  // namespace shardscope::shell
