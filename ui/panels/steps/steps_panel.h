// Steps: every step of the run over all ranks, as a chart and a table that can be sorted: what it
// took, what was exposed, what it trained, and what was changed at it. A click leads to the step;
// the one that the timeline comes to show is marked and scrolled to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "trace/analysis/steps/step_table.h"
#include "ui/panel.h"
#include "ui/widgets/tables.h"

namespace shardscope::panels {

struct StepsFrame;

class StepsPanel : public ui::Panel {
 public:
  // Keeps the order of the rows, nothing else.
  void Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) override;
  ui::TableMaker AsTable(const ui::Context& context) const override;

 private:
  void Update(const StepsFrame& frame);
  void DrawTable(const StepsFrame& frame, float height);
  // Whether the timeline came to show another step than in the last frame.
  bool LeadsToAnotherStep(const ui::Context& context);
  // The row of `led_to_` as the table has them; -1: none.
  int PlaceOfStep(const std::vector<analysis::StepRow>& rows) const;

  std::shared_ptr<const std::vector<analysis::StepRow>> made_of_;
  widgets::TableOrder sorted_;  // by none: by step
  std::vector<size_t> order_;   // of made_of_; empty: as they are
  int32_t led_to_ = -1;         // the step that the timeline showed last
};

}  // namespace shardscope::panels
