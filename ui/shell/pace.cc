#include "ui/shell/pace.h"

#include <algorithm>

namespace shardscope::shell {
namespace {

// A frame that costs no more is no burden: what moves does so at the rate of the screen.
constexpr double kQuickFrameSeconds = 1.0 / 25;

}  // namespace

// While a ration is waited out, a wake would only end that wait early.
void Pace::WakeForData() {
  if (!data_pending_.exchange(true) && !rationing_) host_.Wake();
}

void Pace::BeginFrame() { frame_start_ = host_.Now(); }

void Pace::EndFrame() { frame_end_ = host_.Now(); }

double Pace::RestedAt() const {
  const double cost = frame_end_ - frame_start_;
  return cost <= kQuickFrameSeconds ? frame_end_ : frame_end_ + cost;
}

void Pace::WaitForFrame(double due) {
  rationing_ = true;
  for (double now = host_.Now(); !IsInterrupted() && now < due; now = host_.Now()) {
    host_.TakeInput(due - now);
  }
  data_pending_ = false;
  rationing_ = false;
}

void Pace::Wait() {
  host_.TakeInput(0);
  while (!IsInterrupted()) {
    const double seconds = host_.SecondsUntilPoll();
    if (seconds <= 0) return WaitForFrame(RestedAt());
    if (data_pending_) return WaitForFrame(std::max(RestedAt(), frame_start_ + data_seconds_));
    host_.TakeInput(seconds);
    if (!data_pending_ && !IsInterrupted() && host_.Poll()) return WaitForFrame(RestedAt());
  }
}

}  // namespace shardscope::shell
