// What one change would make of the peak, what saves and changes least first.
#pragma once

#include <memory>
#include <string>

#include "ui/context.h"
#include "ui/draw_log.h"
#include "ui/memory_choices.h"
#include "ui/panel.h"

namespace shardscope::panels {

// Rows change places once a knob is turned. Until the mouse has left the row that was clicked, no
// other row that comes there takes a click, such as the second of a double click. Pixels; no Dear
// ImGui.
class ClickedRow {
 public:
  // Once a frame, before rows are clicked: where the mouse is, and whether rows are scrolled, which
  // is meant to bring others under it.
  void MouseAt(float x, float y, bool scrolls);
  // Whether a click of the mouse on `row`, which lies in `box`, counts.
  bool Takes(const std::string& row, const ui::Box& box);

 private:
  std::string row_;  // empty: none
  ui::Box box_;
};

// Into the rest of the window. A click turns the knob of a run that trains, or shows it in the form
// of a new run.
void DrawMemoryChoices(const ui::Context& context, const ui::MemoryChoices& choices,
                       ClickedRow* clicked, ui::DrawLog* log, ui::Commands* commands);

// The same as a table; null: there is none.
ui::TableMaker TableOfChoices(const std::shared_ptr<const ui::MemoryChoices>& choices);

}  // namespace shardscope::panels
