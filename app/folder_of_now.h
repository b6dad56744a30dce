// Where a run is recorded that was given no folder.
#pragma once

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <string>
#include <string_view>

namespace shardscope::app {

// runs/START20250131-235959, the local time. Of two in one second it is the same.
inline std::string FolderOfNow(std::string_view start) {
  return fmt::format("runs/{}{:%Y%m%d-%H%M%S}", start, fmt::localtime(std::time(nullptr)));
}

}  // namespace shardscope::app
