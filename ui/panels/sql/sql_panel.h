// SQL: asks the open run's trace. Views and tables at the left, one SELECT, its rows; a row that
// tells of an op run, a time or a step leads to it in the timeline.
#pragma once

#include <string>

#include "ui/panel.h"

namespace shardscope::panels {

struct PanelFrame;

class SqlPanel : public ui::Panel {
 public:
  // Keeps what is being typed, nothing else.
  void Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) override;
  ui::TableMaker AsTable(const ui::Context& context) const override;

 private:
  void DrawTables(const PanelFrame& frame);
  void DrawStatement(const PanelFrame& frame);
  void Ask(const PanelFrame& frame);

  std::string text_;
};

}  // namespace shardscope::panels
