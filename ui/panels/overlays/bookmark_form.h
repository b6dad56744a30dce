// The form of a bookmark: where it is, and a field for its note.
#pragma once

#include <string>

#include "ui/context.h"
#include "ui/draw_log.h"

namespace shardscope::panels {

// In the overlay that is open; `note`: what is being typed. Enter and the button keep it.
void DrawBookmarkForm(const ui::Context& context, std::string* note, ui::DrawLog* log,
                      ui::Commands* commands);

}  // namespace shardscope::panels
