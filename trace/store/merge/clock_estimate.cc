#include "trace/store/merge/clock_estimate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "trace/base/check.h"
#include "trace/base/time.h"

namespace shardscope::store {
namespace {

constexpr size_t kFewestPairs = 8;
// A fit is over the new pairs and as many old ones.
constexpr size_t kMostPairs = 512;

// Corrections up to this are spread over kSlewNs, so that nothing seems to overlap; larger ones
// (the clock was set, the machine slept) are made at once.
constexpr int64_t kStepNs = kNsPerMs;
constexpr int64_t kSlewNs = kNsPerSecond / 2;

// Fewer or closer pairs give no drift: jitter of the ends is tens of microseconds.
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

int64_t PartsPerBillion(int64_t duration_ns, int64_t ppb) {
  constexpr int64_t kBillion = 1'000'000'000;
  return duration_ns / kBillion * ppb + duration_ns % kBillion * ppb / kBillion;
}

int64_t ClockMap::Apply(int64_t local_ns) const {
  if (pieces_.empty() || !IsSaneNs(local_ns)) return local_ns;
  auto piece =
      std::upper_bound(pieces_.begin(), pieces_.end(), local_ns,
                       [](int64_t time_ns, const Piece& next) { return time_ns < next.from_ns; });
  if (piece != pieces_.begin()) --piece;
  const int64_t passed_ns = local_ns - piece->from_ns;
  return piece->to_ns + passed_ns + PartsPerBillion(passed_ns, piece->drift_ppb);
}

void ClockMap::Set(const Piece& piece) {
  while (!pieces_.empty() && pieces_.back().from_ns >= piece.from_ns) pieces_.pop_back();
  pieces_.push_back(piece);
}

void ClockEstimate::AddPair(const EndPair& pair) {
  pairs_.push_back(pair);
  ++num_new_;
  if (!placed_) return;
  const int64_t error_ns = pair.local_ns + pair.offset_ns - map_.Apply(pair.local_ns);
  const int side = error_ns > kStepNs ? 1 : error_ns < -kStepNs ? -1 : 0;
  num_astray_ = side != 0 && side * num_astray_ >= 0 ? num_astray_ + side : side;
}

// Twice as many pairs each time: the first fit comes soon, and later ones are better and rarer.
size_t ClockEstimate::Wanted() const {
  return std::clamp(static_cast<size_t>(num_fitted_), kFewestPairs, kMostPairs);
}

void ClockEstimate::Fit(bool eager) {
  const auto astray = static_cast<size_t>(std::abs(num_astray_));
  if (placed_ && astray >= kFewestPairs && astray <= num_new_) {
    // What was before no longer holds.
    pairs_.erase(pairs_.begin(), pairs_.end() - static_cast<std::ptrdiff_t>(astray));
    num_new_ = astray;
    num_fitted_ = 0;
    FitNext(std::min(num_new_, kMostPairs));
  }
  while (num_new_ >= Wanted())
    FitNext(num_fitted_ == 0 ? std::min(num_new_, kMostPairs) : Wanted());
  if (eager && num_new_ > 0) FitNext(num_new_);
}

void ClockEstimate::FitNext(size_t num_new) {
  const size_t num_old = pairs_.size() - num_new_;
  const std::vector<EndPair> chosen(
      pairs_.begin(), pairs_.begin() + static_cast<std::ptrdiff_t>(num_old + num_new));
  int64_t until_ns = chosen.front().local_ns;
  for (const EndPair& pair : chosen) until_ns = std::max(until_ns, pair.local_ns);
  Follow(FitLine(chosen), until_ns);
  num_new_ -= num_new;
  num_fitted_ += static_cast<int64_t>(num_new);
  num_astray_ = 0;
  while (pairs_.size() - num_new_ > kMostPairs) pairs_.pop_front();
}

// From fixed_ns_ on the map goes over to `line`.
void ClockEstimate::Follow(const ClockLine& line, int64_t until_ns) {
  if (!placed_ || fixed_ns_ == 0) {
    map_ = ClockMap();
    map_.Set({line.at_ns, line.at_ns + line.offset_ns, line.drift_ppb});
  } else {
    const int64_t now_ns = map_.Apply(fixed_ns_);
    const int64_t error_ns = fixed_ns_ + line.OffsetAt(fixed_ns_) - now_ns;
    const int64_t there_ns = std::max(fixed_ns_ + kSlewNs, until_ns);
    const int64_t passed_ns = there_ns - fixed_ns_;
    if (std::abs(error_ns) <= kStepNs) {
      const int64_t gained_ns = there_ns + line.OffsetAt(there_ns) - now_ns - passed_ns;
      map_.Set(
          {fixed_ns_, now_ns,
           std::llround(static_cast<double>(gained_ns) / static_cast<double>(passed_ns) * 1e9)});
      map_.Set({there_ns, map_.Apply(there_ns), line.drift_ppb});
    } else {
      map_.Set({fixed_ns_ + 1, fixed_ns_ + 1 + line.OffsetAt(fixed_ns_ + 1), line.drift_ppb});
    }
  }
  placed_ = true;
  Fix(until_ns);
}

void ClockEstimate::Assume(int64_t offset_ns) {
  map_.Set({0, offset_ns, 0});
  placed_ = true;
}

void ClockEstimate::Fix(int64_t local_ns) {
  if (IsSaneNs(local_ns)) fixed_ns_ = std::max(fixed_ns_, local_ns);
}

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
