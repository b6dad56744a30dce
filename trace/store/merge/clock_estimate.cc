#include "trace/store/merge/clock_estimate.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

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

}  // namespace

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

}  // namespace shardscope::store
