#include "ui/timeline/draw/axis_input.h"

#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "ui/animation.h"

namespace shardscope::timeline {
namespace {

constexpr float kDragThreshold = 4;
constexpr double kPanSharePerSecond = 1.2;
constexpr double kZoomPerSecond = 4;

}  // namespace

void AxisInput::Handle(const ui::Context& context, const Axis& axis, const char* id,
                       const ui::Box& box, ui::Commands* commands) {
  const float left = ImGui::GetWindowPos().x;
  ImGui::SetCursorScreenPos({left, box.y0});
  ImGui::InvisibleButton(id, {box.x1 - left, box.y1 - box.y0});
  clicked_ = false;
  marking_.reset();
  vertical_drag_ = 0;
  if (context.headless) return;
  const int64_t run_ns = context.snapshot->end_ns - context.snapshot->start_ns;
  const int64_t max_length_ns = run_ns + run_ns / 5;  // how far out the view may zoom
  const bool hovered = ImGui::IsItemHovered();
  const float x = ImGui::GetIO().MousePos.x;
  on_axis_ = hovered && x >= axis.left() && x <= axis.right();
  if (on_axis_) commands->push_back(ui::SetHover{axis.Ns(x)});
  NoteUse(context);
  if (hovered && x >= axis.left()) HandleWheel(context, axis, max_length_ns, commands);
  HandleDrag(context, axis, commands);
  const bool typing = ImGui::GetIO().WantTextInput;
  if (ImGui::IsWindowFocused() && !typing) HandleKeys(context, max_length_ns, commands);
}

void AxisInput::NoteUse(const ui::Context& context) {
  const ImGuiIO& io = ImGui::GetIO();
  // A panel that was out of sight begins anew, as does one whose view begins to follow.
  const int frame = ImGui::GetFrameCount();
  const bool was_drawn = std::exchange(frame_, frame) + 1 == frame;
  const bool followed = std::exchange(follows_, context.view.follow);
  const bool is_used = io.MouseDelta.x != 0 || io.MouseDelta.y != 0 || io.MouseWheel != 0 ||
                       io.MouseWheelH != 0 || ImGui::IsAnyMouseDown();
  is_used_ = on_axis_ && was_drawn && followed == follows_ && (is_used_ || is_used);
}

void AxisInput::Hold(bool on_something, ui::Commands* commands) {
  const bool pressed = ImGui::IsAnyMouseDown();
  holding_ = ImGui::IsItemActive() || (is_used_ && (holding_ || on_something || pressed));
  if (holding_) commands->push_back(ui::HoldView{});
}

Range AxisInput::Goal(const ui::Context& context) const {
  if (context.time_seconds < goal_until_) return goal_;
  return {context.view.start_ns, context.view.end_ns};
}

void AxisInput::Go(const ui::Context& context, Range range, bool animate, bool keep_follow,
                   ui::Commands* commands) {
  goal_ = range;
  goal_until_ = animate ? context.time_seconds + ui::kAnimationSeconds : -1;
  commands->push_back(ui::SetView{range.start_ns, range.end_ns, animate, keep_follow});
}

void AxisInput::HandleWheel(const ui::Context& context, const Axis& axis, int64_t max_length_ns,
                            ui::Commands* commands) {
  const ImGuiIO& io = ImGui::GetIO();
  if (io.MouseWheelH != 0) {
    const Range goal = Goal(context);
    const double delta = -0.1 * static_cast<double>(io.MouseWheelH);
    Go(context, Pan(goal, std::llround(delta * static_cast<double>(goal.length_ns()))), false,
       false, commands);
  }
  if (io.MouseWheel == 0) return;
  const Range goal = Goal(context);
  // The mouse points at a place of the window, so the anchor is what will be there.
  const Axis goal_axis(goal, axis.left(), axis.width());
  const int64_t anchor_ns =
      goal_axis.Ns(std::fmin(std::fmax(io.MousePos.x, axis.left()), axis.right()));
  const double factor = WheelFactor(io.MouseWheel, io.KeyCtrl, io.KeyShift);
  Go(context, Zoom(goal, anchor_ns, factor, max_length_ns), true, context.view.follow, commands);
}

void AxisInput::HandleDrag(const ui::Context& context, const Axis& axis, ui::Commands* commands) {
  const ImGuiIO& io = ImGui::GetIO();
  if (ImGui::IsItemActivated()) {
    drag_start_ = {context.view.start_ns, context.view.end_ns};
    drag_start_x_ = io.MousePos.x;
    dragging_ = false;
    leaves_drag_ = false;
    mark_from_ns_ = axis.Ns(io.MousePos.x);
    marks_ = io.KeyShift && io.MousePos.x >= axis.left();
  }
  if (ImGui::IsItemActive()) {
    const ImVec2 moved = ImGui::GetMouseDragDelta(ImGuiMouseButton_Left, 0);
    dragging_ =
        dragging_ || std::fabs(moved.x) > kDragThreshold || std::fabs(moved.y) > kDragThreshold;
    if (dragging_ && marks_) {
      Mark(axis);
    } else if (dragging_ && !leaves_drag_ && (io.MouseDelta.x != 0 || io.MouseDelta.y != 0)) {
      vertical_drag_ = io.MouseDelta.y;
      const double pixels = static_cast<double>(drag_start_x_ - io.MousePos.x);
      const double per_pixel =
          static_cast<double>(drag_start_.length_ns()) / static_cast<double>(axis.width());
      if (io.MouseDelta.x != 0) {
        Go(context, Pan(drag_start_, std::llround(pixels * per_pixel)), false, false, commands);
      }
    }
  }
  if (ImGui::IsItemDeactivated()) clicked_ = !dragging_;
}

void AxisInput::Mark(const Axis& axis) {
  const ImGuiIO& io = ImGui::GetIO();
  const auto [first, last] = std::minmax({mark_from_ns_, axis.Ns(io.MousePos.x)});
  marking_ = Marking{{first, last}, io.MouseClickedPos[ImGuiMouseButton_Left].y, io.MousePos.y};
}

void AxisInput::HandleKeys(const ui::Context& context, int64_t max_length_ns,
                           ui::Commands* commands) {
  const ImGuiIO& io = ImGui::GetIO();
  if (io.KeyCtrl || io.KeyAlt || io.KeySuper) return;
  const double speed = io.KeyShift ? 3 : 1;
  const auto held = [](ImGuiKey a, ImGuiKey b) {
    return ImGui::IsKeyDown(a) || ImGui::IsKeyDown(b);
  };
  const double seconds = static_cast<double>(std::fmin(io.DeltaTime, 0.1F));
  const bool zooms = !io.NavVisible;  // else arrows move the focus
  const bool moves_edge = io.KeyShift && context.area.query;
  const bool pans = zooms && !context.lens.is_on && !moves_edge;  // which steps by arrows
  const int pan = (held(ImGuiKey_D, pans ? ImGuiKey_RightArrow : ImGuiKey_D) ? 1 : 0) -
                  (held(ImGuiKey_A, pans ? ImGuiKey_LeftArrow : ImGuiKey_A) ? 1 : 0);
  const int zoom = (held(ImGuiKey_W, zooms ? ImGuiKey_UpArrow : ImGuiKey_W) ? 1 : 0) -
                   (held(ImGuiKey_S, zooms ? ImGuiKey_DownArrow : ImGuiKey_S) ? 1 : 0);
  if (pan == 0 && zoom == 0) return;
  Range range = Goal(context);
  if (pan != 0) {
    const double share = kPanSharePerSecond * speed * seconds * pan;
    range = Pan(range, std::llround(share * static_cast<double>(range.length_ns())));
  }
  if (zoom != 0) {
    const bool over_axis = context.hover_ns >= range.start_ns && context.hover_ns < range.end_ns;
    const int64_t anchor = over_axis ? context.hover_ns : range.start_ns + range.length_ns() / 2;
    range = Zoom(range, anchor, std::pow(kZoomPerSecond, -zoom * speed * seconds), max_length_ns);
  }
  Go(context, range, false, pan == 0 && context.view.follow, commands);
}

}  // namespace shardscope::timeline
