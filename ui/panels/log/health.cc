#include "ui/panels/log/health.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "trace/base/time.h"
#include "trace/base/units.h"
#include "ui/text.h"
#include "ui/values.h"
#include "ui/widgets/labels.h"

namespace shardscope::panels {
namespace {

using ui::Text;
using ui::Tr;

const char* ConnectionText(const ui::Context& context) {
  switch (context.control.connection) {
    case ui::ConnectionState::kConnected:
      return Tr(context.language, Text::kLogConnected);
    case ui::ConnectionState::kLost:
      return Tr(context.language, Text::kLogLost);
    case ui::ConnectionState::kNone:
      break;
  }
  return Tr(context.language, Text::kLogNotConnected);
}

const char* StateText(const ui::Context& context) {
  switch (context.snapshot->state) {
    case query::TraceState::kLive:
      return Tr(context.language, Text::kLive);
    case query::TraceState::kCut:
      return Tr(context.language, Text::kCut);
    case query::TraceState::kFinishing:
      return Tr(context.language, Text::kFinishing);
    case query::TraceState::kFinished:
      break;
  }
  return Tr(context.language, Text::kFinished);
}

size_t NumOpRuns(const query::Snapshot& snapshot) {
  size_t count = 0;
  for (const query::RankRows& rank : snapshot.ranks) count += rank.op_runs.size();
  return count;
}

int64_t NumDropped(const query::Snapshot& snapshot) {
  int64_t dropped = 0;
  for (const query::Capability& row : snapshot.capabilities) dropped += row.dropped;
  return dropped;
}

// All that a source said: rows of one source add up, the newest says its status.
struct Source {
  std::string name;
  std::string status;
  int64_t dropped = 0;
  std::vector<std::string> reasons;  // of all its rows, once each
};

std::vector<Source> SourcesOf(const query::Snapshot& snapshot) {
  std::vector<Source> sources;
  for (const query::Capability& row : snapshot.capabilities) {
    auto found = std::find_if(sources.begin(), sources.end(),
                              [&](const Source& other) { return other.name == row.source; });
    if (found == sources.end()) found = sources.insert(sources.end(), {row.source, "", 0, {}});
    found->status = row.status;
    found->dropped += row.dropped;
    const bool known =
        std::find(found->reasons.begin(), found->reasons.end(), row.reason) != found->reasons.end();
    if (!row.reason.empty() && !known) found->reasons.push_back(row.reason);
  }
  return sources;
}

void DrawCapabilities(const widgets::Look& look, const ui::Context& context, ui::DrawLog* log) {
  for (const Source& source : SourcesOf(*context.snapshot)) {
    std::string value = source.status;
    if (source.dropped > 0) value += fmt::format(" · −{}", source.dropped);
    std::optional<widgets::Color> color;
    if (source.status != "on") color = look.theme.state.pending_text;
    if (source.dropped > 0) color = look.theme.state.bad;
    const ui::Box box = widgets::KeyValueRow(look, source.name, value, color);
    log->Int("dropped:" + source.name, value, source.dropped, "records", box);
    for (const std::string& reason : source.reasons) {
      log->Text("reason:" + source.name, reason,
                widgets::Paragraph(look, widgets::DimOf(look), reason));
    }
    if (!source.reasons.empty()) widgets::Gap(look, 4);
  }
}

// What is known of the GPU: rows, how many of them an op launched, the recorder's own cost.
void DrawGpu(const widgets::Look& look, const ui::Context& context, ui::DrawLog* log) {
  if (context.report == nullptr || context.report->kernels.num_ranks == 0) return;
  const analysis::KernelSummary& kernels = context.report->kernels;
  widgets::Gap(look, 8);
  widgets::FaintHeading(look, Tr(context.language, Text::kLogGpu));
  const auto row = [&](const char* id, Text label, const std::string& value, int64_t number,
                       const char* unit) {
    log->Int(id, value, number, unit,
             widgets::KeyValueRow(look, Tr(context.language, label), value));
  };
  const int64_t work = kernels.kernels + kernels.copies;
  row("gpu_work", Text::kLogGpuWork, FormatCount(static_cast<double>(work)), work, "");
  row("gpu_joined", Text::kLogGpuJoined, fmt::format("{:.2f} %", 100 * kernels.join_rate()),
      kernels.joined, "");
  row("gpu_overhead", Text::kLogGpuOverhead, ui::FormatDuration(kernels.overhead_ns),
      kernels.overhead_ns, "ns");
  if (kernels.without_times > 0) {
    row("gpu_without_times", Text::kLogGpuWithoutTimes, std::to_string(kernels.without_times),
        kernels.without_times, "");
  }
}

// Waits between streams against the Schedule: how many differ, and where most often.
void DrawWaits(const widgets::Look& look, const ui::Context& context, ui::DrawLog* log) {
  if (context.report == nullptr || context.report->edges.seen == 0) return;
  const analysis::EdgeCheck& edges = context.report->edges;
  const ui::Language language = context.language;
  const bool same = edges.compared() && edges.missing == 0 && edges.extra == 0;
  const std::string seen = same ? ui::TrFormat(language, Text::kLogWaitsAsPlanned, edges.seen)
                                : std::to_string(edges.seen);
  log->Int("waits_seen", seen, edges.seen, "",
           widgets::KeyValueRow(look, Tr(language, Text::kLogWaits), seen));
  const auto differing = [&](const char* id, Text label, int64_t count) {
    if (count == 0) return;
    const std::string value = std::to_string(count);
    log->Int(id, value, count, "",
             widgets::KeyValueRow(look, Tr(language, label), value, look.theme.state.bad));
  };
  differing("waits_missing", Text::kLogWaitsMissing, edges.missing);
  differing("waits_extra", Text::kLogWaitsExtra, edges.extra);
  constexpr size_t kListed = 6;
  for (size_t at = 0; at < std::min(kListed, edges.groups.size()); ++at) {
    const analysis::EdgeGroup& group = edges.groups[at];
    const std::string text =
        ui::TrFormat(language, group.missing ? Text::kLogWaitMissing : Text::kLogWaitExtra,
                     group.to, group.from, group.count, group.first.rank, group.first.step);
    log->Text("wait_differs", text, widgets::Paragraph(look, widgets::DimOf(look), text));
  }
}

// Within what the times of GPUs are right.
void DrawGpuClocks(const widgets::Look& look, const ui::Context& context, ui::DrawLog* log) {
  if (context.report == nullptr || context.report->gpu_clocks.empty()) return;
  for (const analysis::GpuClockBounds& bounds : context.report->gpu_clocks) {
    const std::string text = analysis::Describe(bounds);
    log->Text("gpu_clock", text, widgets::Paragraph(look, widgets::DimOf(look), text));
  }
}

}  // namespace

void DrawHealth(const widgets::Look& look, const ui::Context& context, ui::DrawLog* log) {
  widgets::Heading(look, Tr(context.language, Text::kLogHealth));
  if (!context.snapshot) {
    widgets::Paragraph(look, widgets::DimOf(look), Tr(context.language, Text::kLogNoRun));
    return;
  }
  const query::Snapshot& snapshot = *context.snapshot;
  widgets::KeyValueRow(look, Tr(context.language, Text::kLogState), StateText(context));
  widgets::KeyValueRow(look, Tr(context.language, Text::kLogConnection), ConnectionText(context));
  const int64_t dropped = NumDropped(snapshot);
  const std::string dropped_text = std::to_string(dropped);
  log->Int("dropped", dropped_text, dropped, "records",
           widgets::KeyValueRow(look, Tr(context.language, Text::kLogDropped), dropped_text,
                                dropped > 0 ? std::optional(look.theme.state.bad) : std::nullopt));
  if (snapshot.state == query::TraceState::kLive && !context.headless) {
    const int64_t lag = std::max<int64_t>(0, MonotonicNs() - snapshot.end_ns);
    widgets::KeyValueRow(look, Tr(context.language, Text::kLogLag), ui::FormatDuration(lag));
  }
  widgets::KeyValueRow(look, Tr(context.language, Text::kLogRows),
                       FormatCount(static_cast<double>(NumOpRuns(snapshot))));
  widgets::Gap(look, 8);
  widgets::FaintHeading(look, Tr(context.language, Text::kLogSource));
  DrawCapabilities(look, context, log);
  DrawGpu(look, context, log);
  DrawWaits(look, context, log);
  DrawGpuClocks(look, context, log);
  widgets::Gap(look, 8);
  widgets::FaintHeading(look, Tr(context.language, Text::kLogFolder));
  widgets::Paragraph(look, widgets::MonoOf(look), snapshot.run_folder);
}

}  // namespace shardscope::panels
