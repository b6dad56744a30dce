// Which rank sends how much to which, as squares of colour: senders from the top, receivers from
// the left.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "trace/analysis/collectives/collective_table.h"
#include "ui/context.h"
#include "ui/draw_log.h"

namespace shardscope::panels {

class MatrixView {
 public:
  // Fills the box. A click leads to the sender in the timeline. `context.collectives` is not null.
  void Draw(const ui::Context& context, const ui::Box& box, ui::DrawLog* log,
            ui::Commands* commands);

 private:
  void Update(const ui::Context& context, size_t most);
  void DrawCells(const ui::Context& context, const ui::Box& square, ui::DrawLog* log) const;
  void HandleMouse(const ui::Context& context, const ui::Box& square, ui::Commands* commands) const;

  // What cells_ were made of.
  std::shared_ptr<const analysis::CollectiveTable> made_of_;
  size_t made_for_ = 0;
  std::vector<analysis::MatrixCell> cells_;
  int64_t most_bytes_ = 0;  // of a cell
};

}  // namespace shardscope::panels
