// RankDrag: a rank's name in the gutter is dragged to where its lanes shall stand. UI thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "ui/commands.h"
#include "ui/context.h"
#include "ui/draw_log.h"
#include "ui/panels/timeline/overlay.h"
#include "ui/timeline/draw/axis_input.h"

namespace shardscope::panels {

class RankDrag {
 public:
  // After AxisInput::Handle(), whose item is the last one: takes the drag that begins on a name,
  // and pushes OrderRanks when it ends.
  void Handle(const ui::Context& context, const TimelineOverlay::Frame& frame,
              timeline::AxisInput* input, ui::Commands* commands);

  // While a name is dragged, a line where its lanes land.
  void Draw(const ui::Context& context, const TimelineOverlay::Frame& frame,
            ui::DrawLog* log) const;

 private:
  std::optional<int32_t> rank_;  // whose name the mouse was pressed on
  std::optional<size_t> place_;  // among Layout::ranks, once it is dragged
};

}  // namespace shardscope::panels
