// The time axis: int64 nanoseconds to pixels and back, zoom and pan of a range, round tick values.
// No ImGui.
#pragma once

#include <cstdint>
#include <string>

namespace shardscope::timeline {

struct Range {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  int64_t length_ns() const { return end_ns - start_ns; }
  bool operator==(const Range&) const = default;
};

inline constexpr int64_t kMinRangeNs = 1'000;  // the closest zoom: 1 us across the window

// Maps `range` to [left, left + width].
class Axis {
 public:
  Axis(Range range, float left, float width);

  // Times far outside the range land at most kFar pixels away, where float is still exact enough.
  float X(int64_t time_ns) const;
  int64_t Ns(float x) const;
  double ns_per_pixel() const { return ns_per_pixel_; }
  const Range& range() const { return range_; }
  float left() const { return left_; }
  float right() const { return left_ + width_; }
  float width() const { return width_; }

 private:
  static constexpr double kFar = 100'000;
  Range range_;
  float left_;
  float width_;
  double ns_per_pixel_;
};

// `factor` < 1 zooms in. The moment `anchor_ns` keeps its place. The result is at least kMinRangeNs
// and at most `max_length_ns` long (0: no limit).
Range Zoom(Range range, int64_t anchor_ns, double factor, int64_t max_length_ns);
Range Pan(Range range, int64_t delta_ns);
// `inner` with a margin on both sides, as double click and F show it.
Range FitWithMargin(Range inner);

// The factor of `notches` of the wheel: 25 % each, 5 % with Ctrl, 50 % with Shift; up zooms in.
double WheelFactor(float notches, bool ctrl, bool shift);

// Smallest 1, 2 or 5 times a power of ten that is at least `min_pixels` wide.
int64_t TickStepNs(double ns_per_pixel, float min_pixels);
// "+20 ms", "+0.25 ms": milliseconds with as many decimals as `step_ns` needs. "+30 s" if that is
// whole seconds: recorded programs have no steps, and last for minutes.
std::string TickLabel(int64_t offset_ns, int64_t step_ns);

// Smallest of 1, 1.5, 2, 3, 4, 5, 6, 8 times a power of ten that is >= bytes; at least 1000.
int64_t RoundMaxBytes(int64_t bytes);

// Smallest of 1, 2, 5, 10, ... such that `count` labels of `label_pixels` each fit on
// `width_pixels`.
int LabelStride(int64_t count, float width_pixels, float label_pixels);

}  // namespace shardscope::timeline
