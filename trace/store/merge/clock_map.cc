#include "trace/store/merge/clock_map.h"

#include <algorithm>

namespace shardscope::store {

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

}  // namespace shardscope::store
