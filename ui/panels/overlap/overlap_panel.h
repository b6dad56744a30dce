// Overlap: per step compute, exposed communication and idle time, the overlap ratio, and the
// dearest stalls with their causes.
#pragma once

#include <memory>
#include <vector>

#include "ui/commands.h"
#include "ui/panel.h"
#include "ui/panels/overlap/overlap_bars.h"

namespace shardscope::panels {

class OverlapPanel : public ui::Panel {
 public:
  // Fills the current window.
  void Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) override;
  ui::TableMaker AsTable(const ui::Context& context) const override;

 private:
  void UpdateBars(const ui::Context& context, int32_t rank, int max_bars);
  void DrawCorner(const ui::Context& context, int32_t rank, ui::DrawLog* log) const;
  void DrawChart(const ui::Context& context, const ui::Box& box, ui::DrawLog* log,
                 ui::Commands* commands) const;
  void DrawChanges(const ui::Context& context, const ui::Box& box, ui::DrawLog* log) const;
  void DrawBar(const ui::Context& context, const OverlapBar& bar, const ui::Box& box,
               ui::DrawLog* log) const;
  void DrawRatio(const ui::Context& context, const ui::Box& box) const;
  void HandleChart(const ui::Context& context, const ui::Box& box, ui::Commands* commands) const;
  float BarX(const ui::Box& box, size_t bar) const;

  std::shared_ptr<const analysis::Report> report_;  // that bars_ are of
  int32_t rank_ = -1;
  int max_bars_ = 0;
  int32_t change_step_ = -1;
  double tallest_ns_ = 0;
  std::vector<OverlapBar> bars_;
};

}  // namespace shardscope::panels
