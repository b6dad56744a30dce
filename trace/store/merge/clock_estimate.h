// ClockEstimate: places one clock on the common one by pairs of ends as they come, without ever
// moving a time that was already given out. Work per pair is bounded.
#pragma once

#include <cstdint>
#include <deque>

#include "trace/store/merge/clock_fit.h"
#include "trace/store/merge/clock_map.h"

namespace shardscope::store {

class ClockEstimate {
 public:
  void AddPair(const EndPair& pair);

  // Fits to the pairs that came, if they are enough; `eager`: if there is any.
  void Fit(bool eager);

  // A constant offset from elsewhere, until there are pairs.
  void Assume(int64_t offset_ns);

  // Times up to this one were given out and stay as they are.
  void Fix(int64_t local_ns);

  bool placed() const { return placed_; }
  bool fitted() const { return num_fitted_ > 0; }
  const ClockMap& map() const { return map_; }
  int64_t newest_ns() const { return fixed_ns_; }

 private:
  size_t Wanted() const;
  void FitNext(size_t num_new);
  void Follow(const ClockLine& line, int64_t until_ns);

  ClockMap map_;
  std::deque<EndPair> pairs_;  // fitted ones, then `num_new_` that are not
  size_t num_new_ = 0;
  int64_t num_fitted_ = 0;
  int num_astray_ = 0;  // newest pairs in a row that the map misses far to the same side; signed
  bool placed_ = false;
  int64_t fixed_ns_ = 0;
};

}  // namespace shardscope::store
