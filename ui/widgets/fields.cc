#include "ui/widgets/fields.h"

#include <imgui_internal.h>
#include <imgui_stdlib.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "ui/widgets/buttons.h"
#include "ui/widgets/keys.h"
#include "ui/widgets/tooltip.h"

namespace shardscope::widgets {
namespace {

void PushFieldStyle(const Look& look, bool invalid) {
  ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, ImVec2(look.Px(8), look.Px(5)));
  ImGui::PushStyleVar(ImGuiStyleVar_FrameRounding, look.Px(ui::kSmallRounding));
  ImGui::PushStyleVar(ImGuiStyleVar_FrameBorderSize, look.Px(1));
  ImGui::PushStyleColor(ImGuiCol_FrameBg, look.theme.surface.raised);
  ImGui::PushStyleColor(ImGuiCol_Border, invalid ? look.theme.op.exposed : look.theme.surface.line);
}

void PopFieldStyle() {
  ImGui::PopStyleColor(2);
  ImGui::PopStyleVar(3);
}

// In the current window, as an item draws its label; ImGui itself ends a label at "##".
void DrawUncut(ImVec2 at, ImVec2 end, std::string_view text) {
  ImGui::RenderTextClippedEx(ImGui::GetWindowDrawList(), at, end, text.data(),
                             text.data() + text.size(), nullptr);
}

// True when it was clicked. Two may have the same text.
bool DrawOption(int index, const std::string& text, bool is_chosen) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const ImVec2 size = ImGui::CalcTextSize(text.c_str(), text.c_str() + text.size());
  ImGui::PushID(index);
  const bool is_clicked =
      ImGui::Selectable("##option", is_chosen, ImGuiSelectableFlags_SpanAvailWidth, size);
  ImGui::PopID();
  DrawUncut(at, ImGui::GetItemRectMax(), text);
  return is_clicked;
}

constexpr float kSliderRowHeight = 20;
constexpr float kRailHeight = 3;
constexpr float kHandleRadius = 6;
constexpr float kHitHeight = 16;
constexpr float kNotDragged = -1;  // no share

struct Rail {
  float x0 = 0;
  float x1 = 0;
  float y = 0;

  float At(double share) const { return x0 + (x1 - x0) * static_cast<float>(share); }
};

void DrawDashes(const Look& look, float from, float to, float y, Color color) {
  const float left = std::min(from, to);
  const float right = std::max(from, to);
  const float half = look.Px(kRailHeight) / 2;
  for (float x = left; x < right; x += look.Px(6)) {
    ImGui::GetWindowDrawList()->AddRectFilled(
        {x, y - half}, {std::min(x + look.Px(3.5f), right), y + half}, color);
  }
}

void DrawRail(const Look& look, const Rail& rail, double share, std::optional<double> pending,
              bool enabled) {
  ImDrawList* list = ImGui::GetWindowDrawList();
  const float half = look.Px(kRailHeight) / 2;
  const Color filled = enabled ? look.theme.ink.filled : look.theme.ink.faint;
  const float x = rail.At(share);
  list->AddRectFilled({rail.x0, rail.y - half}, {rail.x1, rail.y + half}, look.theme.surface.line,
                      half);
  list->AddRectFilled({rail.x0, rail.y - half}, {x, rail.y + half}, filled, half);
  const float radius = look.Px(kHandleRadius);
  if (pending) {
    const float px = rail.At(*pending);
    DrawDashes(look, x, px, rail.y, look.theme.state.pending);
    list->AddCircleFilled({px, rail.y}, radius, look.theme.surface.panel);
    list->AddCircle({px, rail.y}, radius, look.theme.state.pending, 0, look.Px(1.8f));
  }
  list->AddCircleFilled({x, rail.y}, radius, enabled ? look.theme.ink.text : look.theme.ink.faint);
}

// The share under the mouse while the item is dragged, kept until the release.
std::optional<double> DraggedShare(const Rail& rail, ImGuiID id) {
  ImGuiStorage* storage = ImGui::GetStateStorage();
  // The keyboard makes it active, too.
  if (ImGui::IsItemActive() && ImGui::IsMouseDown(ImGuiMouseButton_Left)) {
    const float width = std::max(rail.x1 - rail.x0, 1.0f);
    const float share = std::clamp((ImGui::GetIO().MousePos.x - rail.x0) / width, 0.0f, 1.0f);
    storage->SetFloat(id, share);
    return share;
  }
  if (!ImGui::IsItemDeactivated()) return std::nullopt;
  const float share = storage->GetFloat(id, kNotDragged);
  storage->SetFloat(id, kNotDragged);
  return share == kNotDragged ? std::nullopt : std::optional<double>(share);
}

// Arrow keys move a focused slider by one whole number, or a fiftieth of the rail.
std::optional<double> Nudge(const SliderSpec& spec, double value) {
  if (!ImGui::IsItemFocused()) return std::nullopt;
  const int direction = TakeArrows(ImGuiKey_LeftArrow, ImGuiKey_RightArrow);
  if (direction == 0) return std::nullopt;
  if (spec.whole_numbers) return std::clamp(value + direction, spec.minimum, spec.maximum);
  return SliderValue(spec, std::clamp(SliderShare(spec, value) + 0.02 * direction, 0.0, 1.0));
}

}  // namespace

bool TextField(const Look& look, const char* id, std::string* text, const Field& field) {
  PushFieldStyle(look, field.invalid);
  ImGui::SetNextItemWidth(field.width > 0 ? field.width : ContentWidth());
  ImGui::PushFont(field.mono ? look.fonts.mono : look.fonts.text,
                  field.mono ? ui::kMonoSize : ui::kTextSize);
  const bool changed = ImGui::InputTextWithHint(id, std::string(field.hint).c_str(), text);
  LogControl(look, "field", id, text->empty() ? field.hint : *text);
  ImGui::PopFont();
  PopFieldStyle();
  return changed;
}

bool SelectFieldText() {
  ImGuiInputTextState* state = ImGui::GetInputTextState(ImGui::GetItemID());
  if (state == nullptr || !ImGui::IsItemActive()) return false;
  state->SelectAll();
  return true;
}

bool TextArea(const Look& look, const char* id, std::string* text, ImVec2 size) {
  PushFieldStyle(look, false);
  ImGui::PushFont(look.fonts.mono, ui::kMonoSize);
  // Dear ImGui takes back what was typed since the field has the keyboard.
  const bool leaves = ImGui::IsKeyPressed(ImGuiKey_Escape, false);
  std::string typed = leaves ? *text : std::string();
  const bool entered =
      ImGui::InputTextMultiline(id, text, size, ImGuiInputTextFlags_EnterReturnsTrue);
  if (leaves) *text = std::move(typed);
  if (entered) ImGui::SetKeyboardFocusHere(-1);  // which left the field
  LogControl(look, "field", id, *text);
  ImGui::PopFont();
  PopFieldStyle();
  return entered;
}

bool Choice(const Look& look, const char* id, const std::vector<std::string>& options, int* chosen,
            float width) {
  PushFieldStyle(look, false);
  ImGui::SetNextItemWidth(width > 0 ? width : ContentWidth());
  const size_t index = static_cast<size_t>(*chosen);
  const std::string shown = index < options.size() ? options[index] : "";
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float button = ImGui::GetFrameHeight();
  const ImVec2 end = {at.x + ImGui::CalcItemWidth() - button, at.y + button};
  bool changed = false;
  const bool open = ImGui::BeginCombo(id, "");
  if (!open) LogControl(look, "choice", id, shown);
  if (open) {
    for (int i = 0; i < static_cast<int>(options.size()); ++i) {
      if (DrawOption(i, options[static_cast<size_t>(i)], i == *chosen) && i != *chosen) {
        *chosen = i;
        changed = true;
      }
    }
    ImGui::EndCombo();
  }
  const ImVec2 padding = ImGui::GetStyle().FramePadding;
  DrawUncut({at.x + padding.x, at.y + padding.y}, end, shown);
  const float room = end.x - at.x - padding.x;
  const bool is_cut = ImGui::CalcTextSize(shown.c_str(), shown.c_str() + shown.size()).x > room;
  PopFieldStyle();
  if (!open && is_cut) ItemTooltip(look, shown, {});
  return changed;
}

double SliderShare(const SliderSpec& spec, double value) {
  const double clamped = std::clamp(value, spec.minimum, spec.maximum);
  if (spec.maximum <= spec.minimum) return 0;
  if (spec.logarithmic) {
    return std::log(clamped / spec.minimum) / std::log(spec.maximum / spec.minimum);
  }
  return (clamped - spec.minimum) / (spec.maximum - spec.minimum);
}

double SliderValue(const SliderSpec& spec, double share) {
  const double value = spec.logarithmic
                           ? spec.minimum * std::pow(spec.maximum / spec.minimum, share)
                           : spec.minimum + (spec.maximum - spec.minimum) * share;
  return spec.whole_numbers ? std::round(value) : value;
}

SliderResult Slider(const Look& look, const char* id, const SliderSpec& spec,
                    const SliderState& state, const std::function<std::string(double)>& format) {
  SliderResult result;
  const ImVec2 origin = ImGui::GetCursorScreenPos();
  const float width = ContentWidth();
  const float radius = look.Px(kHandleRadius);
  const float label_height = look.Px(kSliderRowHeight - 2);
  ImGui::SetCursorScreenPos({origin.x, origin.y + label_height});
  ImGui::BeginDisabled(!state.enabled);
  ClickArea(id, {width, look.Px(kHitHeight)});
  ImGui::EndDisabled();
  LogControl(look, "slider", id, state.label);
  const Rail rail{origin.x + radius * 0.4f, origin.x + width - radius * 0.4f,
                  origin.y + label_height + look.Px(kHitHeight) / 2};

  std::optional<double> pending_share;
  if (state.pending) pending_share = SliderShare(spec, *state.pending);
  std::string value_text = state.value_text;
  if (const auto dragged = state.enabled ? DraggedShare(rail, ImGui::GetItemID()) : std::nullopt) {
    const double value = SliderValue(spec, *dragged);
    pending_share = SliderShare(spec, value);
    value_text = format(value);
    if (ImGui::IsItemDeactivated()) result.chosen = value;
  } else if (state.enabled) {
    result.chosen = Nudge(spec, state.pending.value_or(state.value));
  }

  TextStyle label = DimOf(look);
  TextStyle value = BoldOf(look);
  if (!state.enabled) value.color = look.theme.ink.dim;
  result.value_box = DrawTextRight(look, value, {origin.x + width, origin.y}, value_text);
  DrawTextClipped(look, label, origin, result.value_box.x0 - origin.x - look.Px(4), state.label);
  DrawRail(look, rail, SliderShare(spec, state.value), pending_share, state.enabled);
  return result;
}

}  // namespace shardscope::widgets
