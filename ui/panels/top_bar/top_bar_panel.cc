#include "ui/panels/top_bar/top_bar_panel.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "trace/analysis/memory/memory.h"
#include "trace/base/trace_keys.h"
#include "trace/base/units.h"
#include "ui/panels/scope_chip.h"
#include "ui/scope.h"
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
constexpr float kNarrowRunNameWidth = 60;
constexpr float kPillWidth = 62;
constexpr float kGap = 22;       // between numbers
constexpr float kNarrowGap = 4;  // on a narrow window
constexpr float kChipGap = 8;
constexpr float kNarrow = 1200;  // windows under this width, at scale 1
constexpr float kLabelGap = 7;
constexpr float kButtonSize = 30;
constexpr float kButtonGap = 8;
constexpr float kGroupGap = 24;  // beside stop, so that no hand takes it for step
constexpr float kNarrowGroupGap = 10;

// The line that everything stands on, from left to right.
struct Line {
  const ui::Context& context;
  widgets::Look look;
  ui::DrawLog* log;
  ImVec2 origin;
  float height;
  float x;
  float room_end;  // where the buttons begin: what does not fit before them is left out
  bool narrow = false;
  float gap = narrow ? kNarrowGap : kGap;                  // at scale 1
  float group_gap = narrow ? kNarrowGroupGap : kGroupGap;  // at scale 1

  ImVec2 At(float text_height) const { return {x, origin.y + (height - text_height) / 2}; }
  void Skip(float pixels) { x += look.Px(pixels); }
};

void DrawNames(Line* line) {
  if (!line->narrow) {
    widgets::TextStyle title = widgets::BoldOf(line->look);
    title.size = ui::kKeyNumberSize;
    widgets::DrawText(line->look, title, line->At(line->look.Px(title.size) * 1.17f), "Shardscope");
    line->Skip(kNameWidth - 12);
  }
  const ui::Context& context = line->context;
  const std::string name =
      context.snapshot ? context.snapshot->name : Tr(context.language, Text::kNoRunTitle);
  const widgets::TextStyle style = widgets::DimOf(line->look);
  const float width = line->narrow ? kNarrowRunNameWidth : kRunNameWidth;
  const ui::Box box =
      widgets::DrawTextClipped(line->look, style, line->At(line->look.Px(style.size) * 1.17f),
                               line->look.Px(width - 10), name);
  line->log->Text("run", name, box);
  line->Skip(width);
}

struct State {
  Text tip = Text::kTipFinished;
  ui::Color ground = 0;
  ui::Color ink = 0;
};

State StateOf(Text word, const ui::StateColors& colors) {
  switch (word) {
    case Text::kLive:
      return {Text::kTipLive, colors.live_fill, colors.live_text};
    case Text::kCut:
      return {Text::kTipCut, colors.cut_fill, colors.cut_text};
    case Text::kFailed:
      return {Text::kTipFailed, colors.cut_fill, colors.cut_text};
    case Text::kLoading:
      return {Text::kTipLoading, colors.quiet_fill, colors.quiet_text};
    case Text::kFinishing:
      return {Text::kTipFinishing, colors.quiet_fill, colors.quiet_text};
    case Text::kPaused:
      return {Text::kTipPaused, colors.pending_fill, colors.pending_text};
    default:
      return {Text::kTipFinished, colors.quiet_fill, colors.quiet_text};
  }
}

void DrawState(Line* line) {
  if (line->context.snapshot) {
    const Text text = ui::StateWord(line->context);
    const State state = StateOf(text, line->look.theme.state);
    const char* word = Tr(line->context.language, text);
    const ui::Box box = widgets::DrawPill(line->look, line->At(line->look.Px(20)), kPillWidth + 6,
                                          word, state.ground, state.ink);
    line->log->Text("state", word, box);
    ImGui::SetCursorScreenPos({box.x0, box.y0});
    ImGui::InvisibleButton("state", {box.x1 - box.x0, box.y1 - box.y0});
    widgets::ItemTooltip(line->look, Tr(line->context.language, state.tip), {});
  }
  line->Skip(kPillWidth + 6 + line->gap);
}

struct Number {
  Text label;
  float value_width = 40;  // room for the widest value
  std::string value;
  std::optional<ui::Color> color;
  Text tip = Text::kTipStep;
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
  ImGui::SetCursorScreenPos({at.x, line->origin.y});
  ImGui::PushID(static_cast<int>(number.label));
  ImGui::InvisibleButton("number", {look.Px(width), line->height});
  widgets::ItemTooltip(look, Tr(line->context.language, number.tip), {});
  ImGui::PopID();
  line->Skip(width + line->gap);
  return box;
}

// Of which steps all numbers behind it are.
void DrawScope(Line* line, ui::Commands* commands) {
  const ui::Context& context = line->context;
  if (context.report->steps.empty()) return;  // nothing to choose from
  float width = widgets::ChipMenuWidth(line->look, ui::ScopeMenuOf(context).label);
  if (!line->narrow) {
    // As wide as a usual label, so that the numbers stay where they are.
    const std::string usual = TrFormat(context.language, Text::kScopeSinceStep, 1000);
    width = std::max(width, widgets::ChipMenuWidth(line->look, usual));
  }
  if (line->x + width > line->room_end) {
    line->x = line->room_end;  // nor numbers, which would not say what they are of
    return;
  }
  DrawScopeChip(context, line->At(line->look.Px(20)), line->log, commands);
  line->x += width;
  line->Skip(line->gap);
}

// Of a run without steps nothing was measured: a zero would claim something.
void DrawNumbers(Line* line, ui::Commands* commands) {
  const ui::Context& context = line->context;
  if (!context.report || !context.figures) return;
  const analysis::Summary& summary = context.figures->summary;
  const ui::StateColors& colors = line->look.theme.state;
  const auto real = [line](const char* id, const std::string& text, double value, const char* unit,
                           const std::optional<ui::Box>& box) {
    if (box) line->log->Real(id, text, value, unit, *box);
  };

  const int64_t step = ui::NewestStep(context);
  const std::string step_text = step >= 0 ? std::to_string(step) : "–";
  std::optional<ui::Box> box = DrawNumber(line, {Text::kStep, 36, step_text});
  if (box) line->log->Int("step", step_text, step, "step", *box);

  DrawScope(line, commands);
  const bool measured = summary.num_steps > 0;
  const auto or_dash = [measured](std::string text) { return measured ? std::move(text) : "–"; };
  const std::string ms = or_dash(ui::FormatMs(summary.step_ns.p50));
  box = DrawNumber(line, {Text::kMsP50, 34, ms, std::nullopt, Text::kTipStepMs});
  real("step_ns_p50", ms, summary.step_ns.p50, "ns", box);

  const std::string exposed = or_dash(ui::FormatMs(summary.exposed_ns.p50) + " ms  " +
                                      FormatPercent(summary.exposed_share));
  box = DrawNumber(line, {Text::kExposed, 86, exposed, colors.bad, Text::kTipExposed});
  real("exposed_ns_p50", exposed, summary.exposed_ns.p50, "ns", box);
  real("exposed_share", exposed, summary.exposed_share, "share", box);

  const std::string overlap =
      summary.communicates ? or_dash(FormatPercent(summary.overlap_ratio)) : "–";
  box = DrawNumber(line, {Text::kOverlap, 34, overlap, colors.good, Text::kTipOverlap});
  real("overlap_ratio", overlap, summary.overlap_ratio, "share", box);

  const std::string tokens =
      summary.tokens_per_second > 0 ? FormatCount(summary.tokens_per_second) : "–";
  box = DrawNumber(line, {Text::kTokensPerSecond, 48, tokens, std::nullopt, Text::kTipTokens});
  real("tokens_per_second", tokens, summary.tokens_per_second, "tokens/s", box);

  const int64_t peak = analysis::LargestPeakBytes(context.figures->memory);
  const std::string bytes = peak > 0 ? FormatBytes(peak) : "–";
  box = DrawNumber(line, {Text::kPeak, 64, bytes, std::nullopt, Text::kTipPeak});
  if (box) line->log->Int("peak_bytes", bytes, peak, "B", *box);
}

// What says how true the numbers are: an emulated link, projected times, more ranks than cores.
struct TruthChip {
  const char* id;
  std::string text;
  std::string short_text;  // where there is no room for all of it
  widgets::ChipStyle style;
};

// More ranks than cores; or, where that is not it, cores that others use too.
TruthChip ContentionOf(const ui::Context& context) {
  const auto& meta = context.snapshot->meta;
  const auto cores = meta.find(std::string(trace_keys::kNumCores));
  const double num_cores = cores == meta.end() ? 0 : std::atof(cores->second.c_str());
  const double ranks = static_cast<double>(context.snapshot->ranks.size());
  if (num_cores < 1 || ranks <= num_cores) {
    const char* text = Tr(context.language, Text::kContendedPlain);
    return {"contended", text, text, {}};
  }
  const double share = ranks / num_cores;
  const std::string number = std::abs(share - std::round(share)) < 0.05
                                 ? fmt::format("{:.0f}", share)
                                 : fmt::format("{:.1f}", share);
  return {"contended",
          TrFormat(context.language, Text::kContended, number),
          TrFormat(context.language, Text::kContendedShort, number),
          {}};
}

// ", replicate 50 MB/s".
std::string OtherLinks(const ui::Context& context) {
  std::string text;
  for (int at = 0; at < words::kNumMeshDimensions; ++at) {
    const std::string dimension(Name(static_cast<words::MeshDimension>(at)));
    const auto rate = ParseBandwidth(ui::ValueInForce(context, "link." + dimension + ".bandwidth"));
    if (rate) text += ", " + dimension + " " + FormatBandwidth(*rate);
  }
  return text;
}

// Of times that are not measured.
TruthChip OriginOf(const Line& line) {
  const ui::Context& context = line.context;
  if (context.snapshot->truth == query::Truth::kProjected) {
    const char* text = Tr(context.language, Text::kProjectedChip);
    return {"truth", text, text, {}};
  }
  const std::string value = ui::ValueInForce(context, "link.bandwidth");
  const auto rate = ParseBandwidth(value);
  return {"truth",
          TrFormat(context.language, Text::kEmulatedLink,
                   (rate ? FormatBandwidth(*rate) : value) + OtherLinks(context)),
          Tr(context.language, Text::kEmulatedChip),
          {.swatch = line.look.theme.op.all_gather, .hatched = true}};
}

std::vector<TruthChip> TruthChips(const Line& line) {
  const query::Snapshot* snapshot = line.context.snapshot.get();
  std::vector<TruthChip> chips;
  if (snapshot == nullptr) return chips;
  if (snapshot->truth != query::Truth::kMeasured) chips.push_back(OriginOf(line));
  if (snapshot->contended) chips.push_back(ContentionOf(line.context));
  return chips;
}

// With the gap behind it.
float ShortWidth(const Line& line, const TruthChip& chip) {
  return widgets::ChipWidth(line.look, chip.short_text, chip.style) + line.look.Px(kChipGap);
}

// However little room there is: each is there, in its short form if need be.
void DrawTruth(Line* line, const std::vector<TruthChip>& chips) {
  float behind = 0;
  for (const TruthChip& chip : chips) behind += ShortWidth(*line, chip);
  for (const TruthChip& chip : chips) {
    behind -= ShortWidth(*line, chip);
    const float width = widgets::ChipWidth(line->look, chip.text, chip.style);
    const bool fits = line->x + width + behind <= line->room_end;
    const std::string& text = fits ? chip.text : chip.short_text;
    const ui::Box box =
        widgets::DrawChip(line->look, line->At(line->look.Px(20)), text, chip.style);
    line->log->Text(chip.id, text, box);
    line->x = box.x1 + line->look.Px(kChipGap);
    if (fits) continue;
    ImGui::SetCursorScreenPos({box.x0, box.y0});
    ImGui::InvisibleButton(chip.id, {box.x1 - box.x0, box.y1 - box.y0});
    widgets::ItemTooltip(line->look, chip.text, {});
  }
}

float ButtonsWidth(bool narrow) {
  return 4 * kButtonSize + kButtonGap + 2 * (narrow ? kNarrowGroupGap : kGroupGap);
}

// Pause, step, and apart from them stop; at the right the menu.
void DrawButtons(Line* line, float right, ui::Commands* commands) {
  using config::Action;
  const ui::Context& context = line->context;
  const bool enabled = ui::CanSteer(context);
  const bool paused = ui::IsPaused(context);
  const widgets::Look& look = line->look;
  const auto tip = [&](Text text) {
    return Tr(context.language, enabled ? text : Text::kNoControlTip);
  };
  float x = right - look.Px(ButtonsWidth(line->narrow));
  const float y = line->origin.y + (line->height - look.Px(kButtonSize)) / 2;
  const auto button = [&](const char* id, widgets::Icon icon, bool active, const char* text,
                          float gap) {
    ImGui::SetCursorScreenPos({x, y});
    const bool clicked = widgets::IconButton(look, id, icon, active, text, kButtonSize);
    line->log->Text(std::string("button:") + id, text,
                    widgets::ToBox({x, y}, {x + look.Px(kButtonSize), y + look.Px(kButtonSize)}));
    x += look.Px(kButtonSize + gap);
    return clicked;
  };
  if (button("pause", paused ? widgets::Icon::kPlay : widgets::Icon::kPause, enabled,
             tip(paused ? Text::kResumeTip : Text::kPauseTip), kButtonGap)) {
    commands->push_back(ui::DoAction{paused ? Action::kResume : Action::kPause});
  }
  if (button("step", widgets::Icon::kStep, enabled, tip(Text::kStepTip), line->group_gap)) {
    commands->push_back(ui::DoAction{Action::kStep});
  }
  if (button("stop", widgets::Icon::kStop, enabled, tip(Text::kStopTip), line->group_gap)) {
    commands->push_back(ui::ShowOverlay{ui::Overlay::kStopQuestion});
  }
  // The menu opens where its tooltip would be.
  const bool open = context.overlay == ui::Overlay::kMenu;
  button("menu", widgets::Icon::kMenu, true, open ? "" : Tr(context.language, Text::kMenuTip), 0);
  // When pressed, as a press beside the open menu closes it: the same press does not do both.
  if (ImGui::IsItemActivated() && !open) {
    commands->push_back(ui::ShowOverlay{ui::Overlay::kMenu});
  }
}

}  // namespace

void DrawTopBar(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) {
  const widgets::Look look = widgets::LookOf(context);
  const ImVec2 origin = ImGui::GetWindowPos();
  const ImVec2 size = ImGui::GetWindowSize();
  const float right = origin.x + size.x - look.Px(ui::kPanelPadding);
  const bool narrow = size.x < look.Px(kNarrow);
  const float buttons = right - look.Px(ButtonsWidth(narrow) + kNarrowGroupGap);
  Line line{context, look, log, origin, size.y, origin.x + look.Px(16), buttons, narrow};
  DrawNames(&line);
  DrawState(&line);
  const std::vector<TruthChip> chips = TruthChips(line);
  for (const TruthChip& chip : chips) line.room_end -= ShortWidth(line, chip);
  DrawNumbers(&line, commands);
  line.room_end = buttons;
  DrawTruth(&line, chips);
  DrawButtons(&line, right, commands);
  ImGui::GetWindowDrawList()->AddRectFilled({origin.x, origin.y + size.y - look.Px(1)},
                                            {origin.x + size.x, origin.y + size.y},
                                            look.theme.surface.line);
}

}  // namespace shardscope::panels
