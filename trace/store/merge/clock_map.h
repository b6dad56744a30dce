// ClockMap: times of one machine's CLOCK_MONOTONIC as times of the run's common clock.
//
// Piecewise linear, so that it can follow a clock whose drift changes, and be corrected while a run
// is live without moving anything already shown. Integers throughout: a nanosecond stays one after
// weeks of uptime.
#pragma once

#include <cstdint>
#include <vector>

namespace shardscope::store {

// Times beyond this are claims of a damaged file: they are not mapped, and later refused.
inline constexpr int64_t kLatestSaneNs = int64_t{1} << 61;
inline bool IsSaneNs(int64_t time_ns) { return time_ns > 0 && time_ns < kLatestSaneNs; }

class ClockMap {
 public:
  // common = to_ns + (local - from_ns) * (1 + drift_ppb / 10^9), from local time from_ns on.
  struct Piece {
    int64_t from_ns = 0;
    int64_t to_ns = 0;
    int64_t drift_ppb = 0;
  };

  // The first piece also holds for all times before it. No piece: every time is itself.
  int64_t Apply(int64_t local_ns) const;

  // From piece.from_ns on this piece replaces what was there.
  void Set(const Piece& piece);

  const std::vector<Piece>& pieces() const { return pieces_; }

 private:
  std::vector<Piece> pieces_;  // ascending from_ns
};

// duration * ppb / 10^9 without overflow, for |ppb| <= 10^9; toward zero.
int64_t PartsPerBillion(int64_t duration_ns, int64_t ppb);

}  // namespace shardscope::store
