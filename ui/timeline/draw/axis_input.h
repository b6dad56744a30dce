// AxisInput: wheel, drag and keys on the time axis, the same in timeline and memory. UI thread.
#pragma once

#include <optional>

#include "ui/commands.h"
#include "ui/context.h"
#include "ui/timeline/axis.h"

namespace shardscope::timeline {

class AxisInput {
 public:
  // Makes an item `id` of the window from its left edge to the right one of `box`, reads the mouse
  // over it and the keys while the window is focused; pushes SetView and SetHover.
  void Handle(const ui::Context& context, const Axis& axis, const char* id, const ui::Box& box,
              ui::Commands* commands);

  // After Handle(): a mouse that came upon something, or a button held down, keeps a followed view
  // still until the mouse leaves. One that has rested since the view began to follow does not: what
  // is followed came under it.
  void Hold(bool on_something, ui::Commands* commands);

  // Whether the mouse is over the item's part right of the gutter.
  bool on_axis() const { return on_axis_; }
  // True if the button went up without a drag: then it was a click.
  bool clicked() const { return clicked_; }
  // After Handle(), in the frame in which the button went down: the drag is another's, and pans
  // nothing until the button goes up.
  void LeaveDrag() { leaves_drag_ = true; }
  // Whether the mouse has moved since the button went down: then it is no click.
  bool is_dragging() const { return dragging_; }
  // While Shift-drag marks a stretch of time, which does not pan.
  struct Marking {
    Range range;
    float from_y = 0;  // on screen, where it began and where it is
    float to_y = 0;
  };
  const std::optional<Marking>& marking() const { return marking_; }

  float vertical_drag() const { return vertical_drag_; }  // pixels since the last frame

 private:
  void NoteUse(const ui::Context& context);
  void HandleWheel(const ui::Context& context, const Axis& axis, int64_t max_length_ns,
                   ui::Commands* commands);
  void HandleDrag(const ui::Context& context, const Axis& axis, ui::Commands* commands);
  void Mark(const Axis& axis);
  void HandleKeys(const ui::Context& context, int64_t max_length_ns, ui::Commands* commands);
  // Where the view is heading: a zoom during an animation starts from its end, not from the frame
  // in between.
  Range Goal(const ui::Context& context) const;
  void Go(const ui::Context& context, Range range, bool animate, bool keep_follow,
          ui::Commands* commands);

  bool dragging_ = false;
  bool clicked_ = false;
  bool marks_ = false;        // instead of panning
  bool leaves_drag_ = false;  // to another, likewise
  int64_t mark_from_ns_ = 0;  // where the mouse was pressed
  bool on_axis_ = false;      // the mouse, over the item
  bool follows_ = false;      // the view, in the frame before
  bool is_used_ = false;      // the mouse on the axis, since the view follows
  int frame_ = -1;            // Dear ImGui's, of the last Handle()
  bool holding_ = false;
  float vertical_drag_ = 0;
  Range drag_start_;
  float drag_start_x_ = 0;
  std::optional<Marking> marking_;
  Range goal_;
  double goal_until_ = -1;  // Context::time_seconds when the animation towards goal_ is over
};

}  // namespace shardscope::timeline
