// What one change would make of the peak, what saves and changes least first.
#pragma once

#include <memory>

#include "ui/context.h"
#include "ui/draw_log.h"
#include "ui/memory_choices.h"
#include "ui/panel.h"

namespace shardscope::panels {

// Into the rest of the window. A click turns the knob of a run that trains, or shows it in the form
// of a new run.
void DrawMemoryChoices(const ui::Context& context, const ui::MemoryChoices& choices,
                       ui::DrawLog* log, ui::Commands* commands);

// The same as a table; null: there is none.
ui::TableMaker TableOfChoices(const std::shared_ptr<const ui::MemoryChoices>& choices);

}  // namespace shardscope::panels
