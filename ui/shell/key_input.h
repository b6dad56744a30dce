// What the keyboard asks for this frame: actions with their keys, and panning and zooming by keys.
#pragma once

#include <string_view>

#include "ui/context.h"

namespace shardscope::shell {

// While the user types into a field, only what fields leave alone. `panel`: the one that has the
// keyboard; empty: what is in no panel has it, or nothing.
void ReadKeys(const ui::Context& context, std::string_view panel, const ui::View& goal,
              ui::Commands* commands);

// After a frame. A focus that is seen but on nothing, as after Escape or where a click took its
// item away, would leave Tab without a place to go on from: now it begins anew.
void ForgetLostFocus();

// Pure: the view moved by a share of its span, or zoomed around a time.
ui::SetView Panned(const ui::View& view, double share);
ui::SetView Zoomed(const ui::View& view, double factor, int64_t around_ns);

}  // namespace shardscope::shell
