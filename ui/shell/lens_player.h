// LensPlayer: moves the time lens of the Context. Pure state, no Dear ImGui.
#pragma once

#include <cstdint>

#include "trace/base/interval.h"
#include "ui/lens.h"

namespace shardscope::shell {

class LensPlayer {
 public:
  // Changes `lens`, which outlives it.
  explicit LensPlayer(ui::LensState* lens) : lens_(*lens) {}

  // Over `range`, paused at its start, at the fastest speed that takes a few seconds.
  void Open(Interval range, int32_t step);
  void Close();

  // At its end it begins anew.
  void Play(bool play, double now_seconds);
  void SetSlowness(int slowness, double now_seconds);
  // Goes on playing from there, if it plays.
  void Seek(int64_t time_ns, double now_seconds);
  // To the next (1) or previous (-1) beginning or end of an op; pauses.
  void Step(int direction, double now_seconds);

  // Once a frame. It pauses at the end.
  void Advance(double now_seconds);

 private:
  void GoOnFrom(int64_t time_ns, double now_seconds);

  ui::LensState& lens_;
  // Where it was played from, and when that was.
  int64_t from_ns_ = 0;
  double from_seconds_ = 0;
};

}  // namespace shardscope::shell
