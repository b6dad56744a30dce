// Where the mini-runs of lessons are, for app and command line alike: runs/lesson-ID-N.
#pragma once

#include <optional>
#include <string>

namespace shardscope::lesson {

// One that is not there yet.
std::string NewRunFolder(const std::string& id);

// The run of the lesson that began last; none: it has none yet.
std::optional<std::string> NewestRun(const std::string& id);

}  // namespace shardscope::lesson
