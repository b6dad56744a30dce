// ClockEstimate: places one clock on the common one by pairs of ends as they come, without ever
// moving a time that was already given out. Work per pair is bounded.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "trace/base/sane_time.h"

namespace shardscope::store {

// Times of one machine's CLOCK_MONOTONIC as times of the run's common clock.
//
// Piecewise linear, so that it can follow a clock whose drift changes, and be corrected while a run
// is live without moving anything already shown. Integers throughout: a nanosecond stays one after
// weeks of uptime.
class ClockMap {
 public:
  // common = to_ns + (local - from_ns) * (1 + drift_ppb / 10^9), from local time from_ns on.
  struct Piece {
    int64_t from_ns = 0;
    int64_t to_ns = 0;
    int64_t drift_ppb = 0;
  };

  // The first piece also holds for all times before it. No piece: every time is itself, as is one
  // that is not sane (trace/base/sane_time.h), which readers refuse later.
  int64_t Apply(int64_t local_ns) const;

  // From piece.from_ns on this piece replaces what was there.
  void Set(const Piece& piece);

  const std::vector<Piece>& pieces() const { return pieces_; }

 private:
  std::vector<Piece> pieces_;  // ascending from_ns
};

// duration * ppb / 10^9 without overflow, for |ppb| <= 10^9; toward zero.
int64_t PartsPerBillion(int64_t duration_ns, int64_t ppb);

// One collective seen by two clocks. All ranks of a collective end at about the same time, and none
// ends before the last one has started.
struct EndPair {
  int64_t local_ns = 0;    // its end on the clock to be placed
  int64_t offset_ns = 0;   // its end on the common clock - local_ns
  int64_t lowest_ns = 0;   // offsets below this would end it here before it started there
  int64_t highest_ns = 0;  // offsets above this would start it here after it ended there
};

// offset = common - local, as a line over local time.
struct ClockLine {
  int64_t at_ns = 0;
  int64_t offset_ns = 0;
  int64_t drift_ppb = 0;

  int64_t OffsetAt(int64_t local_ns) const;
};

// Robust: up to a quarter of the pairs may be anything. The line obeys the bounds if any line of
// its slope does. Pairs in any order; at least one.
ClockLine FitLine(std::span<const EndPair> pairs);

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
