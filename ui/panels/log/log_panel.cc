#include "ui/panels/log/log_panel.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "trace/base/units.h"
#include "trace/query/summary.h"
#include "ui/context.h"
#include "ui/draw_log.h"
#include "ui/text.h"
#include "ui/values.h"
#include "ui/widgets/labels.h"
#include "ui/widgets/look.h"
#include "ui/widgets/part.h"

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

int64_t NumOpRuns(const query::Snapshot& snapshot) {
  if (snapshot.summed_op_runs) return *snapshot.summed_op_runs;
  size_t count = 0;
  for (const query::RankRows& rank : snapshot.ranks) count += rank.op_runs.size();
  return static_cast<int64_t>(count);
}

// Chinese has no plural.
std::string PlaceWords(ui::Language language, const analysis::SourceState& state) {
  std::string places = analysis::PlacesOf(state);
  if (language == ui::Language::kChinese && places.starts_with("ranks ")) places.erase(4, 1);
  return places;
}

// Each status and reason of a source stands once, with where it is so unless it is so everywhere.
void DrawSources(const widgets::Look& look, const ui::Context& context, ui::DrawLog* log) {
  if (context.report == nullptr) return;
  for (const analysis::SourceState& state : context.report->sources) {
    std::string value =
        ui::Translated(context.language, state.status, {Text::kOn, Text::kOff, Text::kLogPartial});
    if (state.dropped > 0) value += fmt::format(" · −{}", state.dropped);
    std::optional<widgets::Color> color;
    if (state.status != Name(query::CapabilityStatus::kOn)) color = look.theme.state.pending_text;
    if (state.dropped > 0) color = look.theme.state.bad;
    const ui::Box box = widgets::KeyValueRow(look, state.source, value, color);
    log->Int("source:" + state.source, value, state.dropped, "records", box);
    std::string reason = PlaceWords(context.language, state);
    if (!reason.empty() && !state.reason.empty()) reason += ": ";
    reason += ui::ReasonText(context.language, state.reason);
    if (reason.empty()) continue;
    log->Text("reason:" + state.source, reason,
              widgets::Paragraph(look, widgets::DimOf(look), reason));
    widgets::Gap(look, 4);
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

// Within what the times of GPUs are right against the host's clock.
void DrawGpuClocks(const widgets::Look& look, const ui::Context& context, ui::DrawLog* log) {
  if (context.report == nullptr) return;
  for (const analysis::GpuClockBounds& bounds : context.report->gpu_clocks) {
    const bool fits = bounds.low_ns <= 0 && bounds.high_ns >= 0;
    const Text verdict = bounds.drifts() ? Text::kLogGpuClockDrifts
                         : fits          ? Text::kLogGpuClockRight
                                         : Text::kLogGpuClockOff;
    const std::string label =
        ui::TrFormat(context.language, Text::kLogGpuClock, bounds.device, bounds.rank);
    const std::string value =
        ui::TrFormat(context.language, verdict, ui::FormatDuration(bounds.uncertainty_ns()));
    log->Int(fmt::format("gpu_clock:{}:{}", bounds.rank, bounds.device), value,
             bounds.uncertainty_ns(), "ns",
             widgets::KeyValueRow(look, label, value,
                                  fits ? std::nullopt : std::optional(look.theme.state.bad)));
  }
}

// What recording costs, where the run measured it: steps that were not recorded against those
// beside them.
void DrawOverhead(const widgets::Look& look, const ui::Context& context, ui::DrawLog* log) {
  if (context.report == nullptr || context.report->overhead.rounds == 0) return;
  const analysis::Overhead& overhead = context.report->overhead;
  const auto percent = [](double ratio) { return fmt::format("{:+.1f} %", 100 * (ratio - 1)); };
  widgets::Gap(look, 8);
  widgets::FaintHeading(look, Tr(context.language, Text::kLogCost));
  const std::string value = percent(overhead.ratio);
  log->Real("overhead", value, overhead.ratio, "",
            widgets::KeyValueRow(look, Tr(context.language, Text::kLogCostOfStep), value));
  const std::string how =
      ui::TrFormat(context.language, Text::kLogCostHow, ui::FormatDuration(overhead.recorded_ns),
                   ui::FormatDuration(overhead.unrecorded_ns), overhead.rounds,
                   percent(overhead.lowest), percent(overhead.highest));
  log->Text("overhead_how", how, widgets::Paragraph(look, widgets::DimOf(look), how));
  std::string steps;
  for (const int32_t step : overhead.left_out) {
    steps += (steps.empty() ? "" : ", ") + std::to_string(step);
  }
  const std::string left_out = ui::TrFormat(context.language, Text::kLogCostLeftOut, steps);
  log->Text("overhead_left_out", left_out,
            widgets::Paragraph(look, widgets::DimOf(look), left_out));
}

// Fills the current child window.
void DrawHealth(const widgets::Look& look, const ui::Context& context, ui::DrawLog* log) {
  widgets::Heading(look, Tr(context.language, Text::kLogHealth));
  if (!context.snapshot) {
    widgets::Paragraph(look, widgets::DimOf(look), Tr(context.language, Text::kLogNoRun));
    return;
  }
  const query::Snapshot& snapshot = *context.snapshot;
  const char* state = Tr(context.language, ui::StateWord(context));
  log->Text("state", state,
            widgets::KeyValueRow(look, Tr(context.language, Text::kLogState), state));
  widgets::KeyValueRow(look, Tr(context.language, Text::kLogConnection), ConnectionText(context));
  const int64_t dropped = ui::DroppedRecords(snapshot);
  const std::string dropped_text = std::to_string(dropped);
  log->Int("dropped", dropped_text, dropped, "records",
           widgets::KeyValueRow(look, Tr(context.language, Text::kLogDropped), dropped_text,
                                dropped > 0 ? std::optional(look.theme.state.bad) : std::nullopt));
  if (const std::optional<int64_t> lag_ns = ui::LagNs(context)) {
    widgets::KeyValueRow(look, Tr(context.language, Text::kLogLag), ui::FormatDuration(*lag_ns));
  }
  widgets::KeyValueRow(look, Tr(context.language, Text::kLogRows),
                       FormatCount(static_cast<double>(NumOpRuns(snapshot))));
  widgets::Gap(look, 8);
  widgets::FaintHeading(look, Tr(context.language, Text::kLogSource));
  DrawSources(look, context, log);
  DrawGpu(look, context, log);
  DrawGpuClocks(look, context, log);
  DrawWaits(look, context, log);
  DrawOverhead(look, context, log);
  widgets::Gap(look, 8);
  widgets::FaintHeading(look, Tr(context.language, Text::kLogFolder));
  widgets::Paragraph(look, widgets::MonoOf(look), snapshot.run_folder);
}

using ui::Text;
using ui::Tr;

// Health and messages.
constexpr widgets::TwoParts kLogParts{.width = 380,
                                      .least_width_behind = 300,
                                      .fraction = 2,
                                      .least_height = 90,
                                      .least_height_below = 90};

// Wrapped at the right edge; those out of sight only take their height.
void DrawLines(const widgets::Look& look, const std::vector<std::string>& lines, ui::DrawLog* log) {
  const float width = widgets::ContentWidth();
  const float widest_letter = ImGui::CalcTextSize("M").x;  // in the mono font that is current
  const float gap = ImGui::GetStyle().ItemSpacing.y;
  const float top = ImGui::GetScrollY();
  const float bottom = top + ImGui::GetWindowHeight();
  const float begin = ImGui::GetCursorPosY();
  float y = begin;
  ImGui::PushTextWrapPos(0);
  for (const std::string& line : lines) {
    const bool one_row = static_cast<float>(line.size()) * widest_letter <= width;
    // Thousands of others would cost too much in a frame: Dear ImGui breaks them.
    const bool is_chinese =
        std::ranges::any_of(line, [](char c) { return static_cast<unsigned char>(c) >= 0xE3; });
    const std::string rows =
        one_row || !is_chinese ? line
                               : widgets::WithLineBreaks(look, widgets::MonoOf(look), line, width);
    const float height = one_row ? ImGui::GetTextLineHeight()
                                 : ImGui::CalcTextSize(rows.c_str(), nullptr, false, width).y;
    if (y + height >= top && y <= bottom) {
      ImGui::SetCursorPosY(y);
      ImGui::TextUnformatted(rows.c_str());
      log->Text("line", line, widgets::ToBox(ImGui::GetItemRectMin(), ImGui::GetItemRectMax()));
    }
    y += height + gap;
  }
  ImGui::PopTextWrapPos();
  ImGui::SetCursorPosY(begin);
  ImGui::Dummy({0, y - begin});
}

void DrawMessages(const widgets::Look& look, const ui::Context& context, ui::DrawLog* log) {
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
  DrawLines(look, context.log, log);
  ImGui::PopStyleColor();
  ImGui::PopFont();
  // Stays at the newest message unless the user scrolled up.
  if (ImGui::GetScrollY() >= ImGui::GetScrollMaxY() - 1) ImGui::SetScrollHereY(1);
  ImGui::EndChild();
}

}  // namespace

void LogPanel::Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* /*commands*/) {
  const widgets::Look look = widgets::LookOf(context);
  widgets::Gap(look, 4);
  const widgets::PlacedParts parts = widgets::PlaceTwoParts(look, kLogParts);
  if (ImGui::BeginChild("health", parts.first)) DrawHealth(look, context, log);
  ImGui::EndChild();
  if (parts.beside) ImGui::SameLine(0, look.Px(24));
  if (ImGui::BeginChild("log", parts.second)) DrawMessages(look, context, log);
  ImGui::EndChild();
}

}  // namespace shardscope::panels
