// SQL: asks the open run's trace. Views and tables at the left, one SELECT, its rows as a table or
// a chart; a row that tells of an op run, a time or a step leads to it in the timeline.
#pragma once

#include <string>

#include "ui/panel.h"
#include "ui/panels/sql/sql_chart.h"

namespace shardscope::panels {

struct PanelFrame;

class SqlPanel : public ui::Panel {
 public:
  // Keeps what is being typed and how the rows are shown, nothing else.
  void Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) override;
  ui::TableMaker AsTable(const ui::Context& context) const override;

 private:
  void DrawTables(const PanelFrame& frame);
  void DrawStatement(const PanelFrame& frame);
  void DrawAnswer(const PanelFrame& frame);
  void Ask(const PanelFrame& frame);

  std::string text_;
  bool wants_text_ = false;  // its field is to have the keyboard
  int typed_into_ = 0;       // TypedInto::times in the last frame
  bool as_chart_ = false;
  SqlChart chart_;
};

}  // namespace shardscope::panels
