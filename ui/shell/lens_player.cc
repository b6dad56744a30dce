#include "ui/shell/lens_player.h"

#include <algorithm>
#include <cmath>

namespace shardscope::shell {
namespace {

constexpr double kLeastSeconds = 5;  // that a stretch is played for

int SlownessFor(int64_t length_ns) {
  for (const int slowness : ui::kLensSlowness) {
    if (static_cast<double>(length_ns) * slowness >= kLeastSeconds * 1e9) return slowness;
  }
  return ui::kLensSlowness.back();
}

}  // namespace

void LensPlayer::Open(Interval range, int32_t step) {
  lens_ = {.is_on = true,
           .slowness = SlownessFor(range.end_ns - range.start_ns),
           .step = step,
           .start_ns = range.start_ns,
           .end_ns = range.end_ns,
           .now_ns = range.start_ns};
}

void LensPlayer::Close() { lens_ = {}; }

void LensPlayer::GoOnFrom(int64_t time_ns, double now_seconds) {
  lens_.now_ns = from_ns_ = std::clamp(time_ns, lens_.start_ns, lens_.end_ns);
  from_seconds_ = now_seconds;
}

void LensPlayer::Play(bool play, double now_seconds) {
  if (!lens_.is_on) return;
  lens_.plays = play;
  GoOnFrom(play && lens_.now_ns >= lens_.end_ns ? lens_.start_ns : lens_.now_ns, now_seconds);
}

void LensPlayer::SetSlowness(int slowness, double now_seconds) {
  if (!lens_.is_on || slowness < 1) return;
  lens_.slowness = slowness;
  GoOnFrom(lens_.now_ns, now_seconds);
}

void LensPlayer::Seek(int64_t time_ns, double now_seconds) {
  if (lens_.is_on) GoOnFrom(time_ns, now_seconds);
}

void LensPlayer::Step(int direction, double now_seconds) {
  if (!lens_.is_on || lens_.moments == nullptr) return;
  const std::vector<int64_t>& times = lens_.moments->boundaries();
  const int64_t now_ns = lens_.now_ns;
  lens_.plays = false;
  if (direction > 0) {
    const auto next = std::upper_bound(times.begin(), times.end(), now_ns);
    GoOnFrom(next == times.end() ? lens_.end_ns : *next, now_seconds);
  } else {
    const auto at = std::lower_bound(times.begin(), times.end(), now_ns);
    GoOnFrom(at == times.begin() ? lens_.start_ns : *(at - 1), now_seconds);
  }
}

void LensPlayer::Advance(double now_seconds) {
  if (lens_.plays) {
    const double passed_ns = (now_seconds - from_seconds_) * 1e9 / lens_.slowness;
    const double left_ns = static_cast<double>(lens_.end_ns - from_ns_);
    lens_.plays = passed_ns < left_ns;
    lens_.now_ns = lens_.plays ? from_ns_ + std::llround(passed_ns) : lens_.end_ns;
  }
  lens_.moment.reset();
  if (lens_.moments != nullptr) lens_.moment = lens_.moments->At(lens_.now_ns);
}

}  // namespace shardscope::shell
