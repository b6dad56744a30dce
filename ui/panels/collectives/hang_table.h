// Where each rank is in the collectives of its groups, by the dumps of flight recorders, as
// `shardscope report` lists it.
#pragma once

#include "ui/panels/panel_frame.h"

namespace shardscope::panels {

// What holds up whom, and a table a group; of many groups the first. false, and nothing: there are
// no dumps.
bool DrawHangTables(const PanelFrame& frame);

}  // namespace shardscope::panels
