// The command palette: every command by name, with its key, over everything else while
// it is the Context's overlay.
#pragma once

#include <string>

#include "ui/context.h"
#include "ui/draw_log.h"

namespace shardscope::panels {

class PalettePanel {
 public:
  void Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands);

 private:
  void DrawMatches(const ui::Context& context, ui::Commands* commands);

  // What is typed and which row is marked; forgotten when the palette opens again.
  std::string query_;
  int marked_ = 0;
};

}  // namespace shardscope::panels
