// The field that takes the view to a step by its number: Overlay::kGoTo.
#pragma once

#include <string>

#include "ui/context.h"
#include "ui/draw_log.h"

namespace shardscope::panels {

class GoToPanel {
 public:
  void Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands);

 private:
  void DrawContent(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands);

  // What is typed, and what is wrong with it; forgotten when the field opens again.
  std::string number_;
  std::string error_;
};

}  // namespace shardscope::panels
