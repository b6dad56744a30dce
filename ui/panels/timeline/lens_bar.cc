#include "ui/panels/timeline/lens_bar.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "ui/moment_words.h"
#include "ui/ranks.h"
#include "ui/text.h"
#include "ui/values.h"
#include "ui/widgets/buttons.h"
#include "ui/widgets/labels.h"
#include "ui/widgets/tooltip.h"

namespace shardscope::panels {
namespace {

using timeline::Axis;
using widgets::Look;

constexpr float kLensBarHeight = 26;
constexpr float kControlSize = 20;
constexpr float kTrackY = 19;  // of the line, from the bar's top
constexpr float kThumbRadius = 5;
constexpr float kCloseWidth = 18;
constexpr float kSentenceHeight = 15;
constexpr size_t kMostSentences = 4;

ImVec2 ItemSize(const ui::Box& box) {
  return {std::max(box.x1 - box.x0, 1.0F), std::max(box.y1 - box.y0, 1.0F)};
}

// An item over `box` for the mouse, that draws nothing.
void ItemOver(const char* id, const ui::Box& box) {
  ImGui::SetCursorScreenPos({box.x0, box.y0});
  ImGui::InvisibleButton(id, ItemSize(box));
}

// One that can be clicked; true when it was.
bool ClickOver(const char* id, const ui::Box& box) {
  ImGui::SetCursorScreenPos({box.x0, box.y0});
  return widgets::ClickArea(id, ItemSize(box));
}

// The speed after this one, round the end.
int NextSlowness(int slowness) {
  const auto at = std::find(ui::kLensSlowness.begin(), ui::kLensSlowness.end(), slowness);
  return at == ui::kLensSlowness.end() || at + 1 == ui::kLensSlowness.end()
             ? ui::kLensSlowness.front()
             : *(at + 1);
}

void DrawLensControls(const ui::Context& context, const ui::Box& gutter, ui::DrawLog* log,
                      ui::Commands* commands) {
  const Look look = widgets::LookOf(context);
  const ui::LensState& lens = context.lens;
  const float y = gutter.y0 + look.Px((kLensBarHeight - kControlSize) / 2);
  const float x = gutter.x0 + look.Px(ui::kGrid);
  ImGui::SetCursorScreenPos({x, y});
  const char* tip =
      ui::Tr(context.language, lens.plays ? ui::Text::kLensPause : ui::Text::kLensPlay);
  const auto icon = lens.plays ? widgets::Icon::kPause : widgets::Icon::kPlay;
  if (widgets::IconButton(look, "##lens_play", icon, true, context.headless ? "" : tip,
                          kControlSize)) {
    commands->push_back(ui::PlayLens{!lens.plays});
  }
  log->Int("lens_play", tip, lens.plays ? 1 : 0, "",
           {x, y, x + look.Px(kControlSize), y + look.Px(kControlSize)});
  const std::string text = fmt::format("1/{}", lens.slowness);
  const float left = x + look.Px(kControlSize + 2);
  const ui::Box box{left, y, gutter.x1 - look.Px(4), y + look.Px(kControlSize)};
  if (ClickOver("##lens_speed", box)) {
    commands->push_back(ui::SetLensSlowness{NextSlowness(lens.slowness)});
  }
  if (!context.headless) {
    widgets::ItemTooltip(look, ui::Tr(context.language, ui::Text::kLensSpeed), "");
  }
  widgets::DrawTextCentered(look, widgets::BoldOf(look), box, text);
  log->Int("lens_speed", text, lens.slowness, "", box);
}

void DrawLensClose(const ui::Context& context, const ui::Box& box, ui::DrawLog* log,
                   ui::Commands* commands) {
  const Look look = widgets::LookOf(context);
  if (ClickOver("##lens_close", box)) commands->push_back(ui::CloseLens{});
  const char* tip = ui::Tr(context.language, ui::Text::kLensClose);
  widgets::TextStyle style = widgets::BoldOf(look);
  if (!context.headless) {
    if (!ImGui::IsItemHovered()) style.color = look.theme.ink.dim;
    widgets::ItemTooltip(look, tip, "");
  }
  widgets::DrawTextCentered(look, style, box, "\xC3\x97");
  log->Text("lens_close", tip, box);
}

// "step 3  4.21 ms of 45.6 ms"
std::string PositionText(const ui::Context& context) {
  const ui::LensState& lens = context.lens;
  const std::string position = ui::TrFormat(context.language, ui::Text::kLensPosition,
                                            ui::FormatDuration(lens.now_ns - lens.start_ns),
                                            ui::FormatDuration(lens.end_ns - lens.start_ns));
  if (lens.step < 0) return position;
  return ui::TrFormat(context.language, ui::Text::kStepN, lens.step) + "  " + position;
}

// The stretch that is played on the time axis, with a thumb at its now.
void DrawLensTrack(const ui::Context& context, const Axis& axis, const ui::Box& box,
                   ui::DrawLog* log, ui::Commands* commands) {
  const Look look = widgets::LookOf(context);
  const ui::LensState& lens = context.lens;
  ItemOver("##lens_track", box);
  const bool is_held = !context.headless && ImGui::IsItemActive();
  if (is_held) commands->push_back(ui::SeekLens{axis.Ns(ImGui::GetIO().MousePos.x)});
  const auto x_of = [&](int64_t time_ns) { return std::clamp(axis.X(time_ns), box.x0, box.x1); };
  const float y = box.y0 + look.Px(kTrackY);
  const float now = axis.X(lens.now_ns);
  ImDrawList* list = ImGui::GetWindowDrawList();
  list->AddRectFilled({x_of(lens.start_ns), y - look.Px(1)}, {x_of(lens.end_ns), y + look.Px(1)},
                      look.theme.ink.faint);
  list->AddRectFilled({x_of(lens.start_ns), y - look.Px(1.5F)},
                      {x_of(lens.now_ns), y + look.Px(1.5F)}, look.theme.state.accent);
  if (now >= box.x0 && now <= box.x1) {
    list->AddCircleFilled({now, y}, look.Px(kThumbRadius), look.theme.state.accent);
  }
  const std::string text = PositionText(context);
  const widgets::TextStyle style{look.fonts.bold, ui::kSmallTextSize, look.theme.ink.text};
  const ImVec2 size = widgets::TextSize(look, style, text);
  // Over the thumb, kept inside.
  const float most = std::max(box.x0, box.x1 - size.x);
  const float x = std::round(std::clamp(now - size.x / 2, box.x0, most));
  widgets::DrawText(look, style, {x, box.y0 + look.Px(1)}, text);
  log->Int("lens_now", text, lens.now_ns - lens.start_ns, "ns", box);
}

// In the order of their lanes, as far as there is room: pinned ranks, those whose lanes are open,
// others.
std::vector<const analysis::RankMoment*> RanksToTell(const ui::Context& context) {
  const std::vector<analysis::RankMoment>& moments = context.lens.moment->ranks;
  std::vector<const analysis::RankMoment*> told;
  for (const int32_t rank : ui::RanksInOrder(*context.snapshot, context.lanes)) {
    const auto found = std::ranges::find(moments, rank, &analysis::RankMoment::rank);
    if (found != moments.end()) told.push_back(&*found);
  }
  const ui::Lanes& lanes = context.lanes;
  std::stable_sort(told.begin(), told.end(), [&lanes](const auto* a, const auto* b) {
    const auto place = [&lanes](int32_t rank) {
      return lanes.pinned_ranks.contains(rank) ? 0 : lanes.folded_ranks.contains(rank) ? 2 : 1;
    };
    return place(a->rank) < place(b->rank);
  });
  if (told.size() > kMostSentences) told.resize(kMostSentences);
  return told;
}

float DrawSentences(const ui::Context& context, const ui::Box& box, ui::DrawLog* log) {
  const Look look = widgets::LookOf(context);
  widgets::TextStyle style = widgets::TextOf(look);
  float y = box.y0;
  const float width = box.x1 - box.x0;
  const auto line = [&](const std::string& id, const std::string& text) {
    log->Text(id, text, widgets::DrawTextClipped(look, style, {box.x0, y}, width, text));
    const bool is_cut = widgets::TextSize(look, style, text).x > width;
    ItemOver(("##" + id).c_str(), {box.x0, y, box.x1, y + look.Px(kSentenceHeight)});
    if (is_cut && !context.headless) widgets::ItemTooltip(look, text, "");
  };
  if (!context.lens.moment) {
    style.color = look.theme.ink.dim;
    line("lens_making", ui::Tr(context.language, ui::Text::kLensMaking));
    return y + look.Px(kSentenceHeight);
  }
  const std::vector<const analysis::RankMoment*> told = RanksToTell(context);
  for (const analysis::RankMoment* rank : told) {
    const bool is_bad = rank->exposes() || rank->stall.has_value();
    style.color = is_bad ? look.theme.state.bad : look.theme.ink.text;
    line(fmt::format("moment:{}", rank->rank),
         MomentSentence(*rank, ui::MomentWordsOf(context.language)));
    y += look.Px(kSentenceHeight);
  }
  const size_t more = context.lens.moment->ranks.size() - told.size();
  if (more > 0) {
    style.color = look.theme.ink.dim;
    line("more_ranks", ui::TrFormat(context.language, ui::Text::kLensMoreRanks, more));
    y += look.Px(kSentenceHeight);
  }
  return y;
}

}  // namespace

float DrawLensBar(const ui::Context& context, const Axis& axis, float top, ui::DrawLog* log,
                  ui::Commands* commands) {
  const Look look = widgets::LookOf(context);
  const ImVec2 cursor = ImGui::GetCursorScreenPos();
  const float left = ImGui::GetWindowPos().x;
  const float bottom = top + look.Px(kLensBarHeight);
  ImGui::GetWindowDrawList()->AddRectFilled({left, top}, {axis.right(), bottom},
                                            look.theme.surface.raised);
  DrawLensControls(context, {left, top, axis.left(), bottom}, log, commands);
  const float close = axis.right() - look.Px(kCloseWidth);
  DrawLensTrack(context, axis, {axis.left(), top, close, bottom}, log, commands);
  DrawLensClose(context, {close, top, axis.right(), bottom}, log, commands);
  const float end = DrawSentences(
      context, {left + look.Px(ui::kPanelPadding), bottom + look.Px(3), axis.right(), 0}, log);
  ImGui::SetCursorScreenPos(cursor);
  return end + look.Px(3);
}

}  // namespace shardscope::panels
