// Where commands may put the file that -o names: a file of a run is never replaced by what is made
// of one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trace/base/status.h"

namespace shardscope::app {

// ".png" of "a.PNG": in small letters.
std::string EndingOf(const std::string& path);

// An error, which begins with `option` and the path, where `path` is a file of any run or its name
// is kept for one: a trace of any name, run.toml, bookmarks, log, checkpoints, schedules. Links are
// followed.
Status CheckIsOfNoRun(const std::string& option, const std::string& path);

// Before anything is made: `path`, given with -o, ends in one of `endings`, is of no run and can be
// written. `wanted` says after the path which names are taken. What is no regular file, as a pipe
// or /dev/stdout, may be called anything.
Status CheckOutputFile(const std::string& path, const std::vector<std::string_view>& endings,
                       const std::string& wanted);

}  // namespace shardscope::app
