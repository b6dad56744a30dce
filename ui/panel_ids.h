// Panel ids: what FocusPanel, the draw log and `shot --panel` call each panel, by the rows of
// ui/panel_list.inc: panel_ids::kTimeline is "timeline". And what the draw log calls what stands
// over or beside them.
#pragma once

namespace shardscope::ui::panel_ids {

#define SHARDSCOPE_PANEL(id, Name, ...) inline constexpr const char* k##Name = #id;
#include "ui/panel_list.inc"
#undef SHARDSCOPE_PANEL

// Of no row: they have no tab.
inline constexpr const char* kTopBar = "top_bar";
inline constexpr const char* kBanner = "banner";
inline constexpr const char* kSearch = "search";
inline constexpr const char* kNotice = "notice";

}  // namespace shardscope::ui::panel_ids
