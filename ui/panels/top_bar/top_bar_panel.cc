#include "ui/panels/top_bar/top_bar_panel.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "trace/base/units.h"
#include "ui/text.h"
#include "ui/values.h"
#include "ui/widgets/buttons.h"
#include "ui/widgets/labels.h"
#include "ui/widgets/tooltip.h"

namespace shardscope::panels {
namespace {

using ui::Text;
using ui::Tr;
using ui::TrFormat;

constexpr float kNameWidth = 108;
constexpr float kRunNameWidth = 116;
constexpr float kPillWidth = 62;
constexpr float kLabelGap = 7;
constexpr float kButtonSize = 30;
constexpr float kButtonGap = 8;

// The line that everything stands on, from left to right.
struct Line {
  const ui::Context& context;
  widgets::Look look;
  ui::DrawLog* log;
  ImVec2 origin;
  float height;
  float x;
  float room_end;  // where the buttons begin: what does not fit before them is left out

  ImVec2 At(float text_height) const { return {x, origin.y + (height - text_height) / 2}; }
  void Skip(float pixels) { x += look.Px(pixels); }
};

void DrawNames(Line* line) {
  widgets::TextStyle title = widgets::BoldOf(line->look);
  title.size = ui::kKeyNumberSize;
  widgets::DrawText(line->look, title, line->At(line->look.Px(title.size) * 1.17f), "Shardscope");
  line->Skip(kNameWidth - 12);
  const ui::Context& context = line->context;
  const std::string name =
      context.snapshot ? context.snapshot->name : Tr(context.language, Text::kNoRunTitle);
  const widgets::TextStyle style = widgets::DimOf(line->look);
  const ui::Box box =
      widgets::DrawTextClipped(line->look, style, line->At(line->look.Px(style.size) * 1.17f),
                               line->look.Px(kRunNameWidth - 10), name);
  line->log->Text("run", name, box);
  line->Skip(kRunNameWidth);
}

void DrawState(Line* line) {
  const ui::Context& context = line->context;
  if (context.snapshot) {
    const ui::StateColors& colors = line->look.theme.state;
    Text text = Text::kFinished;
    ui::Color ground = colors.quiet_fill;
    ui::Color ink = colors.quiet_text;
    if (context.snapshot->loading) {
      text = Text::kLoading;
    } else if (context.snapshot->state == query::TraceState::kCut) {
      text = Text::kCut;
      ground = colors.cut_fill;
      ink = colors.cut_text;
    } else if (context.snapshot->state == query::TraceState::kFinishing) {
      text = Text::kFinishing;
    } else if (context.snapshot->state == query::TraceState::kLive) {
      text = Text::kLive;
      ground = colors.live_fill;
      ink = colors.live_text;
      if (ui::CanSteer(context) && context.control.status.state == "paused") {
        text = Text::kPaused;
        ground = colors.quiet_fill;
        ink = colors.quiet_text;
      }
    }
    const char* word = Tr(context.language, text);
    line->log->Text("state", word,
                    widgets::DrawPill(line->look, line->At(line->look.Px(20)), kPillWidth + 6, word,
                                      ground, ink));
  }
  line->Skip(kPillWidth + 22);
}

struct Number {
  Text label;
  float value_width = 40;  // room for the widest value
  std::string value;
  std::optional<ui::Color> color;
  Text tip = Text::kNoRunTitle;  // kNoRunTitle: none
};

// Returns the value's box; none where there is no room. The label's own width is constant in a
// language, so values never move.
std::optional<ui::Box> DrawNumber(Line* line, const Number& number) {
  const widgets::Look& look = line->look;
  const char* label = Tr(line->context.language, number.label);
  const float label_width =
      widgets::TextSize(look, widgets::FaintOf(look), label).x / look.scale + kLabelGap;
  const float width = label_width + number.value_width;
  if (line->x + look.Px(width) > line->room_end) {
    line->x = line->room_end;  // nor anything after it
    return std::nullopt;
  }
  const ImVec2 at = line->At(look.Px(ui::kKeyNumberSize) * 1.17f);
  const ui::Box box =
      widgets::DrawNumberSlot(look, at, {label, number.value, label_width, number.color});
  if (number.tip != Text::kNoRunTitle) {
    ImGui::SetCursorScreenPos({at.x, line->origin.y});
    ImGui::PushID(static_cast<int>(number.label));
    ImGui::InvisibleButton("number", {look.Px(width), line->height});
    widgets::ItemTooltip(look, Tr(line->context.language, number.tip), {});
    ImGui::PopID();
  }
  line->Skip(width + 22);
  return box;
}

int64_t NewestStep(const ui::Context& context) {
  if (ui::CanSteer(context)) return context.control.status.step;
  return context.report && !context.report->steps.empty() ? context.report->steps.back().step : -1;
}

int64_t PeakBytes(const analysis::Report& report) {
  int64_t peak = 0;
  for (const analysis::MemoryPeak& rank : report.memory) peak = std::max(peak, rank.peak_bytes);
  return peak;
}

void DrawNumbers(Line* line) {
  const ui::Context& context = line->context;
  if (!context.report) return;
  const analysis::Summary& summary = context.report->summary;
  const ui::StateColors& colors = line->look.theme.state;
  const auto real = [line](const char* id, const std::string& text, double value, const char* unit,
                           const std::optional<ui::Box>& box) {
    if (box) line->log->Real(id, text, value, unit, *box);
  };

  const int64_t step = NewestStep(context);
  const std::string step_text = step >= 0 ? std::to_string(step) : "–";
  std::optional<ui::Box> box = DrawNumber(line, {Text::kStep, 36, step_text});
  if (box) line->log->Int("step", step_text, step, "step", *box);

  const std::string ms = ui::FormatMs(summary.step_ns.p50);
  box = DrawNumber(line, {Text::kMsP50, 34, ms, std::nullopt, Text::kTipStepMs});
  real("step_ns_p50", ms, summary.step_ns.p50, "ns", box);

  const std::string exposed =
      ui::FormatMs(summary.exposed_ns.p50) + " ms  " + FormatPercent(summary.exposed_share);
  box = DrawNumber(line, {Text::kExposed, 86, exposed, colors.bad, Text::kTipExposed});
  real("exposed_ns_p50", exposed, summary.exposed_ns.p50, "ns", box);
  real("exposed_share", exposed, summary.exposed_share, "share", box);

  const std::string overlap = FormatPercent(summary.overlap_ratio);
  box = DrawNumber(line, {Text::kOverlap, 34, overlap, colors.good, Text::kTipOverlap});
  real("overlap_ratio", overlap, summary.overlap_ratio, "share", box);

  const std::string tokens = FormatCount(summary.tokens_per_second);
  box = DrawNumber(line, {Text::kTokensPerSecond, 48, tokens});
  real("tokens_per_second", tokens, summary.tokens_per_second, "tokens/s", box);

  const int64_t peak = PeakBytes(*context.report);
  const std::string bytes = FormatBytes(peak);
  box = DrawNumber(line, {Text::kPeak, 64, bytes, std::nullopt, Text::kTipPeak});
  if (box) line->log->Int("peak_bytes", bytes, peak, "B", *box);
}

std::string ContentionText(const ui::Context& context) {
  const auto& meta = context.snapshot->meta;
  const auto cores = meta.find("num_cores");
  const double num_cores = cores == meta.end() ? 0 : std::atof(cores->second.c_str());
  const double ranks = static_cast<double>(context.snapshot->ranks.size());
  if (num_cores < 1 || ranks <= num_cores) {
    return Tr(context.language, Text::kContendedPlain);
  }
  const double share = ranks / num_cores;
  return TrFormat(context.language, Text::kContended,
                  std::abs(share - std::round(share)) < 0.05 ? fmt::format("{:.0f}", share)
                                                             : fmt::format("{:.1f}", share));
}

// What the numbers are built on: an emulated link, projected times, ranks that share cores.
void DrawTruth(Line* line) {
  const ui::Context& context = line->context;
  if (!context.snapshot) return;
  const auto chip = [line](const char* id, const std::string& text,
                           const widgets::ChipStyle& style) {
    const float width = widgets::ChipWidth(line->look, text, style);
    if (line->x + width > line->room_end) return;
    line->log->Text(id, text,
                    widgets::DrawChip(line->look, line->At(line->look.Px(20)), text, style));
    line->x += width + line->look.Px(8);
  };
  if (context.snapshot->truth == query::Truth::kEmulated) {
    const std::string value = ui::ValueInForce(context, "link.bandwidth");
    const auto rate = ParseBandwidth(value);
    chip("truth",
         TrFormat(context.language, Text::kEmulatedLink, rate ? FormatBandwidth(*rate) : value),
         {.swatch = line->look.theme.op.all_gather, .hatched = true});
  } else if (context.snapshot->truth == query::Truth::kProjected) {
    chip("truth", Tr(context.language, Text::kProjectedChip), {});
  }
  if (context.snapshot->contended) chip("contended", ContentionText(context), {});
}

void DrawActions(Line* line, float right, ui::Commands* commands) {
  using config::Action;
  const ui::Context& context = line->context;
  const bool enabled = ui::CanSteer(context);
  const bool paused = enabled && context.control.status.state == "paused";
  const widgets::Look& look = line->look;
  const auto tip = [&](Text text) {
    return Tr(context.language, enabled ? text : Text::kNoControlTip);
  };
  const float step = look.Px(kButtonSize + kButtonGap);
  const float y = line->origin.y + (line->height - look.Px(kButtonSize)) / 2;
  ImGui::SetCursorScreenPos({right - 3 * step + look.Px(kButtonGap), y});
  if (widgets::IconButton(look, "pause", paused ? widgets::Icon::kPlay : widgets::Icon::kPause,
                          enabled, tip(paused ? Text::kResumeTip : Text::kPauseTip), kButtonSize)) {
    commands->push_back(ui::DoAction{paused ? Action::kResume : Action::kPause});
  }
  ImGui::SetCursorScreenPos({right - 2 * step + look.Px(kButtonGap), y});
  if (widgets::IconButton(look, "step", widgets::Icon::kStep, enabled, tip(Text::kStepTip),
                          kButtonSize)) {
    commands->push_back(ui::DoAction{Action::kStep});
  }
  ImGui::SetCursorScreenPos({right - step + look.Px(kButtonGap), y});
  if (widgets::IconButton(look, "stop", widgets::Icon::kStop, enabled, tip(Text::kStopTip),
                          kButtonSize)) {
    commands->push_back(ui::DoAction{Action::kStop});
  }
}

}  // namespace

void DrawTopBar(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) {
  const widgets::Look look = widgets::LookOf(context);
  const ImVec2 origin = ImGui::GetWindowPos();
  const ImVec2 size = ImGui::GetWindowSize();
  const float right = origin.x + size.x - look.Px(ui::kPanelPadding);
  const float buttons = right - look.Px(3 * (kButtonSize + kButtonGap));
  Line line{context, look, log, origin, size.y, origin.x + look.Px(16), buttons};
  DrawNames(&line);
  DrawState(&line);
  DrawNumbers(&line);
  DrawTruth(&line);
  DrawActions(&line, right, commands);
  ImGui::GetWindowDrawList()->AddRectFilled({origin.x, origin.y + size.y - look.Px(1)},
                                            {origin.x + size.x, origin.y + size.y},
                                            look.theme.surface.line);
}

}  // namespace shardscope::panels
