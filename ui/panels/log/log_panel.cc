#include "ui/panels/log/log_panel.h"

#include <algorithm>
#include <string>

#include "trace/base/time.h"
#include "trace/base/units.h"
#include "ui/text.h"
#include "ui/values.h"
#include "ui/widgets/labels.h"

namespace shardscope::panels {
namespace {

using ui::Text;
using ui::Tr;

constexpr float kHealthWidth = 340;

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

void DrawCapabilities(const widgets::Look& look, const ui::Context& context, ui::DrawLog* log) {
  // Rows of one source add up; the newest says its status.
  std::vector<query::Capability> sources;
  for (const query::Capability& row : context.snapshot->capabilities) {
    const auto found = std::find_if(sources.begin(), sources.end(),
                                    [&](const auto& other) { return other.source == row.source; });
    if (found == sources.end()) {
      sources.push_back(row);
    } else {
      const int64_t dropped = found->dropped + row.dropped;
      *found = row;
      found->dropped = dropped;
    }
  }
  for (const query::Capability& row : sources) {
    std::string value = row.status;
    if (row.dropped > 0) value += fmt::format(" · −{}", row.dropped);
    const ui::Box box =
        widgets::KeyValueRow(look, row.source, value,
                             row.dropped > 0 ? std::optional(look.theme.state.bad) : std::nullopt);
    log->Int("dropped:" + row.source, value, row.dropped, "records", box);
    if (!row.reason.empty()) widgets::Paragraph(look, widgets::FaintOf(look), row.reason);
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
  widgets::Gap(look, 8);
  widgets::FaintHeading(look, Tr(context.language, Text::kLogFolder));
  widgets::Paragraph(look, widgets::MonoOf(look), snapshot.run_folder);
}

void DrawMessages(const widgets::Look& look, const ui::Context& context) {
  widgets::Heading(look, Tr(context.language, Text::kLogMessages));
  if (!ImGui::BeginChild("messages")) {
    ImGui::EndChild();
    return;
  }
  if (context.log.empty()) {
    widgets::Paragraph(look, widgets::DimOf(look), Tr(context.language, Text::kLogEmpty));
  }
  ImGui::PushFont(look.fonts.mono, ui::kMonoSize);
  ImGui::PushStyleColor(ImGuiCol_Text, look.theme.ink.dim);
  ImGuiListClipper clipper;
  clipper.Begin(static_cast<int>(context.log.size()));
  while (clipper.Step()) {
    for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i) {
      ImGui::TextUnformatted(context.log[static_cast<size_t>(i)].c_str());
    }
  }
  ImGui::PopStyleColor();
  ImGui::PopFont();
  // Stays at the newest message unless the user scrolled up.
  if (ImGui::GetScrollY() >= ImGui::GetScrollMaxY() - 1) ImGui::SetScrollHereY(1);
  ImGui::EndChild();
}

}  // namespace

void DrawLogPanel(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) {
  (void)commands;
  const widgets::Look look = widgets::LookOf(context);
  widgets::Gap(look, 4);
  if (ImGui::BeginChild("health", {look.Px(kHealthWidth), 0})) DrawHealth(look, context, log);
  ImGui::EndChild();
  ImGui::SameLine(0, look.Px(24));
  if (ImGui::BeginChild("log")) DrawMessages(look, context);
  ImGui::EndChild();
}

}  // namespace shardscope::panels
