// Values as text: what a key accepts, and the one canonical spelling of each value.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "engine/config/config.h"
#include "trace/base/text.h"
#include "trace/base/units.h"

namespace shardscope::config {
namespace {

constexpr size_t kMaxValueBytes = 4096;
constexpr int64_t kMaxBlocksPerUnit = 128;
constexpr int64_t kMaxMeshSize = 64;
constexpr std::string_view kAuto = "auto:";

std::optional<int64_t> ParseInt(std::string_view text) {
  int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || last != end) return std::nullopt;
  return number;
}

std::optional<double> ParseFloat(std::string_view text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || last != end || !std::isfinite(number)) return std::nullopt;
  return number;
}

template <size_t N>
using Scale = std::array<std::pair<double, const char*>, N>;
constexpr Scale<4> kDurations = {{{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"}}};
constexpr Scale<4> kSizes = {{{1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}, {1, "B"}}};

// In the largest unit that keeps the number at least 1, with as many digits as give it back.
template <size_t N>
std::string WithUnit(double value, const Scale<N>& scale) {
  for (const auto& [factor, unit] : scale)
    if (value >= factor) return fmt::format("{}{}", value / factor, unit);
  return fmt::format("{}{}", value, scale.back().second);
}

std::string DurationText(double ns) { return ns == 0 ? "0s" : WithUnit(ns, kDurations); }
std::string SizeText(double bytes) { return bytes == 0 ? "0" : WithUnit(bytes, kSizes); }
std::string BandwidthText(double rate) { return WithUnit(rate, kSizes) + "/s"; }

std::optional<double> ParseShare(std::string_view text) {
  if (!text.starts_with(kAuto)) return std::nullopt;
  const auto share = ParseFloat(Trim(text.substr(kAuto.size())));
  if (!share || *share < 0.01 || *share > 100) return std::nullopt;
  return share;
}

std::optional<StepWindow> ParseWindow(std::string_view text) {
  const auto parts = Split(text, ':');
  if (parts.size() != 2) return std::nullopt;
  const auto begin = ParseInt(Trim(parts[0]));
  const auto end = ParseInt(Trim(parts[1]));
  if (!begin || !end || *begin < 0 || *end <= *begin) return std::nullopt;
  return StepWindow{*begin, *end};
}

std::optional<int64_t> ParseUnitPolicy(std::string_view text) {
  constexpr std::string_view kBlocks = "blocks:";
  if (text == "block") return 1;
  if (!text.starts_with(kBlocks)) return std::nullopt;
  const auto blocks = ParseInt(Trim(text.substr(kBlocks.size())));
  if (!blocks || *blocks < 1 || *blocks > kMaxBlocksPerUnit) return std::nullopt;
  return blocks;
}

constexpr std::array<std::pair<std::string_view, FaultKind>, 3> kFaults = {
    {{"throw", FaultKind::kThrow}, {"hang", FaultKind::kHang}, {"kill", FaultKind::kKill}}};

std::optional<Fault> ParseFault(std::string_view text) {
  const auto parts = Split(text, ':');
  if (parts.size() != 4 || Trim(parts[3]).empty() || !IsPlainUtf8(text)) return std::nullopt;
  const auto rank = ParseInt(Trim(parts[1]));
  const auto step = ParseInt(Trim(parts[2]));
  if (!rank || *rank < 0 || *rank > 63 || !step || *step < 0) return std::nullopt;
  for (const auto& [name, kind] : kFaults) {
    if (Trim(parts[0]) == name) {
      return Fault{kind, static_cast<int>(*rank), *step, std::string(Trim(parts[3]))};
    }
  }
  return std::nullopt;
}

bool InRange(const KeyInfo& key, double number) {
  return number >= key.minimum && number <= key.maximum;
}

std::optional<std::string> CanonicalNumber(const KeyInfo& key, std::string_view text) {
  if (key.type == KeyType::kInt) {
    const auto number = ParseInt(text);
    if (number && InRange(key, static_cast<double>(*number))) return std::to_string(*number);
  } else if (key.type == KeyType::kFloat) {
    const auto number = ParseFloat(text);
    if (number && InRange(key, *number)) return fmt::format("{}", *number);
  } else if (key.type == KeyType::kDuration) {
    const auto duration_ns = ParseDuration(text);
    if (duration_ns && InRange(key, static_cast<double>(*duration_ns)))
      return DurationText(static_cast<double>(*duration_ns));
  } else if (key.type == KeyType::kBytes) {
    const auto bytes = ParseBytes(text);
    if (bytes && InRange(key, static_cast<double>(*bytes)))
      return SizeText(static_cast<double>(*bytes));
  } else if (key.type == KeyType::kBandwidth) {
    if (const auto share = ParseShare(text)) return fmt::format("{}{}", kAuto, *share);
    const auto rate = ParseBandwidth(text);
    if (rate && InRange(key, *rate)) return BandwidthText(*rate);
  }
  return std::nullopt;
}

std::optional<std::string> CanonicalMeshSize(std::string_view text) {
  if (text == "auto") return "auto";
  const auto ranks = ParseInt(text);
  if (!ranks || *ranks < 1 || *ranks > kMaxMeshSize) return std::nullopt;
  return std::to_string(*ranks);
}

std::optional<std::string> CanonicalText(const KeyInfo& key, std::string_view text) {
  if (key.name == "record.steps") {
    if (text == "all") return "all";
    const auto window = ParseWindow(text);
    if (!window) return std::nullopt;
    return fmt::format("{}:{}", window->begin, window->end);
  }
  if (key.name == "unit.policy") {
    const auto blocks = ParseUnitPolicy(text);
    if (!blocks) return std::nullopt;
    return text == "block" ? "block" : fmt::format("blocks:{}", *blocks);
  }
  if (key.name.starts_with("mesh.")) return CanonicalMeshSize(text);
  if (text.size() > kMaxValueBytes || !IsPlainUtf8(text)) return std::nullopt;
  // It becomes a folder in runs/.
  const bool is_name = text.find('/') == std::string_view::npos && text != "." && text != "..";
  if (key.name == "run.name" && !is_name) return std::nullopt;
  if (key.name == "debug.fault" && !text.empty() && !ParseFault(text)) return std::nullopt;
  return std::string(text);
}

std::optional<std::string> CanonicalOrNone(const KeyInfo& key, std::string_view text) {
  switch (key.type) {
    case KeyType::kBool:
      if (text == "true" || text == "false") return std::string(text);
      return std::nullopt;
    case KeyType::kChoice:
      if (std::find(key.choices.begin(), key.choices.end(), text) == key.choices.end())
        return std::nullopt;
      return std::string(text);
    case KeyType::kString:
      return CanonicalText(key, text);
    default:
      return CanonicalNumber(key, text);
  }
}

std::string ForMessage(std::string_view value) {
  constexpr size_t kShown = 80;
  std::string shown;
  for (const char c : value.substr(0, kShown))
    shown += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return value.size() > kShown ? shown + "..." : shown;
}

}  // namespace

std::string Allowed(const KeyInfo& key) {
  switch (key.type) {
    case KeyType::kInt:
      return fmt::format("a whole number from {} to {}", static_cast<int64_t>(key.minimum),
                         static_cast<int64_t>(key.maximum));
    case KeyType::kFloat:
      return fmt::format("a number from {} to {}", key.minimum, key.maximum);
    case KeyType::kBool:
      return "true or false";
    case KeyType::kChoice:
      return "one of " + Join(key.choices, ", ");
    case KeyType::kDuration:
      return fmt::format("a duration from {} to {} (units ns, us, ms, s)",
                         DurationText(key.minimum), DurationText(key.maximum));
    case KeyType::kBandwidth:
      return fmt::format(
          "a bandwidth from {} to {} (units B/s, kB/s, MB/s, GB/s), or auto:<share> with a share "
          "from 0.01 to 100",
          BandwidthText(key.minimum), BandwidthText(key.maximum));
    case KeyType::kBytes:
      return fmt::format("a size from {} to {} (units B, kB, MB, GB)", SizeText(key.minimum),
                         SizeText(key.maximum));
    case KeyType::kString:
      break;
  }
  if (key.name == "record.steps") return "all, or a:b with 0 <= a < b";
  if (key.name == "unit.policy")
    return fmt::format("block, or blocks:n with n from 1 to {}", kMaxBlocksPerUnit);
  if (key.name.starts_with("mesh."))
    return fmt::format("auto, or a whole number from 1 to {}", kMaxMeshSize);
  if (key.name == "debug.fault")
    return "empty, or throw, hang or kill:<rank>:<step>:<op>, rank and step counted from 0";
  if (key.name == "run.name")
    return fmt::format("one line of UTF-8 text without / of at most {} bytes", kMaxValueBytes);
  return fmt::format("one line of UTF-8 text of at most {} bytes", kMaxValueBytes);
}

Result<std::string> Canonical(const KeyInfo& key, std::string_view value) {
  const std::string_view text = Trim(value);
  if (auto canonical = CanonicalOrNone(key, text)) return std::move(*canonical);
  std::string message = fmt::format("{}={}: must be {}", key.name, ForMessage(text), Allowed(key));
  if (key.type == KeyType::kChoice) {
    if (const auto nearest = NearestName(text, key.choices))
      message += fmt::format("; did you mean {}?", *nearest);
  }
  return Status::Error(std::move(message));
}

LinkBandwidth GetLinkBandwidth(const Config& config) {
  const std::string& text = config.Get("link.bandwidth");
  if (const auto share = ParseShare(text)) return {.is_auto = true, .auto_share = *share};
  return {.bytes_per_second = ParseBandwidth(text).value()};
}

std::optional<Fault> GetFault(const Config& config) {
  return ParseFault(config.Get("debug.fault"));
}

StepWindow GetRecordSteps(const Config& config) {
  const std::string& text = config.Get("record.steps");
  if (text == "all") return {0, std::numeric_limits<int64_t>::max()};
  return ParseWindow(text).value();
}

std::optional<int64_t> GetMeshSize(const Config& config, std::string_view key) {
  return ParseInt(config.Get(key));
}

int64_t GetBlocksPerUnit(const Config& config) {
  return ParseUnitPolicy(config.Get("unit.policy")).value();
}

}  // namespace shardscope::config
