#include "engine/config/faults.h"

#include <limits>

#include "engine/config/parse.h"
#include "trace/base/parse_number.h"
#include "trace/base/text.h"
#include "trace/base/units.h"

namespace shardscope::config {
namespace {

constexpr int64_t kLeastSlowdownNs = 1'000;
constexpr int64_t kMostSlowdownNs = 10'000'000'000;

constexpr FaultKind kFaultKinds[] = {FaultKind::kDie, FaultKind::kHang, FaultKind::kSkip};

std::optional<int> ParseRank(std::string_view text) {
  const auto rank = ParseInteger<int64_t>(Trim(text));
  if (!rank || *rank < 0 || *rank >= kMostRanks) return std::nullopt;
  return static_cast<int>(*rank);
}

// 20ms, 25%.
std::optional<Slowdown> ParseSlowdown(std::string_view text) {
  text = Trim(text);
  if (text.ends_with('%')) {
    const auto percent = ParseFloat(text.substr(0, text.size() - 1));
    if (!percent || *percent < 1 || *percent > 1000) return std::nullopt;
    return Slowdown{.share = *percent / 100};
  }
  const auto duration_ns = ParseDuration(text);
  if (!duration_ns || *duration_ns < kLeastSlowdownNs || *duration_ns > kMostSlowdownNs) {
    return std::nullopt;
  }
  return Slowdown{.duration_ns = *duration_ns};
}

// <rank>:<slowdown>, and the steps where it is not all: 1:20ms, 1:25%:10:20.
std::optional<Delay> ParseDelay(std::string_view text) {
  const auto parts = Split(text, ':');
  if (parts.size() != 2 && parts.size() != 4) return std::nullopt;
  const auto rank = ParseRank(parts[0]);
  const auto slowdown = ParseSlowdown(parts[1]);
  if (!rank || !slowdown) return std::nullopt;
  Delay delay{*rank, *slowdown, {0, std::numeric_limits<int64_t>::max()}};
  if (parts.size() == 4) {
    const auto steps = ParseWindow(text.substr(parts[0].size() + parts[1].size() + 2));
    if (!steps) return std::nullopt;
    delay.steps = *steps;
  }
  return delay;
}

// <rank>:<step>, and the op where it is not the first that fits: 1:3:F m0 block1.mlp forward.
std::optional<Fault> ParseFault(FaultKind kind, std::string_view text) {
  const auto parts = Split(text, ':');
  if (parts.size() != 2 && parts.size() != 3) return std::nullopt;
  const auto rank = ParseRank(parts[0]);
  const auto step = ParseInteger<int64_t>(Trim(parts[1]));
  if (!rank || !step || *step < 0) return std::nullopt;
  Fault fault{kind, *rank, *step, ""};
  if (parts.size() == 3) {
    fault.op = Trim(parts[2]);
    if (fault.op.empty()) return std::nullopt;
  }
  return fault;
}

}  // namespace

Lateness GetLateness(const Config& config) {
  return {ParseDelay(config.Get("fault.delay")), ParseSlowdown(config.Get("fault.jitter"))};
}

std::string_view KeyOf(FaultKind kind) {
  switch (kind) {
    case FaultKind::kDie:
      return "fault.die";
    case FaultKind::kHang:
      return "fault.hang";
    case FaultKind::kSkip:
      return "fault.skip";
  }
  return "";
}

std::vector<Fault> GetFaults(const Config& config) {
  std::vector<Fault> faults;
  for (const FaultKind kind : kFaultKinds) {
    if (const auto fault = ParseFault(kind, config.Get(KeyOf(kind)))) faults.push_back(*fault);
  }
  return faults;
}

bool IsFaultKey(std::string_view key) { return key.starts_with("fault.") && key != "fault.init"; }

bool IsFault(std::string_view key, std::string_view text) {
  if (key == "fault.delay") return ParseDelay(text).has_value();
  if (key == "fault.jitter") return ParseSlowdown(text).has_value();
  return ParseFault(FaultKind::kDie, text).has_value();
}

std::string AllowedFault(std::string_view key) {
  if (key == "fault.delay") {
    return "empty, <rank>:<duration> or <rank>:<percent>%, with steps as a:b behind it: 1:20ms, "
           "1:25%:10:20";
  }
  if (key == "fault.jitter") return "empty, a duration from 1us to 10s, or 1% to 1000%";
  return "empty, <rank>:<step> or <rank>:<step>:<op>, rank and step counted from 0";
}

}  // namespace shardscope::config
