#include "ui/panels/run_control/change_card.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "trace/analysis/changes/changes.h"
#include "trace/base/units.h"
#include "ui/panels/run_control/knob.h"
#include "ui/text.h"
#include "ui/values.h"
#include "ui/widgets/labels.h"

namespace shardscope::panels {
namespace {

using ui::Text;
using ui::Tr;
using ui::TrFormat;

constexpr float kValueColumn = 92;
constexpr size_t kMaxKeys = 4;

struct Row {
  const char* id;
  const char* label;
  std::string values;
  double before = 0;
  double after = 0;
  std::optional<bool> beyond_noise;  // nullopt: too few steps to tell
};

// "−22%": less is better in every row of this card.
std::string ChangeText(const Row& row) {
  if (row.before <= 0) return {};
  const double change = row.after / row.before - 1;
  return fmt::format("{}{:.0f}%", change < 0 ? "−" : "+", std::abs(change) * 100);
}

void DrawRow(const widgets::Look& look, ui::Language language, const Row& row, ui::DrawLog* log) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float width = widgets::ContentWidth();
  widgets::TextStyle label = widgets::FaintOf(look);
  label.color = look.theme.ink.dim;
  widgets::TextStyle bold = widgets::BoldOf(look);
  bold.size = ui::kSmallTextSize;
  widgets::DrawText(look, label, at, row.label);
  const ui::Box box =
      widgets::DrawText(look, bold, {at.x + look.Px(kValueColumn), at.y}, row.values);
  log->Real(fmt::format("change.{}.before", row.id), row.values, row.before, "", box);
  log->Real(fmt::format("change.{}.after", row.id), row.values, row.after, "", box);
  std::string change = ChangeText(row);
  if (row.beyond_noise.value_or(false)) {
    bold.color = row.after < row.before ? look.theme.state.good : look.theme.state.bad;
  } else {
    bold.font = look.fonts.text;
    bold.color = look.theme.ink.dim;
    if (row.beyond_noise) change = Tr(language, Text::kWithinNoise);
  }
  widgets::DrawTextRight(look, bold, {at.x + width, at.y}, change);
  ImGui::Dummy({width, look.Px(ui::kTextSize)});
}

void DrawKeys(const widgets::Look& look, const ui::Context& context) {
  const auto& markers = context.change.markers;
  for (size_t i = 0; i < std::min(markers.size(), kMaxKeys); ++i) {
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const std::string line =
        markers[i].key + " " + ShowChange(markers[i].old_value, markers[i].new_value);
    widgets::DrawTextClipped(look, widgets::MonoOf(look), at, widgets::ContentWidth(), line);
    ImGui::Dummy({0, look.Px(ui::kMonoSize)});
  }
  if (markers.size() > kMaxKeys) {
    widgets::DrawText(look, widgets::FaintOf(look), ImGui::GetCursorScreenPos(),
                      fmt::format("+{}", markers.size() - kMaxKeys));
    ImGui::Dummy({0, look.Px(ui::kSmallTextSize)});
  }
}

// Whether more steps are on their way.
bool Trains(const ui::Context& context) {
  const bool paused = ui::CanSteer(context) && context.control.status.state == "paused";
  return context.snapshot->state == query::TraceState::kLive && !paused;
}

void DrawRows(const widgets::Look& look, const ui::Context& context, ui::DrawLog* log) {
  const ui::ChangeSummary& change = context.change;
  const auto ms = [](const analysis::Percentiles& before, const analysis::Percentiles& after) {
    return ui::FormatMs(before.p50) + " → " + ui::FormatMs(after.p50);
  };
  const auto beyond_noise = [&](const analysis::Percentiles& before,
                                const analysis::Percentiles& after) -> std::optional<bool> {
    if (!change.complete) return std::nullopt;
    return analysis::IsBeyondNoise(before, after);
  };
  const analysis::Summary& before = change.before;
  const analysis::Summary& after = change.after;
  DrawRow(look, context.language,
          {"step_ns", Tr(context.language, Text::kMsP50), ms(before.step_ns, after.step_ns),
           before.step_ns.p50, after.step_ns.p50, beyond_noise(before.step_ns, after.step_ns)},
          log);
  DrawRow(look, context.language,
          {"exposed_ns", Tr(context.language, Text::kExposed),
           ms(before.exposed_ns, after.exposed_ns) + " ms", before.exposed_ns.p50,
           after.exposed_ns.p50, beyond_noise(before.exposed_ns, after.exposed_ns)},
          log);
  const double peak_before = static_cast<double>(change.peak_before_bytes);
  const double peak_after = static_cast<double>(change.peak_after_bytes);
  DrawRow(look, context.language,
          {"peak_bytes", Tr(context.language, Text::kPeak),
           ShowChange(FormatBytes(change.peak_before_bytes), FormatBytes(change.peak_after_bytes)),
           peak_before, peak_after,
           change.complete ? std::optional(std::abs(peak_after - peak_before) >
                                           analysis::kSmallestChange * peak_before)
                           : std::nullopt},
          log);
  if (!change.complete) {
    const std::string text = TrFormat(context.language, Text::kChangeFewSteps, after.num_steps,
                                      analysis::kLeastChangeSteps);
    log->Text("change.few", text, widgets::Paragraph(look, widgets::FaintOf(look), text));
    return;
  }
  widgets::Paragraph(
      look, widgets::FaintOf(look),
      TrFormat(context.language, Text::kChangeOverSteps, before.num_steps, after.num_steps,
               ui::FormatMs(before.step_ns.p95), ui::FormatMs(after.step_ns.p95)));
}

}  // namespace

void DrawChangeCard(const ui::Context& context, ui::DrawLog* log) {
  const ui::ChangeSummary& change = context.change;
  if (!change.valid) return;
  const widgets::Look look = widgets::LookOf(context);
  const widgets::Card card(look, "change");
  const std::string title = TrFormat(context.language, Text::kChangedAtStep, change.step);
  log->Int("change.step", title, change.step, "step", widgets::Heading(look, title));
  DrawKeys(look, context);
  if (!change.complete && change.may_complete && Trains(context)) {
    const std::string text = TrFormat(context.language, Text::kChangeGathering,
                                      change.after.num_steps, analysis::kLeastChangeSteps);
    log->Text("change.gathering", text, widgets::Paragraph(look, widgets::FaintOf(look), text));
    return;
  }
  if (change.after.num_steps == 0) {
    const char* text = Tr(context.language, Text::kChangeNoSteps);
    log->Text("change.few", text, widgets::Paragraph(look, widgets::FaintOf(look), text));
    return;
  }
  DrawRows(look, context, log);
}

}  // namespace shardscope::panels
