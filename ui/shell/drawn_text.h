// The texts of a picture as they are read: `shardscope shot -o x.txt`, for those who have it read
// to them.
#pragma once

#include <string>
#include <vector>

#include "ui/shell/backend/svg.h"

namespace shardscope::shell {

// Window by window, with a line for each line on screen: from top to bottom, in each from left to
// right, texts two spaces apart. Of equal texts at the same place one is kept.
std::string PrintTexts(const std::vector<WrittenText>& texts);

}  // namespace shardscope::shell
