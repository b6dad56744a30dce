#include "ui/timeline/axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "trace/base/time.h"

namespace shardscope::timeline {

Axis::Axis(Range range, float left, float width) : range_(range), left_(left) {
  range_.end_ns = std::max(range_.end_ns, range_.start_ns + 1);
  width_ = std::max(width, 1.0F);
  ns_per_pixel_ = static_cast<double>(range_.length_ns()) / static_cast<double>(width_);
}

float Axis::X(int64_t time_ns) const {
  const double pixels = static_cast<double>(time_ns - range_.start_ns) / ns_per_pixel_;
  return left_ + static_cast<float>(std::clamp(pixels, -kFar, kFar));
}

int64_t Axis::Ns(float x) const {
  return range_.start_ns + std::llround(static_cast<double>(x - left_) * ns_per_pixel_);
}

Range Zoom(Range range, int64_t anchor_ns, double factor, int64_t max_length_ns) {
  const double length = static_cast<double>(std::max<int64_t>(range.length_ns(), 1));
  const double share = static_cast<double>(anchor_ns - range.start_ns) / length;
  int64_t new_length = std::llround(length * factor);
  if (max_length_ns > 0) new_length = std::min(new_length, max_length_ns);
  new_length = std::max(new_length, kMinRangeNs);
  const int64_t start = anchor_ns - std::llround(share * static_cast<double>(new_length));
  return {start, start + new_length};
}

Range Pan(Range range, int64_t delta_ns) {
  return {range.start_ns + delta_ns, range.end_ns + delta_ns};
}

Range FitWithMargin(Range inner) {
  const int64_t margin = std::max<int64_t>(inner.length_ns() / 8, kMinRangeNs / 2);
  return {inner.start_ns - margin, inner.end_ns + margin};
}

double WheelFactor(float notches, bool ctrl, bool shift) {
  const double per_notch = ctrl ? 1.05 : shift ? 1.5 : 1.25;
  return std::pow(per_notch, -static_cast<double>(notches));
}

int64_t TickStepNs(double ns_per_pixel, float min_pixels) {
  const double wanted = ns_per_pixel * static_cast<double>(min_pixels);
  int64_t power = 1;
  while (true) {
    for (const int64_t digit : {1, 2, 5}) {
      if (static_cast<double>(power * digit) >= wanted) return power * digit;
    }
    if (power > INT64_MAX / 100) return power;
    power *= 10;
  }
}

std::string TickLabel(int64_t offset_ns, int64_t step_ns) {
  // All labels of a ruler have its step's unit.
  if (step_ns % kNsPerSecond == 0) return fmt::format("{:+d} s", offset_ns / kNsPerSecond);
  int decimals = 0;
  for (int64_t unit = kNsPerMs; unit > 1 && step_ns % unit != 0; unit /= 10) ++decimals;
  const double ms = static_cast<double>(offset_ns) / static_cast<double>(kNsPerMs);
  return fmt::format("{:+.{}f} ms", ms, decimals);
}

int64_t RoundMaxBytes(int64_t bytes) {
  int64_t power = 1000;
  while (true) {
    for (const int64_t tenths : {10, 15, 20, 30, 40, 50, 60, 80}) {
      if (power / 10 * tenths >= bytes) return power / 10 * tenths;
    }
    if (power > INT64_MAX / 100) return bytes;
    power *= 10;
  }
}

int LabelStride(int64_t count, float width_pixels, float label_pixels) {
  const double wanted =
      static_cast<double>(count) * static_cast<double>(label_pixels) / std::max(1.0F, width_pixels);
  return static_cast<int>(std::min<int64_t>(TickStepNs(std::max(wanted, 1.0), 1), 1'000'000'000));
}

}  // namespace shardscope::timeline
