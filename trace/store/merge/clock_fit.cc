#include "trace/store/merge/clock_fit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "trace/base/check.h"
#include "trace/base/time.h"
#include "trace/store/merge/clock_map.h"

namespace shardscope::store {
namespace {

// Fewer or closer pairs say nothing about drift: jitter of the ends is tens of microseconds.
constexpr size_t kFewestForDrift = 16;
constexpr int64_t kShortestForDriftNs = 50 * kNsPerMs;

// Crystals differ by up to 100 ppm, NTP slews by up to 500 ppm on either side.
constexpr int64_t kMaxDriftPpb = 1'200'000;

template <typename T>
T Median(std::vector<T>* values) {
  const auto middle = values->begin() + static_cast<std::ptrdiff_t>(values->size() / 2);
  std::nth_element(values->begin(), middle, values->end());
  return *middle;
}

// Theil and Sen's median of slopes, over the n/2 pairs that lie half of the pairs apart: as robust,
// and n log n.
int64_t MedianDrift(const std::vector<EndPair>& sorted) {
  const size_t half = sorted.size() / 2;
  if (sorted.size() < kFewestForDrift ||
      sorted.back().local_ns - sorted.front().local_ns < kShortestForDriftNs) {
    return 0;
  }
  std::vector<double> slopes;
  for (size_t i = 0; i + half < sorted.size(); ++i) {
    const int64_t passed_ns = sorted[i + half].local_ns - sorted[i].local_ns;
    if (passed_ns <= 0) continue;
    slopes.push_back(static_cast<double>(sorted[i + half].offset_ns - sorted[i].offset_ns) * 1e9 /
                     static_cast<double>(passed_ns));
  }
  if (slopes.empty()) return 0;
  const double limit = double{kMaxDriftPpb};
  return std::llround(std::clamp(Median(&slopes), -limit, limit));
}

}  // namespace

int64_t ClockLine::OffsetAt(int64_t local_ns) const {
  return offset_ns + PartsPerBillion(local_ns - at_ns, drift_ppb);
}

ClockLine FitLine(std::span<const EndPair> pairs) {
  SHARDSCOPE_CHECK(!pairs.empty());
  std::vector<EndPair> sorted(pairs.begin(), pairs.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const EndPair& a, const EndPair& b) { return a.local_ns < b.local_ns; });
  ClockLine line;
  line.at_ns = sorted[sorted.size() / 2].local_ns;
  line.drift_ppb = MedianDrift(sorted);

  std::vector<int64_t> offsets;
  int64_t lowest_ns = std::numeric_limits<int64_t>::min();
  int64_t highest_ns = std::numeric_limits<int64_t>::max();
  for (const EndPair& pair : sorted) {
    const int64_t drifted_ns = PartsPerBillion(pair.local_ns - line.at_ns, line.drift_ppb);
    offsets.push_back(pair.offset_ns - drifted_ns);
    lowest_ns = std::max(lowest_ns, pair.lowest_ns - drifted_ns);
    highest_ns = std::min(highest_ns, pair.highest_ns - drifted_ns);
  }
  line.offset_ns = Median(&offsets);
  // Bounds that contradict one another come from outliers: then the median stands alone.
  if (lowest_ns <= highest_ns) line.offset_ns = std::clamp(line.offset_ns, lowest_ns, highest_ns);
  return line;
}

}  // namespace shardscope::store
