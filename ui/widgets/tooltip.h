// Tooltip: one bold line and one dim line beside the mouse.
#pragma once

#include <string_view>

#include "ui/widgets/look.h"

namespace shardscope::widgets {

// Shows when the last item is hovered. `detail` may be empty.
void ItemTooltip(const Look& look, std::string_view title, std::string_view detail);

// Shows now, with a border of `border`.
void Tooltip(const Look& look, std::string_view title, std::string_view detail, Color border);

}  // namespace shardscope::widgets
