#include "ui/shell/view_controller.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "trace/query/rows.h"
#include "ui/animation.h"
#include "ui/timeline/steps.h"
#include "ui/whole_run.h"

namespace shardscope::shell {
namespace {

using timeline::StepSpan;

// Room behind the newest row, as a share of the span, so that the live end does not stick to the
// edge.
constexpr double kFollowMargin = 0.02;
constexpr double kRoom = 0.1;  // beside what there is, on either side, as a share of what is shown
constexpr double kUndoMergeSeconds = 0.5;

const StepSpan* Find(const std::vector<StepSpan>& spans, int32_t step) {
  for (const StepSpan& span : spans) {
    if (span.step == step) return &span;
  }
  return nullptr;
}

int32_t NewestChangeStep(const query::Snapshot& snapshot, const std::vector<StepSpan>& spans) {
  for (auto marker = snapshot.markers.rbegin(); marker != snapshot.markers.rend(); ++marker) {
    if (!query::IsKnobChange(*marker)) continue;
    if (Find(spans, marker->step) && Find(spans, marker->step - 1)) return marker->step;
  }
  return -1;
}

int64_t Scale(int64_t duration_ns, double share) {
  return static_cast<int64_t>(static_cast<double>(duration_ns) * share);
}

int64_t Between(int64_t from, int64_t to, double share) {
  return from + static_cast<int64_t>(std::llround(static_cast<double>(to - from) * share));
}

}  // namespace

ui::View InitialView(const query::Snapshot& snapshot, int32_t step) {
  ui::View view = ui::WholeRun(snapshot);
  view.end_ns = std::max(view.end_ns, view.start_ns + 1);
  const bool asked = step >= 0;
  std::vector<StepSpan> spans = timeline::FinishedSteps(snapshot);
  if (asked && Find(spans, step) == nullptr) {
    if (const auto unfinished = timeline::FindStep(snapshot, step)) spans.push_back(*unfinished);
  }
  if (spans.empty()) return view;
  const int32_t center = asked ? step : NewestChangeStep(snapshot, spans);
  const StepSpan* middle = Find(spans, center);
  if (middle != nullptr) {
    const StepSpan* before = Find(spans, center - 1);
    const StepSpan* after = Find(spans, center + 1);
    const int64_t length = middle->end_ns - middle->start_ns;
    const int64_t margin = Scale(length, 0.05);
    view.start_ns = before ? before->start_ns : middle->start_ns - margin;
    view.end_ns = after && asked ? after->end_ns : middle->end_ns + margin;
    // Around a change: all of the first step under it, and of the step before what fits while names
    // of spans can still be read.
    if (before && !asked) view.start_ns += Scale(before->end_ns - before->start_ns, 0.4);
    if (asked) {  // in the middle, where the focus is, however long its neighbours are
      view.start_ns = std::max(view.start_ns, 2 * (middle->start_ns + margin) - view.end_ns);
      view.end_ns = std::min(view.end_ns, 2 * (middle->end_ns - margin) - view.start_ns);
    }
    return view;
  }
  const size_t last = spans.size() - 1;
  view.end_ns = spans[last].end_ns;
  view.start_ns = spans[last - std::min<size_t>(last, 1)].start_ns;
  if (last >= 2) view.start_ns -= (spans[last - 2].end_ns - spans[last - 2].start_ns) / 2;
  return view;
}

void ViewController::Reset(const ui::View& view) {
  extent_ = {};  // perhaps of another run
  view_ = goal_ = from_ = view;
  animating_ = false;
  undo_.clear();
  redo_.clear();
  last_change_seconds_ = -1e9;
}

ui::View Inside(const Extent& extent, ui::View view) {
  if (extent.end_ns <= extent.start_ns) return view;
  const int64_t whole = extent.end_ns - extent.start_ns;
  const int64_t room = Scale(std::min(view.end_ns - view.start_ns, whole), kRoom);
  const int64_t first = extent.start_ns - room;
  const int64_t last = extent.end_ns + room;
  const int64_t length = std::min(view.end_ns - view.start_ns, last - first);
  view.start_ns = std::clamp(view.start_ns, first, last - length);
  view.end_ns = view.start_ns + length;
  return view;
}

void ViewController::Animate(int64_t start_ns, int64_t end_ns, bool animate, double now_seconds) {
  goal_.start_ns = start_ns;
  goal_.end_ns = std::max(end_ns, start_ns + kMinimumSpanNs);
  goal_ = Inside(extent_, goal_);
  if (!animate) {
    view_ = goal_;
    animating_ = false;
    return;
  }
  from_ = view_;
  animation_start_ = now_seconds;
  animating_ = true;
}

void ViewController::Set(const ui::SetView& change, double now_seconds) {
  if (now_seconds - last_change_seconds_ > kUndoMergeSeconds) RememberGoal();
  redo_.clear();
  last_change_seconds_ = now_seconds;
  if (!change.keep_follow) goal_.follow = view_.follow = false;
  Animate(change.start_ns, change.end_ns, change.animate, now_seconds);
}

void ViewController::RememberGoal() {
  undo_.push_back(goal_);
  if (undo_.size() > kMaximumUndo) undo_.erase(undo_.begin());
}

void ViewController::Undo(double now_seconds) { GoBack(&undo_, &redo_, now_seconds); }

void ViewController::Redo(double now_seconds) { GoBack(&redo_, &undo_, now_seconds); }

// To the last view of `from`; the one that is left is the last of `to`.
void ViewController::GoBack(std::vector<ui::View>* from, std::vector<ui::View>* to,
                            double now_seconds) {
  if (from->empty()) return;
  const ui::View back = from->back();
  from->pop_back();
  to->push_back(goal_);
  last_change_seconds_ = -1e9;
  goal_.follow = view_.follow = back.follow;
  Animate(back.start_ns, back.end_ns, true, now_seconds);
}

void ViewController::SetFollow(bool follow, double now_seconds) {
  if (follow && !goal_.follow) {
    RememberGoal();
    redo_.clear();
    last_change_seconds_ = -1e9;
  }
  goal_.follow = view_.follow = follow;
  if (follow) Follow(now_seconds);
}

void ViewController::Follow(double now_seconds) {
  if (extent_.end_ns <= extent_.start_ns) return;
  const int64_t length = goal_.end_ns - goal_.start_ns;
  const int64_t end_ns = extent_.newest_ns + Scale(length, kFollowMargin);
  Animate(end_ns - length, end_ns, true, now_seconds);
}

void ViewController::Advance(const Extent& extent, double now_seconds) {
  extent_ = extent;
  const bool was_held = view_.held;
  view_.held = std::exchange(hold_, false) && view_.follow;
  if (animating_) {
    const double t = std::clamp((now_seconds - animation_start_) / ui::kAnimationSeconds, 0.0, 1.0);
    const double eased = 1 - (1 - t) * (1 - t) * (1 - t);
    view_.start_ns = Between(from_.start_ns, goal_.start_ns, eased);
    view_.end_ns = Between(from_.end_ns, goal_.end_ns, eased);
    if (t >= 1) {
      view_.start_ns = goal_.start_ns;
      view_.end_ns = goal_.end_ns;
      animating_ = false;
    }
    return;
  }
  if (was_held && !view_.held && view_.follow) {
    Follow(now_seconds);  // not in one jump: much may have come meanwhile
    return;
  }
  const bool known = extent.end_ns > extent.start_ns;
  if (known && view_.follow && !view_.held) {
    const int64_t length = view_.end_ns - view_.start_ns;
    view_.end_ns = extent.newest_ns + Scale(length, kFollowMargin);
    view_.start_ns = view_.end_ns - length;
  }
  view_ = Inside(extent, view_);
  goal_ = view_;
}

}  // namespace shardscope::shell
