// The top of the timeline: minimap of the whole run and the ruler of steps.
#pragma once

#include <memory>
#include <vector>

#include "ui/commands.h"
#include "ui/context.h"
#include "ui/draw_log.h"
#include "ui/panels/timeline/area_marker.h"
#include "ui/panels/timeline/hit_marks.h"
#include "ui/timeline/minimap.h"

namespace shardscope::panels {

class TimelineHeader {
 public:
  // Draws at the cursor and moves it below.
  void Draw(const ui::Context& context, const timeline::Axis& axis, ui::DrawLog* log,
            ui::Commands* commands);

 private:
  void DrawMinimap(const ui::Context& context, const timeline::Axis& axis, ui::DrawLog* log,
                   ui::Commands* commands);
  void HandleMinimap(const ui::Context& context, const timeline::Axis& run_axis,
                     ui::Commands* commands);

  std::shared_ptr<const analysis::Report> report_;  // that bars_ are of
  timeline::Range run_;
  float width_ = 0;
  float left_ = 0;
  std::vector<timeline::MinimapBar> bars_;
  MinimapHits hits_;
  AreaMarker area_;
  int64_t grabbed_ns_ = 0;
};

// Step numbers, and inside a step milliseconds from its start when there is room.
void DrawRuler(const ui::Context& context, const timeline::Axis& axis, const ui::Box& box,
               ui::DrawLog* log);

// The toggle that keeps the newest steps in view.
void DrawFollow(const ui::Context& context, const ui::Box& box, ui::DrawLog* log,
                ui::Commands* commands);

}  // namespace shardscope::panels
