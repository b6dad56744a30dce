// Keys about ranks that are late or broken.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/config.h"

namespace shardscope::config {

// How much longer an op takes: so long, or by a share of its own time.
struct Slowdown {
  int64_t duration_ns = 0;
  double share = 0;
  bool operator==(const Slowdown&) const = default;
};

// fault.delay: a rank that computes more slowly than the others.
struct Delay {
  int rank = 0;
  Slowdown slowdown;  // a duration is that of each step's first compute op, a share that of each
  StepWindow steps;
  bool operator==(const Delay&) const = default;
};

// What makes ranks late, while the run trains.
struct Lateness {
  std::optional<Delay> delay;
  std::optional<Slowdown> jitter;  // fault.jitter: the most that a compute op takes longer
  bool operator==(const Lateness&) const = default;
};
Lateness GetLateness(const Config& config);

// fault.die, fault.hang, fault.skip: what a rank does in place of one op.
enum class FaultKind : uint8_t { kDie, kHang, kSkip };
struct Fault {
  FaultKind kind = FaultKind::kDie;
  int rank = 0;
  int64_t step = 0;
  std::string op;  // its name or its index in the rank's program; empty: the first that fits
  bool operator==(const Fault&) const = default;
};
std::string_view KeyOf(FaultKind kind);
std::vector<Fault> GetFaults(const Config& config);

// For the table of keys: whether a key's text is one of the above, whether `text` is a value that
// it takes, and what it takes, for people.
bool IsFaultKey(std::string_view key);
bool IsFault(std::string_view key, std::string_view text);
std::string AllowedFault(std::string_view key);

}  // namespace shardscope::config
