#include "ui/panels/ranks/ranks_panel.h"

#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>
#include <vector>

#include "ui/panels/ranks/draw_strip.h"
#include "ui/ranks.h"
#include "ui/text.h"
#include "ui/values.h"
#include "ui/widgets/buttons.h"
#include "ui/widgets/fields.h"
#include "ui/widgets/labels.h"
#include "ui/widgets/tooltip.h"

namespace shardscope::panels {
namespace {

using analysis::RankFigure;
using ui::Text;
using widgets::Look;

constexpr float kStripLeastRowHeight = 6;
constexpr float kStripMostRowHeight = 18;
constexpr float kStripLeastColumn = 5;
constexpr float kStripLeastRows = 5;  // of full height; a low panel scrolls to them

// Whose label would cover this one.
bool IsNearSlow(const Strip& strip, size_t row, size_t rows_of_label) {
  const size_t first = row - std::min(row, rows_of_label - 1);
  const size_t last = std::min(row + rows_of_label, strip.rows.size());
  for (size_t at = first; at < last; ++at) {
    if (strip.rows[at].is_slow) return true;
  }
  return false;
}

// Only how large cells are that fill this room.
StripPlaces SizedTo(const Look& look, const Strip& strip, ImVec2 room) {
  StripPlaces places;
  places.row_height =
      std::floor(std::clamp(room.y / static_cast<float>(strip.rows.size()),
                            look.Px(kStripLeastRowHeight), look.Px(kStripMostRowHeight)));
  places.column_width =
      std::min(room.x / static_cast<float>(strip.num_columns), look.Px(kStripMostColumn));
  return places;
}

void ScrollToSlow(const Strip& strip, float row_height) {
  const auto slow = std::ranges::find_if(strip.rows, &StripRow::is_slow);
  if (slow == strip.rows.end()) return;
  const auto at = static_cast<float>(slow - strip.rows.begin());
  ImGui::SetScrollFromPosY(ImGui::GetCursorStartPos().y + at * row_height, 0.5F);
}

// Those in sight.
void DrawStripRows(const RanksFrame& frame, const Strip& strip, RankFigure figure,
                   const StripPlaces& places) {
  const float top = ImGui::GetWindowPos().y;
  const float bottom = top + ImGui::GetWindowSize().y;
  // The label of the first row stands lower than its middle, so as not to be cut.
  const float lower =
      std::max((frame.look.Px(ui::kSmallTextSize + 2) - places.row_height) / 2, 0.0F);
  const float label = places.row_height >= frame.look.Px(kStripLeastLabelHeight)
                          ? places.row_height
                          : frame.look.Px(kStripLeastLabelHeight) + lower;
  const auto every = static_cast<size_t>(std::ceil(label / places.row_height));
  for (size_t row = 0; row < strip.rows.size(); ++row) {
    const ui::Box box = places.RowBox(row);
    if (box.y1 < top || box.y0 > bottom) continue;
    const bool labelled = row % every == 0 && !IsNearSlow(strip, row, every);
    DrawStripRow(frame, strip, figure, places, row, labelled);
  }
}

}  // namespace

void RanksPanel::DrawSentence(const RanksFrame& frame) {
  const Look& look = frame.look;
  const analysis::RankFindings& findings = frame.context.ranks->findings;
  const std::string sentence = ui::RankSentence(frame.context.language, findings);
  widgets::TextStyle style = widgets::TextOf(look);
  if (findings.straggler) {
    style = widgets::BoldOf(look);
    const ImVec2 at = ImGui::GetCursorScreenPos();
    DrawSlowSign(frame, {at.x + look.Px(5), at.y + look.Px(7)});
    ImGui::Indent(look.Px(14));
  }
  const ui::Box box = widgets::Paragraph(look, style, sentence);
  if (findings.straggler) ImGui::Unindent(look.Px(14));
  frame.log->Text("sentence", sentence, box);
  if (!findings.straggler || frame.context.headless) return;
  const ImVec2 below = ImGui::GetCursorScreenPos();
  ImGui::SetCursorScreenPos({box.x0, box.y0});
  shows_slow_ = widgets::ClickArea("sentence", {box.x1 - box.x0, box.y1 - box.y0});
  if (ImGui::IsItemHovered()) ImGui::SetMouseCursor(ImGuiMouseCursor_Hand);
  ImGui::SetCursorScreenPos(below);
}

void RanksPanel::DrawChoices(const RanksFrame& frame) {
  const Look& look = frame.look;
  std::vector<std::string> figures;
  for (int at = 0; at < analysis::kNumRankFigures; ++at) {
    figures.emplace_back(ui::RankFigureName(frame.context.language, static_cast<RankFigure>(at)));
  }
  int clicked = widgets::Segmented(
      look, "figure",
      {.options = figures, .chosen = static_cast<int>(settings_.figure), .width = look.Px(340)});
  if (clicked >= 0) settings_.figure = static_cast<RankFigure>(clicked);
  widgets::BesideOrBelow(look.Px(140), look.Px(10));
  clicked =
      widgets::Segmented(look, "order",
                         {.options = {frame.Tr(Text::kRanksByRank), frame.Tr(Text::kRanksByValue)},
                          .chosen = settings_.by_value ? 1 : 0,
                          .width = look.Px(140)});
  if (clicked >= 0) settings_.by_value = clicked == 1;
  clicked =
      widgets::Segmented(look, "folds",
                         {.options = {frame.Tr(Text::kRanksEach), frame.Tr(Text::kRanksFolded)},
                          .chosen = settings_.folds ? 1 : 0,
                          .width = look.Px(220)});
  if (clicked >= 0) settings_.folds = clicked == 1;
  widgets::BesideOrBelow(look.Px(130), look.Px(10));
  const ui::RankFilterResult chosen =
      ui::FilterRanks(frame.grid().ranks, ui::MeshOfRun(*frame.context.snapshot), filter_);
  const auto* error = std::get_if<ui::RankFilterError>(&chosen);
  widgets::TextField(look, "##filter", &filter_,
                     {.hint = frame.Tr(Text::kRanksFilterHint),
                      .invalid = error != nullptr,
                      .width = std::min(look.Px(130), widgets::ContentWidth())});
  frame.log->Text("filter", filter_,
                  widgets::ToBox(ImGui::GetItemRectMin(), ImGui::GetItemRectMax()));
  if (!frame.context.headless && !ImGui::IsItemActive()) {
    widgets::ItemTooltip(look, frame.Tr(Text::kRanksFilterHint), frame.Tr(Text::kRanksFilterTip));
  }
  const bool is_of_run =
      path_ == frame.context.path && std::ranges::includes(frame.grid().ranks, settings_.ranks);
  path_ = frame.context.path;
  if (error == nullptr) {
    settings_.ranks = std::get<std::vector<int32_t>>(chosen);
  } else if (!is_of_run) {
    settings_.ranks = frame.grid().ranks;
  }
  DrawLaneButtons(frame);
  std::string problem;
  if (error != nullptr) {
    problem = ui::RankFilterErrorText(frame.context.language, *error);
  } else if (settings_.ranks.empty()) {
    problem = frame.Format(Text::kRanksNoneChosen, filter_);
  }
  if (problem.empty()) return;
  widgets::TextStyle style = widgets::TextOf(look);
  style.color = look.theme.state.bad;
  frame.log->Text("error", problem, widgets::Paragraph(look, style, problem));
}

// What the lanes of the timeline show of them.
void RanksPanel::DrawLaneButtons(const RanksFrame& frame) {
  const Look& look = frame.look;
  const auto button = [&](const char* id, Text text) {
    widgets::BesideOrBelow(widgets::ButtonWidth(look, frame.Tr(text)), look.Px(8));
    const bool clicked = widgets::Button(look, id, frame.Tr(text));
    frame.log->Text(id, frame.Tr(text),
                    widgets::ToBox(ImGui::GetItemRectMin(), ImGui::GetItemRectMax()));
    return clicked;
  };
  const bool some = !settings_.ranks.empty() && settings_.ranks.size() < frame.grid().ranks.size();
  if (some && button("only_these", Text::kRanksOnlyThese)) {
    std::vector<int32_t> others;
    for (const int32_t rank : frame.grid().ranks) {
      if (!std::binary_search(settings_.ranks.begin(), settings_.ranks.end(), rank)) {
        others.push_back(rank);
      }
    }
    frame.commands->push_back(ui::PlaceRanks{settings_.ranks, ui::RankPlace::kInOrder});
    frame.commands->push_back(ui::PlaceRanks{std::move(others), ui::RankPlace::kHidden});
  }
  const ui::Lanes& lanes = frame.context.lanes;
  const bool is_changed = !lanes.hidden_ranks.empty() || !lanes.pinned_ranks.empty();
  if (is_changed && button("all_lanes", Text::kRanksAllLanes)) {
    frame.commands->push_back(ui::PlaceRanks{frame.grid().ranks, ui::RankPlace::kInOrder});
  }
  if (!lanes.rank_order.empty() && button("original_order", Text::kRanksOriginalOrder)) {
    frame.commands->push_back(ui::OrderRanks{});
  }
}

void RanksPanel::Update(const RanksFrame& frame, float width) {
  settings_.most_columns =
      static_cast<size_t>(std::max(width / frame.look.Px(kStripLeastColumn), 1.0F));
  if (made_of_ == frame.context.ranks && made_with_ == settings_) return;
  made_of_ = frame.context.ranks;
  made_with_ = settings_;
  strip_ = MakeStrip(*made_of_, settings_);
}

void RanksPanel::DrawStrip(const RanksFrame& frame) {
  const Look& look = frame.look;
  const float scroll_bar = ImGui::GetStyle().ScrollbarSize;
  const float width =
      widgets::ContentWidth() - look.Px(kStripLabelWidth + kStripValueWidth) - scroll_bar;
  Update(frame, width);
  if (strip_.rows.empty() || strip_.num_columns == 0) return;
  const ImVec2 header = ImGui::GetCursorScreenPos();
  ImGui::Dummy({widgets::ContentWidth(), look.Px(kStripHeaderHeight)});
  const float spacing = ImGui::GetStyle().ItemSpacing.y;
  const float least = look.Px(kStripMostRowHeight) *
                      std::min(static_cast<float>(strip_.rows.size()), kStripLeastRows);
  const float legend = StripLegendHeight(frame, strip_, made_with_.figure);
  const float room = std::max(ImGui::GetContentRegionAvail().y - legend - 2 * spacing, least);
  StripPlaces places = SizedTo(look, strip_, {width, room});
  places.left = header.x + look.Px(kStripLabelWidth);
  places.right = places.left + places.column_width * static_cast<float>(strip_.num_columns);
  DrawStripSteps(frame, strip_, places, header.y);
  const float height = places.row_height * static_cast<float>(strip_.rows.size());
  const bool shows_slow = shows_slow_;  // where the strip is out of sight, it is in the next frame
  if (ImGui::BeginChild("strip", {0, room}, ImGuiChildFlags_NavFlattened)) {
    if (std::exchange(shows_slow_, false)) ScrollToSlow(strip_, places.row_height);
    places.origin = ImGui::GetCursorScreenPos();
    const bool clicked = widgets::ClickArea("##cells", {widgets::ContentWidth(), height});
    DrawStripRows(frame, strip_, made_with_.figure, places);
    if (!frame.context.headless) HandleStrip(frame, places, clicked);
  }
  ImGui::EndChild();
  if (shows_slow) ImGui::SetScrollHereY(1);
  HandleStripValues(frame, made_with_.figure,
                    {places.right, header.y, places.right + look.Px(kStripValueWidth),
                     ImGui::GetItemRectMax().y});
  DrawStripLegend(frame, strip_, made_with_.figure);
}

void RanksPanel::HandleStrip(const RanksFrame& frame, const StripPlaces& places, bool clicked) {
  if (!ImGui::GetIO().NavVisible || !ImGui::IsItemFocused()) {
    if (!ImGui::IsItemHovered()) return;
    const std::optional<StripPlace> place = PlaceUnderMouse(strip_, places);
    if (!place) return;
    const ImVec2 mouse = ImGui::GetIO().MousePos;
    return HandleStripPlace(frame, strip_, places, *place, mouse, clicked);
  }
  const size_t row_before = of_keys_.row;
  of_keys_ = MovedByKeys(strip_, of_keys_);
  const ui::Box row = places.RowBox(of_keys_.row);
  if (of_keys_.row != row_before) ImGui::SetScrollFromPosY(row.y0 - ImGui::GetWindowPos().y);
  const float x = of_keys_.column ? places.X(*of_keys_.column + 1) : places.left;
  HandleStripPlace(frame, strip_, places, of_keys_, {x, row.y1}, clicked);
}

void RanksPanel::Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) {
  const RanksFrame frame{{context, widgets::LookOf(context), log, commands}};
  if (context.snapshot == nullptr) return frame.Empty(Text::kRanksEmpty);
  if (context.ranks == nullptr) return frame.Empty(Text::kRanksMaking);
  if (context.ranks->findings.ranks.empty()) {
    return frame.Empty(ui::IsRecordedWithoutSteps(context) ? Text::kRecordedNoSteps
                                                           : Text::kRanksNoStep);
  }
  widgets::Gap(frame.look, 4);
  DrawSentence(frame);
  widgets::Gap(frame.look, 4);
  DrawChoices(frame);
  widgets::Gap(frame.look, 2);
  DrawStrip(frame);
}

ui::TableMaker RanksPanel::AsTable(const ui::Context& context) const {
  if (context.ranks == nullptr) return nullptr;
  return [overview = context.ranks] {
    ui::Table table{{"rank", "steps", "step_ns", "exposed_ns", "exposed_share", "late_ns",
                     "last_share", "peak_bytes"},
                    {}};
    for (const analysis::RankFigures& rank : overview->findings.ranks) {
      table.rows.push_back({std::to_string(rank.rank), std::to_string(rank.num_steps),
                            ui::ExactText(rank.step_ns), ui::ExactText(rank.exposed_ns),
                            ui::ExactText(rank.exposed_share), ui::ExactText(rank.late_ns),
                            ui::ExactText(rank.last_share()), std::to_string(rank.peak_bytes)});
    }
    return table;
  };
}

}  // namespace shardscope::panels
