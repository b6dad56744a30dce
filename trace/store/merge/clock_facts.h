// What merging the files of a run did to their clocks, and how well it worked. Facts travel as rows
// of `meta` (key clock.0, clock.1, ...), so that every reader of a Source has them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "trace/base/words.h"

namespace shardscope::store {

using words::ClockMethod;

// How far apart the ends of one collective lie. Counts in a few bytes whatever the number of
// values: p50 and p95 are exact to 1/16, rounded up; the largest is exact.
class Residuals {
 public:
  void Add(int64_t value_ns);
  int64_t count() const { return count_; }
  int64_t max_ns() const { return max_ns_; }
  int64_t Percentile(double share) const;

 private:
  static constexpr int kStepsPerOctave = 16;
  std::array<int64_t, 64 * kStepsPerOctave> counts_ = {};
  int64_t count_ = 0;
  int64_t max_ns_ = 0;
};

struct ClockFacts {
  ClockMethod method = ClockMethod::kReference;
  std::string processes;    // "host/pid host/pid": all that share this clock
  int64_t offset_ns = 0;    // common - local at the newest time placed
  int64_t drift_ppb = 0;    // of the newest piece
  int64_t collectives = 0;  // that were compared with another clock
  int64_t residual_p50_ns = 0;
  int64_t residual_p95_ns = 0;
  int64_t residual_max_ns = 0;
};

// "method=collectives offset_ns=... ... processes=a/1 b/2".
std::string PrintClockFacts(const ClockFacts& facts);
// Nothing if the text is not of that form.
std::optional<ClockFacts> ParseClockFacts(std::string_view text);

// The key of the row of `meta`.
std::string ClockFactsKey(size_t clock);
inline constexpr std::string_view kClockFactsPrefix = "clock.";

}  // namespace shardscope::store
