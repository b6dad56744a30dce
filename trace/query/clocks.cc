#include "trace/query/clocks.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "trace/base/units.h"
#include "trace/store/merge/clock_facts.h"
#include "trace/store/run_source.h"

namespace shardscope::query {
namespace {

constexpr size_t kMostClocks = 1 << 12;  // a file may claim anything

}  // namespace

void TakeClock(const std::string& key, const std::string& value, std::vector<Clock>* clocks) {
  if (!key.starts_with(store::kClockFactsPrefix)) return;
  size_t index = kMostClocks;
  std::from_chars(key.data() + store::kClockFactsPrefix.size(), key.data() + key.size(), index);
  const std::optional<store::ClockFacts> facts = store::ParseClockFacts(value);
  if (index >= kMostClocks || !facts) return;
  if (clocks->size() <= index) clocks->resize(index + 1);
  (*clocks)[index] = {facts->method,          facts->processes,      facts->offset_ns,
                      facts->drift_ppb,       facts->collectives,    facts->residual_p50_ns,
                      facts->residual_p95_ns, facts->residual_max_ns};
}

void TakeProcess(const std::string& key, const std::string& value,
                 std::map<int64_t, Process>* processes) {
  const std::string_view prefix = store::kProcessPrefix;
  if (!key.starts_with(prefix)) return;
  int64_t process = -1;
  std::from_chars(key.data() + prefix.size(), key.data() + key.size(), process);
  if (process >= 0 && process < kMostProcesses) (*processes)[process].name = value;
}

std::optional<Capability> ClockCapability(const std::vector<Clock>& clocks) {
  if (clocks.size() < 2) return std::nullopt;
  int64_t p95_ns = 0;
  int64_t max_ns = 0;
  std::string by_time_of_day;
  for (const Clock& clock : clocks) {
    p95_ns = std::max(p95_ns, clock.residual_p95_ns);
    max_ns = std::max(max_ns, clock.residual_max_ns);
    if (clock.method == ClockMethod::kTimeOfDay || clock.method == ClockMethod::kUnknown) {
      by_time_of_day += (by_time_of_day.empty() ? "" : " ") + clock.processes;
    }
  }
  Capability row;
  row.source = "clocks";
  row.status = by_time_of_day.empty() ? "on" : "partial";
  row.reason = "clocks of " + std::to_string(clocks.size()) +
               " machines put on one: ends of a collective lie within " + FormatDuration(p95_ns) +
               " (p95), " + FormatDuration(max_ns) + " at most";
  if (!by_time_of_day.empty()) {
    row.reason += "; no shared collectives for " + by_time_of_day +
                  ", placed by the time of day only: do not compare their times with others";
  }
  return row;
}

}  // namespace shardscope::query
