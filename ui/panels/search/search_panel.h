// Search: a field for the query, how many things it finds and how long they take, and a list of
// them to step through. Stands over the memory panel, so that the lanes stay in sight.
#pragma once

#include <string>

#include "ui/context.h"
#include "ui/draw_log.h"
#include "ui/panel.h"

namespace shardscope::panels {

class SearchPanel {
 public:
  // Nothing while the search is closed.
  void Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands);
  // The hits that are listed.
  static ui::TableMaker AsTable(const ui::Context& context);

 private:
  // To the hit that F3 asked for while the search was closed, once it is found.
  void StepOn(const ui::Context& context, ui::Commands* commands);
  void DrawField(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands);
  void DrawHits(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands);

  std::string typed_;
  int opened_ = 0;    // SearchState::opened when the field last got the keyboard
  int revealed_ = 0;  // Revealed::count when the list was last scrolled to a hit
};

}  // namespace shardscope::panels
