#include "ui/panels/runs/runs_panel.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

#include "trace/base/text.h"
#include "ui/key_choices.h"
#include "ui/panel_ids.h"
#include "ui/panels/panel_frame.h"
#include "ui/panels/runs/new_run_form.h"
#include "ui/panels/runs/start_cards.h"
#include "ui/run_folder.h"
#include "ui/text.h"
#include "ui/widgets/bar_stack.h"
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

constexpr float kPictureWidth = 72;  // of a run's steps, in the list
constexpr float kNameColumn = 190;
constexpr float kFormFieldWidth = 150;
constexpr float kUnitWidth = 70;   // of a key, or of the link that takes its change back
constexpr float kNameHeight = 24;  // of a field's name where that stands over it
constexpr float kLeastKeys = 220;  // height of the list of keys
// The list of runs and the form.
constexpr widgets::TwoParts kRunsParts{.width = 300,
                                       .least_width_behind = 400,
                                       .fraction = 3,
                                       .least_height = 90,
                                       .least_height_below = 150};

// Of a row of the form: where its field begins, beside the name or, where that leaves too little
// room, under it.
ImVec2 PlaceOfField(const widgets::Look& look, ImVec2 at) {
  const bool beside =
      widgets::ContentWidth() >= look.Px(kNameColumn + kFormFieldWidth + kUnitWidth);
  return beside ? ImVec2(at.x + look.Px(kNameColumn), at.y)
                : ImVec2(at.x, at.y + look.Px(kNameHeight));
}

// From the cursor on.
float WidthOfField(const widgets::Look& look, float wanted, float behind) {
  return std::min(look.Px(wanted), widgets::ContentWidth() - look.Px(behind));
}

ui::Box ErrorLine(const PanelFrame& frame, const std::string& message) {
  widgets::TextStyle style = widgets::TextOf(frame.look);
  style.size = ui::kSmallTextSize;
  style.color = frame.look.theme.state.bad;
  return widgets::Paragraph(frame.look, style, message);
}

// Its steps, as Overlap draws them.
void DrawPicture(const PanelFrame& frame, const ui::RunEntry& run, const ui::Box& box) {
  double tallest_ns = 0;
  for (const ui::PictureBar& bar : run.picture) tallest_ns = std::max(tallest_ns, bar.total_ns());
  if (tallest_ns <= 0) return;
  const ui::OpColors& colors = frame.context.theme->op;
  const float pitch = (box.x1 - box.x0) / static_cast<float>(run.picture.size());
  for (size_t at = 0; at < run.picture.size(); ++at) {
    const ui::PictureBar& bar = run.picture[at];
    const float x0 = box.x0 + pitch * static_cast<float>(at);
    widgets::DrawBarStack({x0, box.y0, x0 + pitch, box.y1}, tallest_ns,
                          {{bar.compute_ns, colors.forward},
                           {bar.exposed_ns, colors.exposed},
                           {bar.exposed_copy_ns, colors.copy},
                           {bar.idle_ns, colors.idle}});
  }
  frame.log->Int("picture:" + run.path, "", static_cast<int64_t>(run.picture.size()), "", box);
}

void DrawRunRow(const PanelFrame& frame, const ui::RunEntry& run) {
  const float width = widgets::ContentWidth();
  const float height = frame.look.Px(34);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  if (widgets::ClickArea(run.path.c_str(), {width, height})) {
    frame.commands->push_back(ui::OpenRun{run.path});
  }
  const bool open = frame.context.snapshot && frame.context.path == run.path;
  if (ImGui::IsItemHovered() || open) {
    ImGui::GetWindowDrawList()->AddRectFilled(
        at, {at.x + width, at.y + height},
        open ? frame.look.theme.surface.button : frame.look.theme.surface.raised,
        frame.look.Px(ui::kSmallRounding));
  }
  const float pad = frame.look.Px(8);
  const float pill = frame.look.Px(48);
  const float picture = frame.look.Px(kPictureWidth);
  const bool shows_picture = !run.picture.empty() && width > 3 * picture;
  const float beside = (run.live ? pill + pad : 0) + (shows_picture ? picture + pad : 0);
  const float text_width = width - 2 * pad - beside;
  const ui::Box box =
      widgets::DrawTextClipped(frame.look, widgets::BoldOf(frame.look),
                               {at.x + pad, at.y + frame.look.Px(2)}, text_width, run.name);
  widgets::DrawTextClipped(frame.look, widgets::FaintOf(frame.look),
                           {at.x + pad, at.y + frame.look.Px(17)}, text_width, run.path);
  if (run.live) {
    const ui::StateColors& colors = frame.look.theme.state;
    widgets::DrawPill(frame.look, {at.x + width - pad - pill, at.y + frame.look.Px(7)}, 48,
                      frame.Tr(Text::kLive), colors.live_fill, colors.live_text);
  }
  if (shows_picture) {
    const float x0 = at.x + width - beside;
    DrawPicture(frame, run,
                {x0, at.y + frame.look.Px(4), x0 + picture, at.y + height - frame.look.Px(4)});
  }
  frame.log->Text("run:" + run.path, run.name, box);
  if (open) frame.log->Text("open_run", run.path, box);
}

void DrawRunList(const PanelFrame& frame) {
  widgets::Gap(frame.look, 8);
  widgets::FaintHeading(frame.look, frame.Tr(Text::kRunsRecent));
  if (frame.context.places.runs.empty()) {
    widgets::Paragraph(frame.look, widgets::DimOf(frame.look), frame.Tr(Text::kRunsRecentEmpty));
  }
  for (const ui::RunEntry& run : frame.context.places.runs) DrawRunRow(frame, run);
}

std::string PresetName(const std::string& path) {
  return std::filesystem::path(path).stem().string();
}

std::string_view GroupOf(const config::KeyInfo& key) {
  const size_t dot = key.name.find('.');
  return dot == std::string::npos ? std::string_view() : std::string_view(key.name).substr(0, dot);
}

}  // namespace

void RunsPanel::DrawOpen(const PanelFrame& frame) {
  std::string& path = open_path_;
  widgets::Heading(frame.look, frame.Tr(Text::kRunsOpenTitle));
  const float button = frame.look.Px(64);
  const float field = widgets::ContentWidth() - button - frame.look.Px(8);
  // Enter left the field; a wrong path is typed on.
  if (std::exchange(entered_path_, false) && !frame.context.error.empty()) wants_path_ = true;
  if (wants_path_) ImGui::SetKeyboardFocusHere();
  widgets::TextField(frame.look, "##path", &path,
                     {.hint = frame.Tr(Text::kRunsOpenHint), .width = field});
  // The panel, that comes to the front, may take it again.
  if (ImGui::IsItemActive()) wants_path_ = false;
  const bool entered = widgets::IsLeftByEnter();
  ImGui::SameLine(0, frame.look.Px(8));
  const bool clicked = widgets::Button(frame.look, "open", frame.Tr(Text::kRunsOpenButton),
                                       widgets::Emphasis::kQuiet, button, !path.empty());
  entered_path_ = entered && !path.empty();
  if ((clicked || entered) && !path.empty()) frame.commands->push_back(ui::OpenRun{path});
  if (!frame.context.error.empty()) {
    frame.log->Text("error", frame.context.error, ErrorLine(frame, frame.context.error));
  }
}

void RunsPanel::DrawStartingPoint(const PanelFrame& frame) {
  std::vector<std::string> options = {frame.Tr(Text::kRunsDefaults)};
  int chosen = 0;
  const auto& presets = frame.context.places.presets;
  for (size_t i = 0; i < presets.size(); ++i) {
    options.push_back(PresetName(presets[i]));
    if (presets[i] == form_.preset()) chosen = static_cast<int>(i) + 1;
  }
  const ImVec2 at = ImGui::GetCursorScreenPos();
  widgets::DrawText(frame.look, widgets::DimOf(frame.look), {at.x, at.y + frame.look.Px(5)},
                    frame.Tr(Text::kRunsPreset));
  ImGui::SetCursorScreenPos(PlaceOfField(frame.look, at));
  if (widgets::Choice(frame.look, "##preset", options, &chosen,
                      WidthOfField(frame.look, kFormFieldWidth + 90, 0))) {
    form_.SetPreset(chosen == 0 ? std::string() : presets[static_cast<size_t>(chosen) - 1]);
  }
  if (!form_.base_error().empty()) ErrorLine(frame, form_.base_error());
}

const std::string& RunsPanel::FolderError(const PanelFrame& frame, const std::string& folder) {
  const ui::Language language = frame.context.language;
  const auto second = static_cast<int64_t>(frame.context.time_seconds);
  if (checked_.second != second || checked_.folder != folder || checked_.language != language) {
    checked_ = {
        folder, language, second,
        folder.empty() ? frame.Tr(Text::kRunsFolderEmpty) : ui::WhyFolderIsTaken(language, folder)};
  }
  return checked_.error;
}

void RunsPanel::DrawFolder(const PanelFrame& frame) {
  std::string& folder = folder_;
  const std::string& proposed = frame.context.places.new_folder;
  const std::string error = folder.empty() ? "" : FolderError(frame, folder);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  widgets::DrawText(frame.look, widgets::DimOf(frame.look), {at.x, at.y + frame.look.Px(5)},
                    frame.Tr(Text::kRunsFolder));
  ImGui::SetCursorScreenPos(PlaceOfField(frame.look, at));
  widgets::TextField(frame.look, "##folder", &folder,
                     {.hint = proposed,
                      .invalid = !error.empty(),
                      .width = WidthOfField(frame.look, kFormFieldWidth + 90, 0)});
  if (!error.empty()) ErrorLine(frame, error);
}

void RunsPanel::DrawKeyField(const PanelFrame& frame, const config::KeyInfo& key) {
  const std::string error = form_.KeyError(key.name);
  std::string value = form_.Value(key.name);
  const std::vector<std::string> options = ui::ChoicesOf(key, value);
  const float width = WidthOfField(frame.look, kFormFieldWidth, kUnitWidth);
  if (!options.empty()) {
    const auto found = std::find(options.begin(), options.end(), value);
    int chosen = static_cast<int>(found - options.begin());
    if (widgets::Choice(frame.look, "##value", options, &chosen, width)) {
      form_.SetValue(key.name, options[static_cast<size_t>(chosen)]);
    }
  } else if (widgets::TextField(frame.look, "##value", &value,
                                {.hint = key.default_value,
                                 .invalid = !error.empty(),
                                 .mono = true,
                                 .width = width})) {
    form_.SetValue(key.name, value);
  }
}

void RunsPanel::DrawKey(const PanelFrame& frame, const config::KeyInfo& key) {
  ImGui::PushID(key.name.c_str());
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const bool changed = form_.IsChanged(key.name);
  widgets::TextStyle name = widgets::MonoOf(frame.look);
  if (changed) name.color = frame.look.theme.ink.text;
  widgets::DrawText(frame.look, name, {at.x, at.y + frame.look.Px(6)}, key.name);
  ImGui::InvisibleButton("name", {frame.look.Px(kNameColumn - 8), frame.look.Px(24)});
  std::string detail = TrFormat(
      frame.context.language, Text::kRunsDefaultValue,
      key.default_value.empty() ? frame.Tr(Text::kRunsNoValue) : key.default_value.c_str());
  if (key.live) detail += std::string("\n") + frame.Tr(Text::kRunsLiveKey);
  widgets::ItemTooltip(frame.look, ui::KeyHelp(frame.context.language, key), detail);
  const ImVec2 field = PlaceOfField(frame.look, at);
  ImGui::SetCursorScreenPos(field);
  const float field_width = WidthOfField(frame.look, kFormFieldWidth, kUnitWidth);
  DrawKeyField(frame, key);
  const ImVec2 right(field.x + field_width + frame.look.Px(10), field.y + frame.look.Px(5));
  if (changed) {
    ImGui::SetCursorScreenPos(right);
    if (widgets::LinkText(frame.look, "reset", frame.Tr(Text::kRunsReset))) {
      form_.ResetValue(key.name);
    }
  } else if (!key.unit.empty()) {
    widgets::DrawText(frame.look, widgets::FaintOf(frame.look), right,
                      ui::UnitLabel(frame.context.language, key.unit));
  }
  ImGui::SetCursorScreenPos({at.x, field.y + frame.look.Px(26)});
  ImGui::Dummy({0, 0});
  if (key.name == search_) {  // that it was looked for by name, as the palette does
    const std::string help = ui::KeyHelp(frame.context.language, key);
    frame.Say("help:" + key.name, widgets::DimOf(frame.look), help);
  }
  const std::string error = form_.KeyError(key.name);
  if (!error.empty()) frame.log->Text("error:" + key.name, error, ErrorLine(frame, error));
  ImGui::PopID();
}

void RunsPanel::DrawKeys(const PanelFrame& frame) {
  if (!only_changed_ && MatchingKeys(frame.context.language, search_).empty()) {
    widgets::Paragraph(frame.look, widgets::DimOf(frame.look),
                       TrFormat(frame.context.language, Text::kRunsNoKey, search_));
  }
  std::string_view group;
  for (const config::KeyInfo* key :
       form_.KeysToShow(frame.context.language, search_, only_changed_)) {
    if (GroupOf(*key) != group) widgets::Gap(frame.look, 8);
    group = GroupOf(*key);
    DrawKey(frame, *key);
  }
}

// How many keys differ; pointed at it names them, clicked it leaves only these in the form.
void RunsPanel::DrawChanged(const PanelFrame& frame) {
  if (form_.num_changed() == 0) {
    only_changed_ = false;
    return;
  }
  std::string text = form_.num_changed() == 1 ? frame.Tr(Text::kRunsOneChanged)
                                              : TrFormat(frame.context.language, Text::kRunsChanged,
                                                         form_.num_changed());
  if (only_changed_) text = frame.Tr(Text::kRunsShowAll);
  if (widgets::LinkText(frame.look, "changed", text)) only_changed_ = !only_changed_;
  frame.NoteItem("changed", text);
  widgets::ItemTooltip(frame.look, frame.Tr(Text::kRunsDiffer), form_.ChangesText());
}

void RunsPanel::DrawStart(const PanelFrame& frame) {
  const std::string folder = folder_.empty() ? frame.context.places.new_folder : folder_;
  const bool trainer = !frame.context.places.trainer.empty();
  const std::string folder_error = FolderError(frame, folder);
  const bool starting = !frame.context.starting.empty();
  const bool ready = trainer && form_.valid() && folder_error.empty() && !starting;
  if (widgets::Button(frame.look, "start", frame.Tr(Text::kRunsStart), widgets::Emphasis::kPrimary,
                      frame.look.Px(130), ready)) {
    frame.commands->push_back(form_.ToCommand(folder));
  }
  ImGui::SameLine(0, frame.look.Px(12));
  std::string hint;
  if (!trainer) {
    hint = frame.Tr(Text::kRunsNoTrainer);
  } else if (!form_.rule_error().empty()) {
    hint = form_.rule_error();
  } else if (!form_.valid()) {
    hint = frame.Tr(Text::kRunsFix);
  } else {
    hint = folder_error;
  }
  if (starting) {
    const std::string text =
        TrFormat(frame.context.language, Text::kRunsStarting, frame.context.starting);
    widgets::Paragraph(frame.look, widgets::DimOf(frame.look), text);
  } else if (!hint.empty()) {
    frame.log->Text("start_hint", hint, ErrorLine(frame, hint));
  } else {
    ImGui::Dummy({0, 0});
  }
  const std::string error = ui::ErrorText(frame.context.language, frame.context.start_error);
  if (!error.empty()) frame.log->Text("start_error", error, ErrorLine(frame, error));
  DrawChanged(frame);
}

// Where no run is open: what can be begun with one click.
void RunsPanel::DrawCards(const PanelFrame& frame) {
  frame.log->Text("cards", frame.Tr(Text::kCardsTitle),
                  widgets::Heading(frame.look, frame.Tr(Text::kCardsTitle)));
  const StartCard* card = DrawStartCards(frame.context, frame.look, frame.log);
  if (card != nullptr && *card->preset == '\0') {
    wants_path_ = true;
  } else if (card != nullptr) {
    frame.commands->push_back(
        ui::StartRun{.folder = frame.context.places.new_folder,
                     .values = {},
                     .preset_file = PresetFileOf(*card, frame.context.places)});
  }
  widgets::Gap(frame.look, 14);
}

void RunsPanel::DrawNewRun(const PanelFrame& frame) {
  if (std::exchange(reveals_form_, false)) ImGui::SetScrollHereY(0);
  frame.log->Text("new_run", frame.Tr(Text::kRunsNewTitle),
                  widgets::Heading(frame.look, frame.Tr(Text::kRunsNewTitle)));
  DrawFolder(frame);
  DrawStartingPoint(frame);
  DrawStart(frame);
  widgets::Gap(frame.look, 8);
  if (wants_search_) ImGui::SetKeyboardFocusHere();
  widgets::TextField(frame.look, "##search", &search_,
                     {.hint = frame.Tr(Text::kRunsSearch),
                      .width = WidthOfField(frame.look, kNameColumn + kFormFieldWidth, 0)});
  if (ImGui::IsItemActive()) wants_search_ = false;
  if (ImGui::IsItemActivated()) reveals_form_ = true;  // the keys that it finds are below
  // Under the cards the keys may have little room of their own: then they scroll with the rest.
  const float room = ImGui::GetContentRegionAvail().y;
  const float height = room < frame.look.Px(kLeastKeys) ? frame.look.Px(kLeastKeys) : 0;
  if (ImGui::BeginChild("keys", {0, height}, ImGuiChildFlags_NavFlattened)) DrawKeys(frame);
  ImGui::EndChild();
}

void RunsPanel::Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) {
  const PanelFrame frame{context, widgets::LookOf(context), log, commands};
  if (shown_keys_ != context.shown_key.times && context.shown_key.in_form) {
    search_ = context.shown_key.key;
    only_changed_ = false;
    reveals_form_ = true;
    wants_search_ = search_.empty();
  }
  shown_keys_ = context.shown_key.times;
  if (context.typed_into.IsNews(ui::panel_ids::kRuns, &typed_into_)) wants_path_ = true;
  widgets::Gap(frame.look, 4);
  const widgets::PlacedParts parts = widgets::PlaceTwoParts(frame.look, kRunsParts);
  // Not flattened: a card in the other part could not give its field the keyboard.
  if (ImGui::BeginChild("list", parts.first)) {
    DrawOpen(frame);
    DrawRunList(frame);
  }
  ImGui::EndChild();
  if (parts.beside) ImGui::SameLine(0, frame.look.Px(24));
  if (ImGui::BeginChild("new", parts.second, ImGuiChildFlags_NavFlattened)) {
    if (context.snapshot == nullptr) DrawCards(frame);
    DrawNewRun(frame);
  }
  ImGui::EndChild();
}

}  // namespace shardscope::panels
