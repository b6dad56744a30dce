// Values as text: what a key accepts, and the one canonical spelling of each value.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "engine/config/config.h"
#include "engine/config/faults.h"
#include "engine/config/parse.h"
#include "trace/base/number_list.h"
#include "trace/base/parse_number.h"
#include "trace/base/text.h"
#include "trace/base/unit_factors.h"
#include "trace/base/units.h"

namespace shardscope::config {
namespace {

constexpr size_t kMaxValueBytes = 4096;
constexpr int64_t kMaxBlocksPerUnit = 128;
constexpr std::string_view kAuto = "auto:";

// In the largest unit that keeps the number at least 1, with as many digits as give it back.
std::string WithUnit(double value, std::span<const UnitFactor> units) {
  for (const UnitFactor& unit : units)
    if (value >= unit.factor) return fmt::format("{}{}", value / unit.factor, unit.name);
  return fmt::format("{}{}", value, units.back().name);
}

std::string DurationText(double ns) { return ns == 0 ? "0s" : WithUnit(ns, kDurationUnits); }
std::string BandwidthText(double rate) { return WithUnit(rate, kSizeUnits) + "/s"; }

std::optional<double> ParseShare(std::string_view text) {
  if (!text.starts_with(kAuto)) return std::nullopt;
  const auto share = ParseFloat(Trim(text.substr(kAuto.size())));
  if (!share || *share < 0.01 || *share > 100) return std::nullopt;
  return share;
}

// "" if it does not start so.
std::string_view After(std::string_view start, std::string_view text) {
  return text.starts_with(start) ? Trim(text.substr(start.size())) : std::string_view();
}

std::optional<plan::UnitPolicy> ParseUnitPolicy(std::string_view text) {
  if (text == "block") return plan::UnitPolicy();
  if (text == "module") return plan::UnitPolicy{.modules = true};
  if (const auto blocks = ParseInteger<int64_t>(After("blocks:", text))) {
    if (*blocks < 1 || *blocks > kMaxBlocksPerUnit) return std::nullopt;
    return plan::UnitPolicy{.blocks = *blocks};
  }
  if (const auto elements = ParseInteger<int64_t>(After("size:", text))) {
    if (*elements < 1) return std::nullopt;
    return plan::UnitPolicy{.least_elements = *elements};
  }
  plan::UnitPolicy listed;
  for (const std::string_view name : Split(After("list:", text), ',')) {
    if (Trim(name).empty()) return std::nullopt;
    listed.names.emplace_back(Trim(name));
  }
  return listed;
}

std::string UnitPolicyText(const plan::UnitPolicy& units) {
  if (units.modules) return "module";
  if (units.least_elements > 0) return fmt::format("size:{}", units.least_elements);
  if (!units.names.empty()) return "list:" + Join(units.names, ",");
  return fmt::format("blocks:{}", units.blocks);
}

std::optional<plan::ActivationCheckpointing> ParseCheckpointing(std::string_view text) {
  using plan::Checkpointing;
  if (text == "none") return plan::ActivationCheckpointing();
  if (text == "full") return plan::ActivationCheckpointing{.mode = Checkpointing::kEvery};
  if (text == "selective") return plan::ActivationCheckpointing{.mode = Checkpointing::kProducts};
  if (const auto every = ParseInteger<int64_t>(After("every:", text))) {
    if (*every < 1 || *every > kMaxBlocksPerUnit) return std::nullopt;
    return plan::ActivationCheckpointing{.mode = Checkpointing::kEvery,
                                         .every = static_cast<int>(*every)};
  }
  if (const std::string_view listed = After("blocks:", text); !listed.empty()) {
    const auto blocks = ParseNumbers(listed, kMaxBlocksPerUnit);
    if (!blocks || blocks->back() >= kMaxBlocksPerUnit) return std::nullopt;
    return plan::ActivationCheckpointing{.mode = Checkpointing::kBlocks, .blocks = *blocks};
  }
  const auto budget = ParseBytes(After("budget:", text));
  if (!budget || *budget < 1) return std::nullopt;
  return plan::ActivationCheckpointing{.mode = Checkpointing::kBudget, .budget_bytes = *budget};
}

// "block0:block1+block2,block1:block3"; nullopt if it is not of that form, or has a unit twice.
std::optional<std::vector<plan::PrefetchList>> ParsePrefetchLists(std::string_view text) {
  std::vector<plan::PrefetchList> lists;
  if (text.empty()) return lists;
  for (const std::string_view part : Split(text, ',')) {
    const auto sides = Split(part, ':');
    if (sides.size() != 2 || Trim(sides[0]).empty()) return std::nullopt;
    plan::PrefetchList& list = lists.emplace_back();
    list.unit = Trim(sides[0]);
    const auto same = [&](const plan::PrefetchList& other) { return other.unit == list.unit; };
    if (std::ranges::count_if(lists, same) > 1) return std::nullopt;
    for (const std::string_view name : Split(sides[1], '+')) {
      if (Trim(name).empty()) return std::nullopt;
      list.gathers.emplace_back(Trim(name));
    }
  }
  return lists;
}

std::string PrefetchListsText(const std::vector<plan::PrefetchList>& lists) {
  std::vector<std::string> parts;
  for (const plan::PrefetchList& list : lists) {
    parts.push_back(list.unit + ":" + Join(list.gathers, "+"));
  }
  return Join(parts, ",");
}

bool IsPrefetchList(const KeyInfo& key) {
  return key.name == "prefetch.forward_list" || key.name == "prefetch.backward_list";
}

// "link.latency" of "link.shard.latency".
std::string LinkKeyOfAll(std::string_view key) {
  return "link" + std::string(key.substr(key.rfind('.')));
}

bool InRange(const KeyInfo& key, double number) {
  return number >= key.minimum && number <= key.maximum;
}

std::optional<std::string> CanonicalNumber(const KeyInfo& key, std::string_view text) {
  if (key.type == KeyType::kInt) {
    const auto number = ParseInteger<int64_t>(text);
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
  const auto ranks = ParseInteger<int64_t>(text);
  if (!ranks || *ranks < 1 || *ranks > kMostRanks) return std::nullopt;
  return std::to_string(*ranks);
}

// As that of all links, or nothing; there is one measured rate, so auto is of that alone.
std::optional<std::string> CanonicalLink(const KeyInfo& key, std::string_view text) {
  if (text.empty()) return "";
  if (text.starts_with(kAuto)) return std::nullopt;
  return CanonicalNumber(*FindKey(LinkKeyOfAll(key.name)), text);
}

std::optional<std::string> CanonicalText(const KeyInfo& key, std::string_view text) {
  if (key.name == "record.steps") {
    if (text == "all") return "all";
    const auto window = ParseWindow(text);
    if (!window) return std::nullopt;
    return fmt::format("{}:{}", window->begin, window->end);
  }
  if (key.name == "unit.policy") {
    const auto units = ParseUnitPolicy(text);
    if (!units) return std::nullopt;
    return text == "block" ? "block" : UnitPolicyText(*units);
  }
  if (key.name == "checkpointing") {
    const auto checkpointing = ParseCheckpointing(text);
    if (!checkpointing) return std::nullopt;
    return CheckpointingText(*checkpointing);
  }
  if (key.name.starts_with("mesh.")) return CanonicalMeshSize(text);
  if (DimensionOfLink(key.name) || IsHostLink(key.name)) return CanonicalLink(key, text);
  if (text.size() > kMaxValueBytes || !IsPlainUtf8(text)) return std::nullopt;
  if (IsPrefetchList(key)) {
    const auto lists = ParsePrefetchLists(text);
    if (!lists) return std::nullopt;
    return PrefetchListsText(*lists);
  }
  // It becomes a folder in runs/.
  const bool is_name = text.find('/') == std::string_view::npos && text != "." && text != "..";
  if (key.name == "run.name" && !is_name) return std::nullopt;
  if (IsFaultKey(key.name) && !text.empty() && !IsFault(key.name, text)) return std::nullopt;
  return std::string(text);
}

std::optional<std::string> CanonicalOrNone(const KeyInfo& key, std::string_view text) {
  switch (key.type) {
    case KeyType::kBool: {
      const auto number = ParseInteger<int64_t>(text);
      const bool is_in_range =
          number && key.maximum > 0 && InRange(key, static_cast<double>(*number));
      if (is_in_range) return std::to_string(*number);
      if (text == "true" || text == "false") return std::string(text);
      return std::nullopt;
    }
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

std::optional<double> ParseFloat(std::string_view text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || last != end || !std::isfinite(number)) return std::nullopt;
  return number;
}

std::optional<StepWindow> ParseWindow(std::string_view text) {
  const auto parts = Split(text, ':');
  if (parts.size() != 2) return std::nullopt;
  const auto begin = ParseInteger<int64_t>(Trim(parts[0]));
  const auto end = ParseInteger<int64_t>(Trim(parts[1]));
  if (!begin || !end || *begin < 0 || *end <= *begin) return std::nullopt;
  return StepWindow{*begin, *end};
}

std::string Allowed(const KeyInfo& key) {
  switch (key.type) {
    case KeyType::kInt:
      return fmt::format("a whole number from {} to {}", static_cast<int64_t>(key.minimum),
                         static_cast<int64_t>(key.maximum));
    case KeyType::kFloat:
      return fmt::format("a number from {} to {}", key.minimum, key.maximum);
    case KeyType::kBool:
      if (key.maximum > 0) {
        return fmt::format("true, false, or a whole number from {} to {}", key.minimum,
                           key.maximum);
      }
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
    return fmt::format(
        "block, module, blocks:n with n from 1 to {}, size:n with n elements at least, or "
        "list:module,...",
        kMaxBlocksPerUnit);
  if (key.name == "checkpointing") {
    return fmt::format(
        "none, full, selective, every:k with k from 1 to {}, blocks:0-3,5 with blocks in order, or "
        "budget:1GB",
        kMaxBlocksPerUnit);
  }
  if (IsPrefetchList(key)) return "unit:unit+unit,unit:unit with each unit once before a colon";
  if (key.name.starts_with("mesh."))
    return fmt::format("auto, or a whole number from 1 to {}", kMostRanks);
  if (IsFaultKey(key.name)) return AllowedFault(key.name);
  if (DimensionOfLink(key.name) || IsHostLink(key.name)) {
    return key.name.ends_with("latency") ? "empty, or a duration as of link.latency"
                                         : "empty, or a bandwidth as of link.bandwidth, not auto";
  }
  if (key.name == "run.name")
    return fmt::format("one line of UTF-8 text without / of at most {} bytes", kMaxValueBytes);
  return fmt::format("one line of UTF-8 text of at most {} bytes", kMaxValueBytes);
}

std::string SizeText(double bytes) { return bytes == 0 ? "0" : WithUnit(bytes, kSizeUnits); }

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

std::optional<plan::MeshDimension> DimensionOfLink(std::string_view key) {
  const auto parts = Split(key, '.');
  if (parts.size() != 3 || parts[0] != "link") return std::nullopt;
  return words::ParseMeshDimension(parts[1]);
}

bool IsHostLink(std::string_view key) { return key.starts_with("link.host."); }

DimensionLink GetHostLink(const Config& config) {
  return {.bytes_per_second = ParseBandwidth(config.Get("link.host.bandwidth")),
          .latency_ns = ParseDuration(config.Get("link.host.latency"))};
}

DimensionLinks GetDimensionLinks(const Config& config) {
  DimensionLinks links;
  for (size_t at = 0; at < links.size(); ++at) {
    const std::string key = "link." + std::string(plan::Name(static_cast<plan::MeshDimension>(at)));
    links[at].bytes_per_second = ParseBandwidth(config.Get(key + ".bandwidth"));
    links[at].latency_ns = ParseDuration(config.Get(key + ".latency"));
  }
  return links;
}

StepWindow GetRecordSteps(const Config& config) {
  const std::string& text = config.Get("record.steps");
  if (text == "all") return {0, std::numeric_limits<int64_t>::max()};
  return ParseWindow(text).value();
}

std::optional<int64_t> GetMeshSize(const Config& config, std::string_view key) {
  return ParseInteger<int64_t>(config.Get(key));
}

plan::PrefetchLists GetPrefetchLists(const Config& config) {
  return {.forward = ParsePrefetchLists(config.Get("prefetch.forward_list")).value(),
          .backward = ParsePrefetchLists(config.Get("prefetch.backward_list")).value()};
}

std::optional<int64_t> GetReshardRanks(const Config& config) {
  return ParseInteger<int64_t>(config.Get("reshard_after_forward"));
}

std::string CheckpointingText(const plan::ActivationCheckpointing& checkpointing) {
  switch (checkpointing.mode) {
    case plan::Checkpointing::kNone:
      return "none";
    case plan::Checkpointing::kEvery:
      return checkpointing.every == 1 ? "full" : fmt::format("every:{}", checkpointing.every);
    case plan::Checkpointing::kBlocks:
      return checkpointing.blocks.empty() ? "none" : "blocks:" + RunsText(checkpointing.blocks);
    case plan::Checkpointing::kProducts:
      return "selective";
    case plan::Checkpointing::kBudget:
      return "budget:" + SizeText(static_cast<double>(checkpointing.budget_bytes));
  }
  return "";
}

plan::ActivationCheckpointing GetCheckpointing(const Config& config) {
  return ParseCheckpointing(config.Get("checkpointing")).value();
}

plan::UnitPolicy GetUnitPolicy(const Config& config) {
  return ParseUnitPolicy(config.Get("unit.policy")).value();
}

}  // namespace shardscope::config
