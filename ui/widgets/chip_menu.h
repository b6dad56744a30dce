// A chip that says what is chosen and opens the list of what else can be.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ui/widgets/look.h"

namespace shardscope::widgets {

struct ChipMenu {
  std::string_view label;
  std::string_view tip;
  std::string_view tip_detail;
  const std::vector<std::string>& options;
  int chosen = -1;
};

float ChipMenuWidth(const Look& look, std::string_view label);

struct ChipMenuResult {
  ui::Box box;
  int clicked = -1;  // of the options
};
ChipMenuResult DrawChipMenu(const Look& look, const char* id, ImVec2 at, const ChipMenu& menu);

}  // namespace shardscope::widgets
