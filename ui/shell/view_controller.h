// ViewController: the visible time range: animated changes, undo, following the live end. Pure
// state, no Dear ImGui.
#pragma once

#include <cstdint>
#include <vector>

#include "trace/query/snapshot.h"
#include "ui/context.h"

namespace shardscope::shell {

// Where a run opens: around its newest change of a knob, else its last two and a half steps. `step`
// >= 0: from the step before it to the one after.
ui::View InitialView(const query::Snapshot& snapshot, int32_t step = -1);

// The times that a run has something at.
struct Extent {
  int64_t start_ns = 0;
  int64_t end_ns = 0;  // not after start_ns: nothing is known yet
  // End of the newest span: where following goes. Marks and frees may come long after it, as when a
  // paused run is stopped.
  int64_t newest_ns = 0;
};

// `view` moved and shortened until it shows what there is, with at most a tenth of room beside it.
ui::View Inside(const Extent& extent, ui::View view);

class ViewController {
 public:
  static constexpr int64_t kMinimumSpanNs = 1'000;
  static constexpr size_t kMaximumUndo = 100;

  const ui::View& view() const { return view_; }
  bool animating() const { return animating_; }

  // Jumps; forgets animation, undo and what there is until the next Advance().
  void Reset(const ui::View& view);

  // A change by the user. Retargets a running animation from where it is now. Changes that follow
  // one another within half a second (a wheel, a drag) are undone as one.
  void Set(const ui::SetView& change, double now_seconds);
  void Undo(double now_seconds);
  // Goes where it was before the last Undo(), unless it was changed since.
  void Redo(double now_seconds);
  // Undo() leads back to where following began.
  void SetFollow(bool follow, double now_seconds);

  // Whether the user changed it.
  bool has_history() const { return !undo_.empty(); }

  // Whether the run has shown its first steps: rows that come later do not move the view.
  bool is_settled() const { return is_settled_; }
  void set_is_settled(bool is_settled) { is_settled_ = is_settled; }

  // The next Advance() does not follow the live end.
  void Hold() { hold_ = true; }

  // Once a frame: moves the animation, and the followed end. What is shown never leaves `extent`.
  void Advance(const Extent& extent, double now_seconds);

  // Where the view is going: what zooming must start from while an animation runs.
  const ui::View& goal() const { return goal_; }

 private:
  void RememberGoal();  // for Undo()
  void GoBack(std::vector<ui::View>* from, std::vector<ui::View>* to, double now_seconds);
  void Animate(int64_t start_ns, int64_t end_ns, bool animate, double now_seconds);
  void Follow(double now_seconds);

  Extent extent_;
  ui::View view_;
  ui::View goal_;
  ui::View from_;
  bool animating_ = false;
  bool hold_ = false;
  bool is_settled_ = false;
  double animation_start_ = 0;
  double last_change_seconds_ = -1e9;
  std::vector<ui::View> undo_;
  std::vector<ui::View> redo_;
};

}  // namespace shardscope::shell
