// Collectives: added up by what they do, for whom and among whom, in a table that can be sorted,
// and each as a point of size and bandwidth. A click leads to one of them in the timeline.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "trace/analysis/collectives/collective_table.h"
#include "ui/panel.h"
#include "ui/panels/collectives/matrix_view.h"
#include "ui/widgets/tables.h"

namespace shardscope::panels {

// A row of the table, of a group or of a step.
struct CollectiveRow {
  analysis::CollectiveGroup group;
  int32_t step = -1;  // of a step
};

struct CollectivesFrame;

class CollectivesPanel : public ui::Panel {
 public:
  // Keeps what was chosen and the rows in their order, nothing else.
  void Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) override;
  ui::TableMaker AsTable(const ui::Context& context) const override;

 private:
  enum class Rows : uint8_t { kEach, kByKind, kByUnit, kByDimension, kByStep };
  void DrawChoices(const CollectivesFrame& frame);
  void Update(const CollectivesFrame& frame);
  void Sort(const CollectivesFrame& frame);
  void DrawTable(const CollectivesFrame& frame, float height);
  void DrawChart(const CollectivesFrame& frame);

  Rows shown_ = Rows::kEach;
  bool shows_matrix_ = false;  // instead of the points
  MatrixView matrix_;
  widgets::TableOrder order_;
  // What rows_ were made of.
  std::shared_ptr<const analysis::CollectiveTable> made_of_;
  Rows made_for_ = Rows::kEach;
  std::vector<CollectiveRow> rows_;
};

}  // namespace shardscope::panels
