#include "ui/shell/view_controller.h"

#include <algorithm>
#include <cmath>

#include "trace/query/knob_change.h"

namespace shardscope::shell {
namespace {

// Room behind the newest row, as a share of the span, so that the live end does not stick to the
// edge.
constexpr double kFollowMargin = 0.02;
constexpr double kUndoMergeSeconds = 0.5;

struct StepSpan {
  int32_t step = 0;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

// Steps over all ranks, ascending; unfinished ones are not among them.
std::vector<StepSpan> StepSpans(const query::Snapshot& snapshot) {
  std::vector<StepSpan> spans;
  for (const query::RankRows& rank : snapshot.ranks) {
    for (const query::Step& step : rank.steps) {
      const auto at =
          std::lower_bound(spans.begin(), spans.end(), step.step,
                           [](const StepSpan& span, int32_t number) { return span.step < number; });
      if (at == spans.end() || at->step != step.step) {
        spans.insert(at, {step.step, step.start_ns, step.end_ns});
      } else {
        at->start_ns = std::min(at->start_ns, step.start_ns);
        at->end_ns = std::max(at->end_ns, step.end_ns);
      }
    }
  }
  return spans;
}

const StepSpan* FindStep(const std::vector<StepSpan>& spans, int32_t step) {
  for (const StepSpan& span : spans) {
    if (span.step == step) return &span;
  }
  return nullptr;
}

int32_t NewestChangeStep(const query::Snapshot& snapshot, const std::vector<StepSpan>& spans) {
  for (auto marker = snapshot.markers.rbegin(); marker != snapshot.markers.rend(); ++marker) {
    if (!query::IsKnobChange(*marker)) continue;
    if (FindStep(spans, marker->step) && FindStep(spans, marker->step - 1)) return marker->step;
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
  ui::View view{snapshot.start_ns, std::max(snapshot.end_ns, snapshot.start_ns + 1), false};
  const std::vector<StepSpan> spans = StepSpans(snapshot);
  if (spans.empty()) return view;
  const bool asked = step >= 0;
  const int32_t center = asked ? step : NewestChangeStep(snapshot, spans);
  const StepSpan* middle = FindStep(spans, center);
  if (middle != nullptr) {
    const StepSpan* before = FindStep(spans, center - 1);
    const StepSpan* after = FindStep(spans, center + 1);
    const int64_t length = middle->end_ns - middle->start_ns;
    const int64_t margin = Scale(length, 0.05);
    view.start_ns = before ? before->start_ns : middle->start_ns - margin;
    view.end_ns = after && asked ? after->end_ns : middle->end_ns + margin;
    // Around a change: all of the first step under it, and of the step before what fits while names
    // of spans can still be read.
    if (before && !asked) view.start_ns += Scale(before->end_ns - before->start_ns, 0.4);
    return view;
  }
  const size_t last = spans.size() - 1;
  view.end_ns = spans[last].end_ns;
  view.start_ns = spans[last - std::min<size_t>(last, 1)].start_ns;
  if (last >= 2) view.start_ns -= (spans[last - 2].end_ns - spans[last - 2].start_ns) / 2;
  return view;
}

void ViewController::Reset(const ui::View& view) {
  view_ = goal_ = from_ = view;
  animating_ = false;
  undo_.clear();
  last_change_seconds_ = -1e9;
}

void ViewController::Animate(int64_t start_ns, int64_t end_ns, bool animate, double now_seconds) {
  goal_.start_ns = start_ns;
  goal_.end_ns = std::max(end_ns, start_ns + kMinimumSpanNs);
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
  if (now_seconds - last_change_seconds_ > kUndoMergeSeconds) {
    undo_.push_back(goal_);
    if (undo_.size() > kMaximumUndo) undo_.erase(undo_.begin());
  }
  last_change_seconds_ = now_seconds;
  if (!change.keep_follow) goal_.follow = view_.follow = false;
  Animate(change.start_ns, change.end_ns, change.animate, now_seconds);
}

void ViewController::Undo(double now_seconds) {
  if (undo_.empty()) return;
  const ui::View back = undo_.back();
  undo_.pop_back();
  last_change_seconds_ = -1e9;
  goal_.follow = view_.follow = back.follow;
  Animate(back.start_ns, back.end_ns, true, now_seconds);
}

void ViewController::SetFollow(bool follow, const query::Snapshot* snapshot, double now_seconds) {
  goal_.follow = view_.follow = follow;
  if (!follow || snapshot == nullptr) return;
  const int64_t span = goal_.end_ns - goal_.start_ns;
  const int64_t end = snapshot->end_ns + Scale(span, kFollowMargin);
  Animate(end - span, end, true, now_seconds);
}

void ViewController::Advance(const query::Snapshot* snapshot, double now_seconds) {
  if (animating_) {
    const double t = std::clamp((now_seconds - animation_start_) / kAnimationSeconds, 0.0, 1.0);
    const double eased = 1 - (1 - t) * (1 - t) * (1 - t);
    view_.start_ns = Between(from_.start_ns, goal_.start_ns, eased);
    view_.end_ns = Between(from_.end_ns, goal_.end_ns, eased);
    if (t >= 1) {
      view_ = goal_;
      animating_ = false;
    }
    return;
  }
  if (view_.follow && snapshot != nullptr) {
    const int64_t span = view_.end_ns - view_.start_ns;
    view_.end_ns = std::max(view_.end_ns, snapshot->end_ns + Scale(span, kFollowMargin));
    view_.start_ns = view_.end_ns - span;
    goal_ = view_;
  }
}

}  // namespace shardscope::shell
