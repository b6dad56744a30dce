// Panel ids: what FocusPanel, the draw log and `shot --panel` call each panel, by the rows of
// ui/panel_list.inc: panel_ids::kTimeline is "timeline".
#pragma once

namespace shardscope::ui::panel_ids {

#define SHARDSCOPE_PANEL(id, Name, ...) inline constexpr const char* k##Name = #id;
#include "ui/panel_list.inc"
#undef SHARDSCOPE_PANEL

}  // namespace shardscope::ui::panel_ids
