// Tooltip: one bold line and one dim line beside the mouse, over everything else.
#pragma once

#include <span>
#include <string_view>

#include "ui/widgets/look.h"

namespace shardscope::widgets {

// The name of the window that tooltips keep clear of: it says what was refused under the mouse.
inline constexpr const char* kNoticeWindow = "##notice";

// Shows when the last item is hovered, or has the keyboard and shows so. `detail` may be empty.
void ItemTooltip(const Look& look, std::string_view title, std::string_view detail);

// Shows when the mouse is over `box`, which is no item, of the window that is drawn or of the line
// of its tabs.
void BoxTooltip(const Look& look, const ui::Box& box, std::string_view title,
                std::string_view detail);

// Shows now, with a border of `border`, beside the boxes in `clear_of`. Measured before it is
// drawn, so that it fits its text from its first frame on. Returns the box it covers.
ui::Box Tooltip(const Look& look, std::string_view title, std::string_view detail, Color border,
                std::span<const ui::Box> clear_of = {});

// The same beside `at` instead of the mouse.
ui::Box TooltipAt(const Look& look, ImVec2 at, std::string_view title, std::string_view detail,
                  Color border, std::span<const ui::Box> clear_of = {});

// The left top of a tooltip of `size`: inside `bounds`, beside `mouse` and the boxes in `clear_of`,
// as near to the mouse as that allows.
ImVec2 PlaceTooltip(ImVec2 mouse, float distance, ImVec2 size, const ui::Box& bounds,
                    std::span<const ui::Box> clear_of);

}  // namespace shardscope::widgets
