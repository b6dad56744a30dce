// Dashed lines over the stacks of a rank: what each Schedule in view was predicted to take, and
// engine.memory_limit; each with a label that stands clear of all lines and labels, and where there
// is room of the stacks too.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ui/context.h"
#include "ui/draw_log.h"
#include "ui/panels/memory/memory_stack.h"
#include "ui/timeline/axis.h"

namespace shardscope::panels {

// Where a rank's memory is drawn: from 0 at the bottom to `max_bytes` at the top.
struct MemoryPlot {
  int32_t rank = 0;
  ui::Box box;
  int64_t max_bytes = 1;
  const MemoryStack& stack;  // what is drawn there
  const DeviceMemory& device;
};

// Finds room for labels. Pixels; no Dear ImGui.
class LabelRoom {
 public:
  // Labels stay inside `bounds`, and `gap` from any line.
  LabelRoom(const ui::Box& bounds, float gap) : bounds_(bounds), gap_(gap) {}

  void AddLine(float x0, float x1, float y) { lines_.push_back({x0, y - gap_, x1, y + gap_}); }

  // `wanted`, or as near to it as there is room above or below, but not below `lowest`; that room
  // is taken then. nullopt: there is none.
  std::optional<ui::Box> Take(const ui::Box& wanted, std::optional<float> lowest = std::nullopt);

  const std::vector<ui::Box>& labels() const { return labels_; }

 private:
  bool IsFree(const ui::Box& box) const;

  ui::Box bounds_;
  float gap_;
  std::vector<ui::Box> lines_;
  std::vector<ui::Box> labels_;
};

// Logs them as "predicted_peak:<rank>", "executed_bound:<rank>" and "memory_limit"; a line whose
// label found no room with its own box and no text of it on screen.
void DrawPlotLines(const ui::Context& context, const timeline::Axis& axis, const MemoryPlot& plot,
                   ui::DrawLog* log);

}  // namespace shardscope::panels
