// Whether a run may be started in a folder, in the language of the app.
#pragma once

#include <string>

#include "ui/language.h"

namespace shardscope::ui {

// "runs/a holds a run already; choose another folder."; empty: it takes a run. Reads the folder.
std::string WhyFolderIsTaken(Language language, const std::string& folder);

}  // namespace shardscope::ui
