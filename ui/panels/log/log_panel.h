// Log and trace health: what was dropped, what each source could record, how far the picture lags
// behind, and messages.
#pragma once

#include "ui/panel.h"

namespace shardscope::panels {

class LogPanel : public ui::Panel {
 public:
  void Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) override;
};

}  // namespace shardscope::panels
