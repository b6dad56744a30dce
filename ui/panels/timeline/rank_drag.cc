#include "ui/panels/timeline/rank_drag.h"

#include <imgui.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ui/ranks.h"
#include "ui/theme.h"
#include "ui/timeline/lane.h"
#include "ui/widgets/look.h"

namespace shardscope::panels {
namespace {

constexpr float kDraggedRow = 2 * ui::kGrid + ui::kTextSize;  // of a rank's block, its name in it
constexpr float kLandingLine = 2;                             // how thick

// Whose lanes stand under one another on screen.
std::vector<int32_t> ShownRanks(const timeline::Layout& layout) {
  std::vector<int32_t> ranks;
  ranks.reserve(layout.ranks.size());
  for (const timeline::RankBlock& block : layout.ranks) ranks.push_back(block.rank);
  return ranks;
}

}  // namespace

void RankDrag::Handle(const ui::Context& context, const TimelineOverlay::Frame& frame,
                      timeline::AxisInput* input, ui::Commands* commands) {
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  const float y = mouse.y - frame.origin;
  if (ImGui::IsItemActivated()) {
    rank_.reset();
    const timeline::RankBlock* block = timeline::RankAt(frame.layout, y);
    const bool on_name = block != nullptr && mouse.x < frame.axis.left() &&
                         y < block->y + kDraggedRow * context.scale;
    if (on_name) {
      rank_ = block->rank;
      input->LeaveDrag();
    }
  }
  if (!rank_) return;
  const std::vector<int32_t> shown = ShownRanks(frame.layout);
  if (ImGui::IsItemActive() && input->is_dragging()) {
    // Over the first whose middle is below the mouse.
    const auto above = std::ranges::count_if(
        frame.layout.ranks,
        [y](const timeline::RankBlock& block) { return block.y + block.height / 2 < y; });
    place_ = ui::LandingPlace(shown, context.lanes, *rank_, static_cast<size_t>(above));
    ImGui::SetMouseCursor(ImGuiMouseCursor_ResizeNS);
  }
  if (ImGui::IsItemActive()) return;
  // Not when the drag was left while nothing was drawn.
  if (place_ && ImGui::IsItemDeactivated()) {
    commands->push_back(ui::OrderRanks{
        ui::OrderWithMoved(*context.snapshot, context.lanes, shown, *rank_, *place_)});
  }
  rank_.reset();
  place_.reset();
}

void RankDrag::Draw(const ui::Context& context, const TimelineOverlay::Frame& frame,
                    ui::DrawLog* log) const {
  const std::vector<timeline::RankBlock>& blocks = frame.layout.ranks;
  if (!rank_ || !place_ || blocks.empty()) return;
  const widgets::Look look = widgets::LookOf(context);
  const float y = *place_ < blocks.size() ? blocks[*place_].y : frame.layout.height;
  const float middle = std::clamp(frame.origin + y, frame.box.y0 + look.Px(kLandingLine),
                                  frame.box.y1 - look.Px(kLandingLine));
  const float half = look.Px(kLandingLine) / 2;
  const ui::Box line{ImGui::GetWindowPos().x, middle - half, frame.box.x1, middle + half};
  ImGui::GetWindowDrawList()->AddRectFilled({line.x0, line.y0}, {line.x1, line.y1},
                                            look.theme.state.accent);
  log->Int("rank_lands", std::to_string(*rank_), static_cast<int64_t>(*place_), "", line);
}

}  // namespace shardscope::panels
