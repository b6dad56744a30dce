#include "ui/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "engine/config/config.h"
#include "trace/base/time.h"
#include "trace/base/units.h"

namespace shardscope::ui {
namespace {

std::optional<std::string> Lookup(const std::map<std::string, std::string>& values,
                                  std::string_view key) {
  const auto found = values.find(std::string(key));
  if (found == values.end()) return std::nullopt;
  return found->second;
}

std::string DefaultValue(std::string_view key) {
  const config::KeyInfo* info = config::FindKey(key);
  return info != nullptr ? info->default_value : std::string();
}

// As the run began, with the changes up to `step` applied.
std::string ValueAtStep(const query::Snapshot& snapshot, std::string_view key, int32_t step) {
  const auto& markers = snapshot.markers;
  for (auto marker = markers.rbegin(); marker != markers.rend(); ++marker) {
    if (marker->key == key && marker->step <= step) return marker->new_value;
  }
  const auto value = Lookup(snapshot.config, key);
  return value ? *value : DefaultValue(key);
}

}  // namespace

Text StateWord(const Context& context) {
  const query::Snapshot& snapshot = *context.snapshot;
  if (snapshot.loading || snapshot.is_behind) return Text::kLoading;
  switch (snapshot.state) {
    case query::TraceState::kCut:
      return Text::kCut;
    case query::TraceState::kFinishing:
      return Text::kFinishing;
    case query::TraceState::kLive:
      return IsPaused(context) ? Text::kPaused : Text::kLive;
    case query::TraceState::kFinished:
      break;
  }
  if (context.report == nullptr) return Text::kFinished;
  // The trace is complete; what it is of is not.
  if (!context.report->errors.empty() || context.report->hang.is_hang) return Text::kFailed;
  return NumCutFiles(context) > 0 ? Text::kCut : Text::kFinished;
}

int64_t NewestStep(const Context& context) {
  if (context.snapshot == nullptr) return -1;
  const query::Snapshot& snapshot = *context.snapshot;
  int64_t newest =
      context.report && !context.report->steps.empty() ? context.report->steps.back().step : -1;
  // Rows come later than what the training says of itself, also of its last step, when it no longer
  // answers. As it is asked now and then, a fast one has rows of later steps.
  const config::RunStatus& status = context.control.status;
  const bool has_begun = status.state && status.state != config::RunState::kStarting;
  if (query::MayGrow(snapshot.state) && has_begun) {
    // Of one that is paused it is the step that waits.
    newest =
        std::max(newest, status.state == config::RunState::kPaused ? status.step - 1 : status.step);
  }
  return newest;
}

std::string ValueInForce(const Context& context, std::string_view key) {
  if (context.control.connection == ConnectionState::kConnected) {
    if (auto value = Lookup(context.control.status.values, key)) return *value;
  }
  if (context.snapshot) return ValueAtStep(*context.snapshot, key, INT32_MAX);
  return DefaultValue(key);
}

bool ShowsThePast(const Context& context) {
  if (context.snapshot == nullptr || context.focus.step < 0) return false;
  return context.snapshot->state != query::TraceState::kLive || !context.view.follow;
}

std::string ShownValue(const Context& context, std::string_view key) {
  return ShowsThePast(context) ? ValueAtStep(*context.snapshot, key, context.focus.step)
                               : ValueInForce(context, key);
}

std::optional<std::string> PendingValue(const Context& context, std::string_view key) {
  if (!CanSteer(context)) return std::nullopt;
  if (auto value = Lookup(context.control.unsent, key)) return value;
  return Lookup(context.control.status.pending, key);
}

bool IsRecordedProgram(const Context& context) {
  return context.snapshot &&
         (context.snapshot->meta.contains("recorded") || context.snapshot->IsImported());
}

bool IsRecordedWithoutSteps(const Context& context) {
  if (!IsRecordedProgram(context)) return false;
  const query::Snapshot& snapshot = *context.snapshot;
  return !snapshot.loading && !query::MayGrow(snapshot.state) &&
         std::ranges::all_of(snapshot.ranks,
                             [](const query::RankRows& rows) { return rows.steps.empty(); });
}

bool CanSteer(const Context& context) {
  return context.control.connection == ConnectionState::kConnected;
}

bool IsPaused(const Context& context) {
  return CanSteer(context) && context.control.status.state == config::RunState::kPaused;
}

int64_t DroppedRecords(const query::Snapshot& snapshot) {
  int64_t dropped = 0;
  for (const query::Capability& capability : snapshot.capabilities) dropped += capability.dropped;
  return dropped;
}

std::optional<int64_t> LagNs(const Context& context) {
  const query::Snapshot& snapshot = *context.snapshot;
  const bool grows = snapshot.state == query::TraceState::kLive && !IsPaused(context);
  if (!grows || context.headless) return std::nullopt;
  return std::max<int64_t>(MonotonicNs() - snapshot.end_ns, 0);
}

std::string FormatDuration(int64_t duration_ns) {
  std::string text = shardscope::FormatDuration(duration_ns);
  if (text.ends_with(" us")) text.replace(text.size() - 2, 2, "µs");
  return text;
}

std::string FormatMoment(int64_t from_start_ns) {
  const int64_t ns = std::abs(from_start_ns);
  if (ns < kNsPerMs) return FormatDuration(from_start_ns);
  const bool in_seconds = ns + 500 >= kNsPerSecond;  // 1000.000 ms are one
  const auto unit_ns = static_cast<double>(in_seconds ? kNsPerSecond : kNsPerMs);
  return fmt::format("{:.3f} {}", static_cast<double>(from_start_ns) / unit_ns,
                     in_seconds ? "s" : "ms");
}

std::string FormatMoment(const query::Snapshot& snapshot, int64_t time_ns) {
  return FormatMoment(time_ns - snapshot.RunStartNs());
}

std::vector<std::string> OtherLiveRuns(const std::vector<RunEntry>& runs, const std::string& run) {
  const std::filesystem::path own = std::filesystem::path(run).filename();
  std::vector<std::string> others;
  for (const RunEntry& entry : runs) {
    const bool is_own = std::filesystem::path(entry.path).filename() == own;
    if (entry.live && !is_own) others.push_back(entry.name);
  }
  return others;
}

std::string FormatMs(double duration_ns) {
  const double ms = duration_ns / static_cast<double>(kNsPerMs);
  // One decimal fewer from just under the next power of ten, where rounding would reach it.
  const int decimals = ms < 9.995 ? 2 : ms < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f}", ms, decimals);
}

}  // namespace shardscope::ui
