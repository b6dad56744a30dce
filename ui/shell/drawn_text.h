// The texts that were drawn, as they are read: `shardscope shot -o x.txt`, for those who have a
// picture read to them.
#pragma once

#include <string>

#include "ui/draw_log.h"

namespace shardscope::shell {

// Panel by panel under its name, with a line for each line on screen: from top to bottom, in each
// from left to right, texts two spaces apart. What has no text, or the same one at the same place
// as another, is left out.
std::string PrintDrawnTexts(const ui::DrawLog& log);

}  // namespace shardscope::shell
