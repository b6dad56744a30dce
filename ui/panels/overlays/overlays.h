// Overlays: what is drawn over everything else while it is the Context's overlay. The menu of the
// top bar (language, theme, size, and the way to the others), all changes of knobs to jump to, all
// commands by name, the list of keys, a field that takes the view to a step, a moment or where a
// link leads, a few sentences of help, and the question whether the training shall really stop.
#pragma once

#include <string>

#include "ui/context.h"
#include "ui/draw_log.h"

namespace shardscope::panels {

class Overlays {
 public:
  void Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands);

 private:
  void DrawContent(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands);
  void DrawPalette(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands);
  void DrawMatches(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands);
  void GoTo(const ui::Context& context, ui::Commands* commands);
  void DrawGoTo(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands);

  // What is typed, which command is marked, and what is wrong with a number; forgotten when an
  // overlay opens.
  std::string typed_;
  int marked_ = 0;
  std::string error_;
  bool selects_ = false;  // what is typed, as soon as its field has the keyboard again
};

}  // namespace shardscope::panels
