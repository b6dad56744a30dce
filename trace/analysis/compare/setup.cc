#include "trace/analysis/compare/setup.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>
#include <string_view>

#include "trace/analysis/capped_sum.h"
#include "trace/analysis/config_at.h"
#include "trace/analysis/memory/memory.h"
#include "trace/base/text.h"
#include "trace/base/trace_keys.h"
#include "trace/query/rows.h"

namespace shardscope::analysis {
namespace {

using Values = std::map<std::string, std::string>;

constexpr std::array<std::string_view, 8> kFacts = {
    trace_keys::kNumRanks, "device",      "model", "truth", trace_keys::kContended, "host",
    trace_keys::kNumCores, "tool_version"};
// Of every run another, and so of no interest.
constexpr std::array<std::string_view, 5> kOfOneRun = {"run.name", "run.control_socket",
                                                       "import.trace_id", "import.traceName",
                                                       "import.displayTimeUnit"};

std::string ValueOf(const Values& values, std::string_view key) {
  const auto found = values.find(std::string(key));
  return found == values.end() ? "" : found->second;
}

std::optional<int> MedianLead(const MeasuredSide& side, std::string_view phase) {
  std::vector<int> leads;
  for (const auto& [where, lead] : side.leads) {
    if (where.second == phase) leads.push_back(lead.Median());
  }
  if (leads.empty()) return std::nullopt;
  std::sort(leads.begin(), leads.end());
  return leads[leads.size() / 2];
}

// Of more than these the first and the last.
constexpr size_t kMostValues = 3;

std::string InOneLine(const std::vector<std::string>& values) {
  if (values.size() <= kMostValues) return Join(values, kThen);
  return Join({values.front(), "...", values.back()}, kThen);
}

using ValuesOverSteps = std::map<std::string, std::vector<std::string>>;

// Of each key what was in force in one of `steps` after the other.
ValuesOverSteps ConfigOver(const query::Snapshot& snapshot, const std::vector<int32_t>& steps) {
  if (steps.empty()) return {};
  std::set<int32_t> after_change = {steps.front()};
  for (const query::Marker& marker : snapshot.markers) {
    if (marker.kind != Name(query::MarkerKind::kChange) || marker.step <= steps.front()) continue;
    const auto step = std::lower_bound(steps.begin(), steps.end(), marker.step);
    if (step != steps.end()) after_change.insert(*step);
  }
  ValuesOverSteps values;
  for (const int32_t step : after_change) {
    for (auto& [key, value] : ConfigAt(snapshot, step)) {
      std::vector<std::string>& of_key = values[key];
      // What "auto" comes to is no change.
      if (!of_key.empty() && of_key.back().starts_with("auto:")) of_key.pop_back();
      if (of_key.empty() || of_key.back() != value) of_key.push_back(value);
    }
  }
  return values;
}

}  // namespace

std::vector<SettingDifference> SettingDifferences(const query::Snapshot& a,
                                                  const std::vector<int32_t>& steps_a,
                                                  const query::Snapshot& b,
                                                  const std::vector<int32_t>& steps_b) {
  std::vector<SettingDifference> differences;
  const auto add = [&differences](std::string_view key, std::string in_a, std::string in_b) {
    if (in_a != in_b) differences.push_back({std::string(key), std::move(in_a), std::move(in_b)});
  };
  for (const std::string_view fact : kFacts)
    add(fact, ValueOf(a.meta, fact), ValueOf(b.meta, fact));
  if (a.IsImported() != b.IsImported()) return differences;
  const ValuesOverSteps config_a = ConfigOver(a, steps_a);
  const ValuesOverSteps config_b = ConfigOver(b, steps_b);
  std::set<std::string> keys;
  for (const auto& [key, value] : config_a) keys.insert(key);
  for (const auto& [key, value] : config_b) keys.insert(key);
  for (const std::string_view key : kOfOneRun) keys.erase(std::string(key));
  // Of every file another.
  std::erase_if(keys, [](const std::string& key) {
    return key.starts_with(trace_keys::kImportedRankPrefix);
  });
  const auto of = [](const ValuesOverSteps& config, const std::string& key) {
    const auto found = config.find(key);
    return found == config.end() ? std::vector<std::string>() : found->second;
  };
  for (const std::string& key : keys) {
    const std::vector<std::string> in_a = of(config_a, key);
    const std::vector<std::string> in_b = of(config_b, key);
    if (in_a == in_b) continue;
    const bool in_one_line = InOneLine(in_a) != InOneLine(in_b);
    add(key, in_one_line ? InOneLine(in_a) : Join(in_a, kThen),
        in_one_line ? InOneLine(in_b) : Join(in_b, kThen));
  }
  return differences;
}

std::vector<int32_t> KnobsTurnedWithin(const query::Snapshot& snapshot,
                                       const std::vector<int32_t>& steps) {
  std::set<int32_t> turned;
  if (steps.empty()) return {};
  for (const query::Marker& marker : snapshot.markers) {
    const bool within = marker.step > steps.front() && marker.step <= steps.back();
    if (within && IsKnobChange(marker)) turned.insert(marker.step);
  }
  return {turned.begin(), turned.end()};
}

ScheduleFacts ScheduleOf(const query::Snapshot& snapshot, const MeasuredSide& side) {
  ScheduleFacts facts;
  facts.forward_lead = MedianLead(side, Name(words::Phase::kForward));
  facts.backward_lead = MedianLead(side, Name(words::Phase::kBackward));
  std::set<int32_t> middle;
  for (const int32_t at : side.middle) middle.insert(side.steps[static_cast<size_t>(at)]);
  std::set<query::ScheduleId> schedules;
  for (const query::RankRows& rows : snapshot.ranks) {
    for (const query::Step& step : rows.steps) {
      if (middle.contains(step.step)) schedules.insert(step.schedule);
    }
  }
  for (const query::ScheduleId id : schedules) {
    const auto found = snapshot.schedules.find(id);
    if (found != snapshot.schedules.end() && !snapshot.IsImported()) {
      facts.names.push_back(found->second.name);
    }
  }
  std::set<std::string> forward;
  std::set<std::string> backward;
  int64_t collectives = 0;
  const std::set<int32_t> ordinals(side.middle.begin(), side.middle.end());
  for (const auto& [key, steps] : side.rows) {
    if (key.part != StepPart::kExposed) continue;
    int64_t count = 0;
    for (const RowStep& row : steps) count += ordinals.contains(row.ordinal) ? row.count : 0;
    collectives += count;
    if (count == 0 || key.kind != Name(words::OpKind::kAllGather)) continue;
    if (key.phase == Name(words::Phase::kForward)) forward.insert(key.unit);
    if (key.phase == Name(words::Phase::kBackward)) backward.insert(key.unit);
  }
  facts.gathered_units = static_cast<int>(forward.size());
  facts.gathered_again =
      static_cast<int>(std::count_if(forward.begin(), forward.end(), [&](const std::string& unit) {
        return backward.contains(unit);
      }));
  int64_t sent_bytes = 0;
  for (const auto& [where, bytes] : side.sent_bytes) AddCapped(bytes, &sent_bytes);
  const auto rank_steps = static_cast<double>(side.num_ranks) *
                          static_cast<double>(std::max<size_t>(side.middle.size(), 1));
  if (rank_steps > 0) {
    facts.collectives = static_cast<double>(collectives) / rank_steps;
    facts.sent_bytes = static_cast<double>(sent_bytes) / rank_steps;
  }
  return facts;
}

PeakFacts PeaksOf(const query::Snapshot& snapshot, const MeasuredSide& side) {
  PeakFacts peaks;
  if (side.steps.empty()) return peaks;
  for (const MemoryPeak& peak :
       MemoryPeaksOfSteps(snapshot, side.steps.front(), side.steps.back())) {
    peaks.peak_bytes = std::max(peaks.peak_bytes, peak.peak_bytes);
    peaks.driver_bytes = std::max(peaks.driver_bytes, peak.driver_peak_bytes);
  }
  return peaks;
}

}  // namespace shardscope::analysis
