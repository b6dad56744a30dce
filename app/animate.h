// `shardscope shot --animate`: a step in the time lens as a file that plays.
#pragma once

#include <string>

#include "trace/base/status.h"
#include "trace/query/snapshot.h"
#include "ui/shell/shot.h"

namespace shardscope::app {

// "1/100" as 100. The error says what is wrong.
Result<int> ParseSlowness(const std::string& text);

// By its name: an animated PNG, or an MP4 by the program ffmpeg. Before anything is drawn.
Status CheckAnimationOutput(const std::string& path);

// Errors: those of shell::TakeAnimation(), of the file and of ffmpeg. A file half written is not
// left.
Status WriteAnimation(query::SnapshotPtr snapshot, const shell::ShotOptions& options,
                      const shell::Animation& animation, const std::string& path);

}  // namespace shardscope::app
