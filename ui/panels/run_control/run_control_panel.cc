#include "ui/panels/run_control/run_control_panel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>

#include "trace/analysis/changes.h"
#include "trace/base/units.h"
#include "ui/context.h"
#include "ui/draw_log.h"
#include "ui/key_choices.h"
#include "ui/panels/run_control/knob.h"
#include "ui/text.h"
#include "ui/value_label.h"
#include "ui/values.h"
#include "ui/widgets/buttons.h"
#include "ui/widgets/fields.h"
#include "ui/widgets/keys.h"
#include "ui/widgets/labels.h"
#include "ui/widgets/part.h"
#include "ui/widgets/tooltip.h"

namespace shardscope::panels {
namespace {

using ui::Text;
using ui::Tr;
using ui::TrFormat;

constexpr float kValueColumn = 92;
constexpr float kChangeGap = 8;  // between the texts of a row of the card
constexpr size_t kMaxKeys = 4;
constexpr float kRingRoom = 4;  // around the knob that was asked for
constexpr float kArrowScroll = 20;
// The window of a panel that was behind another tab gets the keyboard after its first frame, and
// what has it scrolls into view at an edge.
constexpr int kSettledFrames = 3;

using ChangeVerdict = analysis::ComparisonVerdict;

struct Row {
  const char* id;
  const char* label;
  std::string values;
  double before = 0;
  double after = 0;
  ChangeVerdict verdict = ChangeVerdict::kNotComparable;  // of what is after
};

// "−22%".
std::string ChangeText(const Row& row) {
  if (row.before <= 0) return {};
  const double change = row.after / row.before - 1;
  return fmt::format("{}{:.0f}%", change < 0 ? "−" : "+", std::abs(change) * 100);
}

// Label, values and change in a line; where they have no room beside one another, the values in a
// line of their own.
void DrawRow(const widgets::Look& look, ui::Language language, const Row& row, ui::DrawLog* log) {
  ImVec2 at = ImGui::GetCursorScreenPos();
  const float width = widgets::ContentWidth();
  widgets::TextStyle label = widgets::FaintOf(look);
  label.color = look.theme.ink.dim;
  widgets::TextStyle bold = widgets::BoldOf(look);
  bold.size = ui::kSmallTextSize;
  widgets::TextStyle of_change = bold;
  std::string change = ChangeText(row);
  if (row.verdict == ChangeVerdict::kBetter || row.verdict == ChangeVerdict::kWorse) {
    of_change.color =
        row.verdict == ChangeVerdict::kBetter ? look.theme.state.good : look.theme.state.bad;
  } else {
    of_change.font = look.fonts.text;
    of_change.color = look.theme.ink.dim;
    if (row.verdict == ChangeVerdict::kWithinNoise) change = Tr(language, Text::kWithinNoise);
  }
  const float gap = look.Px(kChangeGap);
  const float column = look.Px(kValueColumn);
  const float values_width = widgets::TextSize(look, bold, row.values).x;
  const float change_width = widgets::TextSize(look, of_change, change).x;
  const bool is_one_line = widgets::TextSize(look, label, row.label).x + gap <= column &&
                           column + values_width + gap + change_width <= width;
  widgets::DrawText(look, label, at, row.label);
  widgets::DrawTextRight(look, of_change, {at.x + width, at.y}, change);
  float indent = column;
  if (!is_one_line) {
    ImGui::Dummy({width, look.Px(ui::kTextSize)});
    at = ImGui::GetCursorScreenPos();
    indent = 0;
  }
  const ui::Box box =
      widgets::DrawTextClipped(look, bold, {at.x + indent, at.y}, width - indent, row.values);
  log->Real(fmt::format("change.{}.before", row.id), row.values, row.before, "", box);
  log->Real(fmt::format("change.{}.after", row.id), row.values, row.after, "", box);
  ImGui::Dummy({width, look.Px(ui::kTextSize)});
}

void DrawKeys(const widgets::Look& look, const ui::Context& context) {
  const auto& markers = context.change.markers;
  for (size_t i = 0; i < std::min(markers.size(), kMaxKeys); ++i) {
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const std::string line =
        markers[i].key + " " +
        ShowChange(ui::ValueLabel(markers[i].old_value), ui::ValueLabel(markers[i].new_value));
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
  return context.snapshot->state == query::TraceState::kLive && !ui::IsPaused(context);
}

// By its size alone: peaks are of the largest step, not of each.
ChangeVerdict VerdictOfPeak(const ui::ChangeSummary& change) {
  if (!change.complete) return ChangeVerdict::kNotComparable;
  const auto before = static_cast<double>(change.peak_before_bytes);
  const auto after = static_cast<double>(change.peak_after_bytes);
  if (std::abs(after - before) <= analysis::kSmallestChange * before)
    return ChangeVerdict::kWithinNoise;
  return after < before ? ChangeVerdict::kBetter : ChangeVerdict::kWorse;
}

void DrawRows(const widgets::Look& look, const ui::Context& context, ui::DrawLog* log) {
  const ui::ChangeSummary& change = context.change;
  const auto ms = [](const analysis::Percentiles& before, const analysis::Percentiles& after) {
    return ui::FormatMs(before.p50) + " → " + ui::FormatMs(after.p50);
  };
  const analysis::Summary& before = change.before;
  const analysis::Summary& after = change.after;
  // Steps of fewer tokens are no better for that they end earlier.
  const bool differs_in_tokens = change.token_verdict.has_value();
  const auto of_step = [&](ChangeVerdict verdict) {
    return differs_in_tokens ? ChangeVerdict::kNotComparable : verdict;
  };
  DrawRow(look, context.language,
          {"step_ns", Tr(context.language, Text::kMsP50), ms(before.step_ns, after.step_ns),
           before.step_ns.p50, after.step_ns.p50, of_step(change.step_verdict)},
          log);
  if (differs_in_tokens) {
    DrawRow(look, context.language,
            {"tokens_per_second", Tr(context.language, Text::kTokensPerSecond),
             FormatCount(before.tokens_per_second) + " → " + FormatCount(after.tokens_per_second),
             before.tokens_per_second, after.tokens_per_second, *change.token_verdict},
            log);
  }
  DrawRow(look, context.language,
          {"exposed_ns", Tr(context.language, Text::kExposed),
           ms(before.exposed_ns, after.exposed_ns) + " ms", before.exposed_ns.p50,
           after.exposed_ns.p50, of_step(change.exposed_verdict)},
          log);
  const double peak_before = static_cast<double>(change.peak_before_bytes);
  const double peak_after = static_cast<double>(change.peak_after_bytes);
  DrawRow(look, context.language,
          {"peak_bytes", Tr(context.language, Text::kPeak),
           ShowChange(FormatBytes(change.peak_before_bytes), FormatBytes(change.peak_after_bytes)),
           peak_before, peak_after, VerdictOfPeak(change)},
          log);
  if (differs_in_tokens) {
    const auto tokens = [](const analysis::Summary& side) {
      return FormatCount(side.tokens_per_second * side.step_ns.p50 / 1e9);
    };
    const std::string text =
        TrFormat(context.language, Text::kChangeOfTokens, tokens(before), tokens(after));
    log->Text("change.tokens", text, widgets::Paragraph(look, widgets::FaintOf(look), text));
  }
  if (!change.complete) {
    const std::string text = TrFormat(context.language, Text::kChangeFewSteps, before.num_steps,
                                      after.num_steps, analysis::kLeastChangeSteps);
    log->Text("change.few", text, widgets::Paragraph(look, widgets::FaintOf(look), text));
    return;
  }
  widgets::Paragraph(
      look, widgets::FaintOf(look),
      TrFormat(context.language, Text::kChangeOverSteps, before.num_steps, after.num_steps,
               ui::FormatMs(before.step_ns.p95), ui::FormatMs(after.step_ns.p95)));
}

// Nothing is drawn while no knob was turned.
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
  if (change.before.num_steps == 0 || change.after.num_steps == 0) {
    const char* text = Tr(context.language, Text::kChangeNoSteps);
    log->Text("change.few", text, widgets::Paragraph(look, widgets::FaintOf(look), text));
    return;
  }
  DrawRows(look, context, log);
}

using ui::Text;
using ui::Tr;
using ui::TrFormat;

// What drawing a knob needs.
struct Frame {
  const ui::Context& context;
  widgets::Look look;
  ui::DrawLog* log;
  ui::Commands* commands;
  bool enabled;
  std::map<std::string, std::string>* drafts;  // of text knobs, by key
  bool applies = true;                         // to the strategy that is shown
  bool* has_shown_key = nullptr;               // set where the key that was asked for is drawn
  bool scrolls_to_key = false;                 // it was asked for just now
  bool takes_keyboard = false;                 // the knob that is drawn is that one
};

void Turn(const Frame& frame, const Knob& knob, const std::string& value) {
  const auto canonical = config::Canonical(*knob.key, value);
  // The receiver checks again; what cannot be right is not sent at all.
  if (canonical.ok()) frame.commands->push_back(ui::SetKnob{knob.key->name, canonical.value()});
}

// From what to what it is, where something is ahead: a change that waits is one of the value in
// force, whatever step is in focus.
std::string ValueChanged(const Frame& frame, const Knob& knob, const std::string& ahead) {
  const ui::Context& context = frame.context;
  const std::string& key = knob.key->name;
  const std::string from = ui::PendingValue(context, key) ? ui::ValueInForce(context, key)
                                                          : ui::ShownValue(context, key);
  return ShowChange(ShowValue(context.language, knob, from),
                    ShowValue(context.language, knob, ahead));
}

// What a knob is about to be, or already is where the step in focus lies back: outlined on it.
std::optional<std::string> ValueAhead(const ui::Context& context, const std::string& key) {
  if (auto pending = ui::PendingValue(context, key)) return pending;
  if (!ui::CanSteer(context) || !ui::ShowsThePast(context)) return std::nullopt;
  std::string now = ui::ValueInForce(context, key);
  if (now == ui::ShownValue(context, key)) return std::nullopt;
  return now;
}

// `typed`: what stands in it and is no value, else empty.
void KeyTip(const Frame& frame, const Knob& knob, const std::string& typed = {}) {
  const ui::Language language = frame.context.language;
  std::string help = ui::KeyHelp(language, *knob.key);
  if (!frame.applies) {
    help += "\n";
    const std::string strategy = ui::ShownValue(frame.context, "strategy");
    const plan::Strategy* known = plan::FindStrategy(strategy);
    const bool of_preset = known != nullptr && config::Applies(knob.key->name, *known);
    help += TrFormat(language, Text::kKnobWithoutEffect,
                     of_preset ? ui::ShownValue(frame.context, "preset") : strategy);
  }
  const auto& refused = frame.context.control.refused;
  const auto last = refused.find(knob.key->name);
  if (!typed.empty()) {
    help += "\n";
    help += TrFormat(language, Text::kKnobRefused, config::Canonical(*knob.key, typed).message());
  } else if (last != refused.end()) {
    help += "\n";
    help += TrFormat(language, Text::kKnobRefused, last->second);
  }
  widgets::ItemTooltip(frame.look, knob.key->name, help);
}

constexpr float kFieldWidth = 96;  // of what stands beside its label

// Else it stands below.
bool HasRoomBesideField(const Frame& frame, const std::string& label) {
  const float width = widgets::TextSize(frame.look, widgets::DimOf(frame.look), label).x;
  return width + frame.look.Px(kFieldWidth + 4) <= widgets::ContentWidth();
}

// Of choices below a label, as many as have room for their words.
size_t SegmentsInARow(const Frame& frame, const std::vector<std::string>& words) {
  constexpr size_t kMostInARow = 4;
  constexpr size_t kLongWord = 14;
  const bool are_long =
      std::ranges::any_of(words, [](const std::string& text) { return text.size() >= kLongWord; });
  // Words of many choices would be cut: they stand in several rows, long ones in more.
  size_t in_a_row = words.size() <= kMostInARow ? kMostInARow : kMostInARow - (are_long ? 2 : 1);
  in_a_row = std::min(in_a_row, words.size());
  float widest = 0;
  for (const std::string& word : words) {
    widest = std::max(widest, widgets::TextSize(frame.look, widgets::BoldOf(frame.look), word).x);
  }
  while (in_a_row > 1 && widest * static_cast<float>(in_a_row) > widgets::ContentWidth()) {
    --in_a_row;
  }
  return in_a_row;
}

void DrawSegments(const Frame& frame, const Knob& knob) {
  const ui::Context& context = frame.context;
  const std::string value = ui::ShownValue(context, knob.key->name);
  const auto ahead = ValueAhead(context, knob.key->name);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const std::string label = ui::KeyLabel(context.language, knob.key->name);
  // On or off stands beside its label where there is room, other choices below it.
  const bool is_short =
      knob.key->type == config::KeyType::kBool && HasRoomBesideField(frame, label);
  const float field = is_short ? frame.look.Px(kFieldWidth) : 0;
  const float rest = widgets::ContentWidth() - field;
  const ui::Box box = widgets::DrawText(frame.look, widgets::DimOf(frame.look),
                                        {at.x, at.y + (is_short ? frame.look.Px(5) : 0)}, label);
  ImGui::InvisibleButton("label", {rest, frame.look.Px(ui::kTextSize + (is_short ? 10 : 2))});
  KeyTip(frame, knob);
  if (is_short) ImGui::SetCursorScreenPos({at.x + rest, at.y});
  const std::vector<std::string> values =
      knob.key->type == config::KeyType::kBool ? ui::ChoicesOf(*knob.key, value) : knob.values;
  std::vector<std::string> words;
  for (const std::string& choice : values) {
    words.push_back(ShowValue(context.language, knob, choice));
  }
  const bool has_chosen = std::ranges::find(values, value) != values.end();
  const size_t in_a_row = is_short ? words.size() : SegmentsInARow(frame, words);
  for (size_t first = 0; first < values.size(); first += in_a_row) {
    widgets::Segments segments;
    segments.enabled = frame.enabled;
    segments.width = field;
    const size_t end = std::min(values.size(), first + in_a_row);
    for (size_t i = first; i < end; ++i) {
      if (values[i] == value) segments.chosen = static_cast<int>(i - first);
      if (ahead && values[i] == *ahead) segments.pending = static_cast<int>(i - first);
      segments.options.push_back(words[i]);
    }
    if (ahead && segments.pending < 0) segments.pending = static_cast<int>(end - first);
    segments.takes_keyboard =
        frame.takes_keyboard && (has_chosen ? segments.chosen >= 0 : first == 0);
    const std::string id = first == 0 ? "segments" : "segments" + std::to_string(first);
    const int clicked = widgets::Segmented(frame.look, id.c_str(), segments);
    if (clicked >= 0) Turn(frame, knob, values[first + static_cast<size_t>(clicked)]);
  }
  frame.log->Text("knob:" + knob.key->name, value, box);
  if (ahead) frame.log->Text("ahead:" + knob.key->name, *ahead, box);
}

void DrawSlider(const Frame& frame, const Knob& knob) {
  const ui::Context& context = frame.context;
  const std::string value = ui::ShownValue(context, knob.key->name);
  const auto ahead = ValueAhead(context, knob.key->name);
  widgets::SliderState state;
  state.label = ui::KeyLabel(context.language, knob.key->name);
  state.value = KnobPosition(knob, value);
  state.value_text = ShowValue(context.language, knob, value);
  state.enabled = frame.enabled;
  if (ahead) {
    state.pending = KnobPosition(knob, *ahead);
    state.value_text = ValueChanged(frame, knob, *ahead);
  }
  const widgets::SliderSpec spec{knob.minimum, knob.maximum, knob.logarithmic, knob.whole_numbers};
  const auto result = widgets::Slider(frame.look, "slider", spec, state, [&](double position) {
    return ShowValue(context.language, knob, KnobValue(knob, position));
  });
  KeyTip(frame, knob);
  if (result.chosen) Turn(frame, knob, KnobValue(knob, *result.chosen));
  frame.log->Text("knob:" + knob.key->name, value, result.value_box);
  if (ahead) frame.log->Text("ahead:" + knob.key->name, *ahead, result.value_box);
}

// A text knob keeps what is being typed until Enter.
void DrawTextKnob(const Frame& frame, const Knob& knob) {
  const std::string value = ui::ShownValue(frame.context, knob.key->name);
  std::string& draft = (*frame.drafts)[knob.key->name];
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float width = widgets::ContentWidth();
  const std::string label = ui::KeyLabel(frame.context.language, knob.key->name);
  const bool is_beside = HasRoomBesideField(frame, label);
  const float field = is_beside ? frame.look.Px(kFieldWidth) : width;
  const ui::Box label_box =
      widgets::DrawText(frame.look, widgets::DimOf(frame.look),
                        {at.x, at.y + (is_beside ? frame.look.Px(5) : 0)}, label);
  ImGui::SetCursorScreenPos(is_beside ? ImVec2(at.x + width - field, at.y)
                                      : ImVec2(at.x, label_box.y1 + frame.look.Px(3)));
  ImGui::BeginDisabled(!frame.enabled);
  const bool invalid = !draft.empty() && !config::Canonical(*knob.key, draft).ok();
  widgets::TextField(frame.look, "##text", &draft,
                     {.hint = value, .invalid = invalid, .mono = true, .width = field});
  ImGui::EndDisabled();
  KeyTip(frame, knob, invalid ? draft : std::string());
  if (ImGui::IsItemDeactivatedAfterEdit() && !draft.empty() && !invalid) {
    Turn(frame, knob, draft);
    draft.clear();
  }
  frame.log->Text("knob:" + knob.key->name, value, widgets::ToBox(at, {at.x + width, at.y}));
}

bool HasSeveralDimensions(const ui::Context& context, const plan::Strategy& strategy) {
  int several = 0;
  for (size_t at = 0; at < plan::kNumMeshDimensions; ++at) {
    const auto dimension = static_cast<plan::MeshDimension>(at);
    const std::string size = ui::ShownValue(context, "mesh." + std::string(Name(dimension)));
    if (strategy.Uses(dimension) && size != "1") ++several;
  }
  return several > 1;
}

// Keys of a strategy alone are there with it only, and those of stages or of ranks that share
// layers where there are several; the others stay, greyed.
bool IsShown(const ui::Context& context, const Knob& knob, const plan::Strategy& strategy) {
  const std::string& key = knob.key->name;
  if (key.starts_with("pipeline.") && ui::ShownValue(context, "mesh.pipeline") == "1") return false;
  if (key.starts_with("tensor.") && ui::ShownValue(context, "mesh.tensor") == "1") return false;
  // Where links can differ, each along a dimension that ranks differ in.
  if (const auto dimension = config::DimensionOfLink(key)) {
    return config::Applies(key, strategy) && HasSeveralDimensions(context, strategy) &&
           ui::ShownValue(context, "mesh." + std::string(Name(*dimension))) != "1";
  }
  const bool of_strategy = key.starts_with("ddp.") || key.starts_with("zero.") ||
                           key.starts_with("pipeline.") || key.starts_with("tensor.") ||
                           key.starts_with("mesh.") || key.starts_with("unit.");
  return !of_strategy || config::Applies(key, strategy);
}

// Around the knob that was asked for, from `top` to the cursor. It is the last item; it gets the
// keyboard, of choices the one in force has taken it.
void MarkShownKey(const Frame& frame, const Knob& knob, ImVec2 top) {
  *frame.has_shown_key = true;
  const float room = frame.look.Px(kRingRoom);
  const ImVec2 end(top.x + widgets::ContentWidth() + room, ImGui::GetCursorScreenPos().y);
  if (frame.scrolls_to_key) widgets::ShowInMiddle(top.y - room, end.y);
  if (frame.takes_keyboard && knob.kind != KnobKind::kSegments) widgets::FocusLastItem();
  ImGui::GetWindowDrawList()->AddRect({top.x - room, top.y - room}, end,
                                      frame.look.theme.state.accent,
                                      frame.look.Px(ui::kSmallRounding), frame.look.Px(1.5F));
  frame.log->Text("shown_key", frame.context.shown_key.key,
                  widgets::ToBox({top.x - room, top.y - room}, end));
}

void DrawSection(const Frame& whole, KnobSection section) {
  const plan::Strategy* strategy = plan::FindStrategy(ui::ShownValue(whole.context, "strategy"));
  for (const Knob& knob : KnobsOf(section)) {
    if (strategy != nullptr && !IsShown(whole.context, knob, *strategy)) continue;
    Frame frame = whole;
    const std::string preset = ui::ShownValue(whole.context, "preset");
    frame.applies = strategy == nullptr || config::Applies(knob.key->name, *strategy, preset);
    frame.enabled = whole.enabled && frame.applies;
    const bool is_shown_key = knob.key->name == whole.context.shown_key.key;
    frame.takes_keyboard = is_shown_key && whole.scrolls_to_key && frame.enabled;
    const ImVec2 top = ImGui::GetCursorScreenPos();
    ImGui::PushID(knob.key->name.c_str());
    switch (knob.kind) {
      case KnobKind::kSegments:
        DrawSegments(frame, knob);
        break;
      case KnobKind::kSlider:
        DrawSlider(frame, knob);
        break;
      case KnobKind::kText:
        DrawTextKnob(frame, knob);
        break;
    }
    ImGui::PopID();
    if (is_shown_key) MarkShownKey(frame, knob, top);
  }
}

// The two presets as a menu, at the right of the first label's line; in a line of its own where
// they would meet.
void DrawPreset(const Frame& frame) {
  const std::string preset = ui::ShownValue(frame.context, "preset");
  const auto ahead = ValueAhead(frame.context, "preset");
  const std::string text =
      TrFormat(frame.context.language, Text::kPreset, ahead ? ShowChange(preset, *ahead) : preset);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float arrow = frame.look.Px(12);
  const float width = widgets::TextSize(frame.look, widgets::DimOf(frame.look), text).x + arrow;
  ImGui::SetCursorScreenPos({at.x + std::max(widgets::ContentWidth() - width, 0.0F), at.y});
  ImGui::BeginDisabled(!frame.enabled);
  const bool open = widgets::LinkText(frame.look, "preset", text);
  ImGui::EndDisabled();
  const ImVec2 end = ImGui::GetItemRectMax();
  widgets::DrawMenuArrow(frame.look, {end.x + frame.look.Px(5), end.y - frame.look.Px(7)});
  frame.log->Text("knob:preset", preset, widgets::ToBox(at, end));
  const std::string label = ui::KeyLabel(frame.context.language, "strategy");
  const float label_width = widgets::TextSize(frame.look, widgets::DimOf(frame.look), label).x;
  const bool fits = label_width + frame.look.Px(ui::kGrid) + width <= widgets::ContentWidth();
  ImGui::SetCursorScreenPos(fits ? at : ImVec2(at.x, end.y + frame.look.Px(4)));
  if (open) ImGui::OpenPopup("presets");
  if (ImGui::BeginPopup("presets")) {
    for (const std::string& choice : config::FindKey("preset")->choices) {
      if (ImGui::Selectable(choice.c_str(), choice == preset)) {
        frame.commands->push_back(ui::SetKnob{"preset", choice});
      }
    }
    ImGui::EndPopup();
  }
}

void DrawPendingBar(const Frame& frame) {
  const ui::Context& context = frame.context;
  const ui::StateColors& colors = frame.look.theme.state;
  const bool sent = context.control.unsent.empty();
  const int64_t step = context.control.status.pending_step;
  const std::string text = sent ? TrFormat(context.language, Text::kAppliesAtStep, step)
                                : Tr(context.language, Text::kSending);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const ImVec2 size(widgets::ContentWidth(), frame.look.Px(30));
  const float rounding = frame.look.Px(ui::kRounding);
  ImDrawList* list = ImGui::GetWindowDrawList();
  list->AddRectFilled(at, {at.x + size.x, at.y + size.y}, colors.pending_fill, rounding);
  list->AddRect(at, {at.x + size.x, at.y + size.y}, colors.pending, rounding, frame.look.Px(1));
  const widgets::TextStyle style{frame.look.fonts.bold, ui::kTextSize, colors.pending_text};
  const float text_y = at.y + (size.y - widgets::TextSize(frame.look, style, text).y) / 2;
  const ui::Box box =
      widgets::DrawText(frame.look, style, {at.x + frame.look.Px(12), text_y}, text);
  frame.log->Int("applies_at", text, step, "step", box);
  const char* revert = Tr(context.language, Text::kRevert);
  const float revert_width = widgets::TextSize(frame.look, widgets::DimOf(frame.look), revert).x;
  ImGui::SetCursorScreenPos({at.x + size.x - revert_width - frame.look.Px(12), text_y});
  if (widgets::LinkText(frame.look, "revert", revert)) {
    frame.commands->push_back(ui::RevertPending{});
  }
  ImGui::SetCursorScreenPos({at.x, at.y + size.y});
}

// One place shows what is pending, refused, or why nothing can be turned; it keeps its height, so
// that the card below does not move.
void DrawNotice(const Frame& frame) {
  const ui::Context& context = frame.context;
  const float top = ImGui::GetCursorPosY();
  const bool pending = !context.control.status.pending.empty() || !context.control.unsent.empty();
  const auto sentence = [&](Text text) {
    frame.log->Text(
        "notice", Tr(context.language, text),
        widgets::Paragraph(frame.look, widgets::DimOf(frame.look), Tr(context.language, text)));
  };
  if (!context.snapshot) {
    sentence(Text::kKnobsNoRun);
  } else if (!context.control.error.empty()) {
    widgets::TextStyle style = widgets::TextOf(frame.look);
    style.color = frame.look.theme.state.bad;
    const std::string error = ui::ErrorText(context.language, context.control.error);
    frame.log->Text("error", error, widgets::Paragraph(frame.look, style, error));
  } else if (ui::CanSteer(context)) {
    if (pending) {
      DrawPendingBar(frame);
    } else if (ui::ShowsThePast(context)) {
      sentence(Text::kKnobsBack);
    }
  } else if (context.snapshot->state != query::TraceState::kLive) {
    sentence(Text::kKnobsFinished);
  } else if (!context.headless) {  // a picture asks no training whether it answers
    sentence(Text::kKnobsLost);
  }
  ImGui::SetCursorPosY(std::max(ImGui::GetCursorPosY(), top + frame.look.Px(38)));
  ImGui::Dummy({0, 0});
}

void DrawKnobs(const Frame& frame) {
  DrawPreset(frame);
  DrawSection(frame, KnobSection::kSharding);
  const bool emulated = ui::ValueInForce(frame.context, "transport") == "emulated";
  const auto heading = [&](Text text) {
    widgets::Gap(frame.look, 2);
    widgets::FaintHeading(frame.look, Tr(frame.context.language, text));
  };
  heading(emulated ? Text::kSectionLink : Text::kSectionLinkMeasured);
  DrawSection(frame, KnobSection::kLink);
  heading(Text::kSectionTraining);
  DrawSection(frame, KnobSection::kTraining);
  widgets::Gap(frame.look, 2);
}

// Under the knobs and always in view: what becomes of what was turned. Returns the height that it
// needs; in less it scrolls.
float DrawAnswer(const Frame& frame, float height, bool from_top) {
  const widgets::Part part("answer", height);
  if (from_top) ImGui::SetScrollY(0);
  const ImVec2 at = ImGui::GetWindowPos();
  const ImVec2 size = ImGui::GetWindowSize();
  // Knobs that lie behind it are out of sight.
  frame.log->Text("answer", "", widgets::ToBox(at, {at.x + size.x, at.y + size.y}));
  ImGui::GetWindowDrawList()->AddLine(at, {at.x + size.x, at.y}, frame.look.theme.surface.line,
                                      frame.look.Px(1));
  const ImVec2 top = ImGui::GetCursorScreenPos();
  ImGui::SetCursorScreenPos({top.x, top.y + frame.look.Px(ui::kGrid)});
  DrawNotice(frame);
  DrawChangeCard(frame.context, frame.log);
  const float needs = ImGui::GetCursorScreenPos().y - top.y;
  if (widgets::IsPartCut()) {  // the keyboard has to get to all of it
    ImGui::SetCursorScreenPos(top);
    widgets::ClickArea("answer_text",
                       {widgets::ContentWidth(), needs - ImGui::GetStyle().ItemSpacing.y});
    widgets::ScrollByArrows(frame.look.Px(kArrowScroll));
  }
  return std::ceil(needs);
}

// What DrawNotice() has to say, apart from the words.
std::string NoticeOf(const ui::Context& context) {
  if (!context.control.error.empty()) return context.control.error;
  const bool pending = !context.control.status.pending.empty() || !context.control.unsent.empty();
  return pending ? "pending" : "";
}

}  // namespace

void RunControlPanel::Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) {
  const bool is_other_run = path_ != context.path;
  if (is_other_run) drafts_.clear();
  path_ = context.path;
  bool has_shown_key = false;
  const bool is_asked = shown_keys_ != context.shown_key.times && !context.shown_key.in_form;
  shown_keys_ = context.shown_key.times;
  if (is_asked) frames_to_key_ = kSettledFrames;
  const bool scrolls_to_key = frames_to_key_ > 0;
  if (scrolls_to_key) --frames_to_key_;
  const Frame frame{.context = context,
                    .look = widgets::LookOf(context),
                    .log = log,
                    .commands = commands,
                    .enabled = ui::CanSteer(context),
                    .drafts = &drafts_,
                    .has_shown_key = &has_shown_key,
                    .scrolls_to_key = scrolls_to_key};
  if (ui::IsRecordedProgram(context)) {
    const char* text = Tr(context.language, Text::kKnobsRecorded);
    log->Text("notice", text, widgets::Paragraph(frame.look, widgets::DimOf(frame.look), text));
    return;
  }
  if (ui::ShowsThePast(context)) {
    const int32_t step = context.focus.step;
    const std::string text = TrFormat(context.language, Text::kKnobsAtStep, step);
    const ui::Box corner = widgets::PanelCorner(frame.look, text);
    log->Int("values_at", text, step, "step", corner);
    if (!context.headless) widgets::BoxTooltip(frame.look, corner, text, "");
  }
  const ImVec2 top = ImGui::GetCursorScreenPos();
  const float room = ImGui::GetContentRegionAvail().y;
  const float answer_height = std::floor(std::min(answer_height_, room / 2));
  {
    const float ring = frame.look.Px(kRingRoom);  // of the first knob
    ImGui::SetCursorScreenPos({top.x, top.y - ring});
    const widgets::Part part("knobs", room - answer_height + ring);
    if (is_other_run) ImGui::SetScrollY(0);
    ImGui::SetCursorPosY(ImGui::GetCursorPosY() + ring);
    DrawKnobs(frame);
  }
  // A knob of another strategy is not here.
  if (is_asked && !has_shown_key && !context.shown_key.key.empty()) {
    commands->push_back(ui::ShowKey{.key = context.shown_key.key, .in_form = true});
  }
  const std::string notice = NoticeOf(context);
  const bool is_news = is_other_run || notice != notice_;
  notice_ = notice;
  ImGui::SetCursorScreenPos({top.x, top.y + room - answer_height});
  answer_height_ = DrawAnswer(frame, answer_height, is_news);
}

}  // namespace shardscope::panels
