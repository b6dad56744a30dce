// The app in a window: the loop around Shell.
#pragma once

#include <string>

#include "trace/base/status.h"

namespace shardscope::shell {

// Opens the window, with `run` if it is not empty, and returns when the user quits. Errors: no
// display; `run` cannot be opened.
Status RunWindowApp(const std::string& run);

}  // namespace shardscope::shell
