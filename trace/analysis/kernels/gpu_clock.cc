#include "trace/analysis/kernels/gpu_clock.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <tuple>

#include "trace/base/units.h"

namespace shardscope::analysis {
namespace {

// With its sign, which FormatDuration leaves out for positive ones.
std::string Signed(int64_t duration_ns) {
  return (duration_ns > 0 ? "+" : "") + FormatDuration(duration_ns);
}

}  // namespace

int64_t GpuClockBounds::uncertainty_ns() const {
  return std::max(std::abs(low_ns), std::abs(high_ns));
}

std::vector<GpuClockBounds> BoundGpuClocks(const query::Snapshot& snapshot) {
  std::map<std::tuple<int32_t, int64_t, std::string>, GpuClockBounds> found;
  for (const query::GpuClock& row : snapshot.gpu_clocks) {
    GpuClockBounds& bounds = found[{row.rank, row.device, row.method}];
    const bool is_first = bounds.readings++ == 0;
    bounds.rank = row.rank;
    bounds.device = row.device;
    bounds.method = row.method;
    bounds.low_ns = is_first ? row.low_ns : std::max(bounds.low_ns, row.low_ns);
    bounds.high_ns = is_first ? row.high_ns : std::min(bounds.high_ns, row.high_ns);
  }
  std::vector<GpuClockBounds> all;
  for (const auto& [key, bounds] : found) all.push_back(bounds);
  return all;
}

std::string Describe(const GpuClockBounds& bounds) {
  const std::string what = fmt::format("GPU {} of rank {} ({})", bounds.device, bounds.rank,
                                       bounds.method == "cupti" ? "CUPTI" : bounds.method);
  if (bounds.drifts()) {
    return fmt::format("{}: its clock drifts against the host's: no one offset fits ({} to {})",
                       what, Signed(bounds.low_ns), Signed(bounds.high_ns));
  }
  const bool is_possible = bounds.low_ns <= 0 && bounds.high_ns >= 0;
  return fmt::format("{}: times {} {} against the host's clock ({} to {}, {} reading{})", what,
                     is_possible ? "right within" : "OFF by up to",
                     FormatDuration(bounds.uncertainty_ns()), Signed(bounds.low_ns),
                     Signed(bounds.high_ns), bounds.readings, bounds.readings == 1 ? "" : "s");
}

std::string PrintGpuClocks(const std::vector<GpuClockBounds>& clocks) {
  if (clocks.empty()) return "";
  std::string text = "\nClocks of GPUs\n";
  for (const GpuClockBounds& bounds : clocks) text += "  " + Describe(bounds) + "\n";
  return text;
}

}  // namespace shardscope::analysis
