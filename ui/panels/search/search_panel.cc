#include "ui/panels/search/search_panel.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "trace/base/text.h"
#include "ui/panel_ids.h"
#include "ui/search.h"
#include "ui/text.h"
#include "ui/values.h"
#include "ui/widgets/buttons.h"
#include "ui/widgets/fields.h"
#include "ui/widgets/keys.h"
#include "ui/widgets/labels.h"
#include "ui/widgets/overlay.h"
#include "ui/widgets/tooltip.h"

namespace shardscope::panels {
namespace {

using analysis::SearchHit;
using ui::Text;
using ui::Tr;
using ui::TrFormat;
using widgets::Look;

constexpr float kSearchWidth = 700;
constexpr float kSearchHeight = 300;
constexpr float kHitRowHeight = 20;
constexpr float kHitPadding = 8;

// Columns from the right edge on, at scale 1; the name has the rest.
struct HitColumn {
  Text title;
  float width;
};
constexpr HitColumn kColumns[] = {{Text::kSearchTakes, 76},
                                  {Text::kSearchStart, 104},
                                  {Text::kSearchStep, 56},
                                  {Text::kSearchRank, 48}};
constexpr float kKindWidth = 110;

widgets::OverlayPlace PlaceOfSearch(const Look& look) {
  const ImGuiViewport* viewport = ImGui::GetMainViewport();
  return {
      .at = {viewport->GetCenter().x, viewport->Pos.y + viewport->Size.y - 2 * look.Px(ui::kGrid)},
      .pivot = {0.5F, 1},
      .width = kSearchWidth,
      .height = kSearchHeight};
}

// What the row says, in the order of kColumns.
std::array<std::string, 4> CellsOf(ui::Language language, const query::Snapshot& snapshot,
                                   const SearchHit& hit) {
  const bool is_moment = hit.what == analysis::HitKind::kMarker;
  std::string takes = is_moment ? "" : ui::FormatDuration(hit.end_ns - hit.start_ns);
  if (!hit.has_end) takes = Tr(language, Text::kSearchNotEnded);
  return {takes, ui::FormatMoment(snapshot, hit.start_ns),
          hit.step < 0 ? "" : std::to_string(hit.step),
          hit.rank < 0 ? "" : std::to_string(hit.rank)};
}

// Title and rows have the same columns: name, kind, then those of kColumns from the right.
struct RowTexts {
  std::string name;
  std::string kind;
  std::array<std::string, 4> cells;
};
void DrawCells(const Look& look, const widgets::TextStyle& name, const widgets::TextStyle& rest,
               const ui::Box& box, const RowTexts& texts) {
  const float y = box.y0 + look.Px(3);
  float right = box.x1 - look.Px(kHitPadding);
  for (size_t at = 0; at < std::size(kColumns); ++at) {
    widgets::DrawTextRight(look, rest, {right, y}, texts.cells[at]);
    right -= look.Px(kColumns[at].width);
  }
  const float kind = right - look.Px(kKindWidth) + look.Px(kHitPadding);
  widgets::DrawTextClipped(look, rest, {kind, y}, right - kind, texts.kind);
  const float left = box.x0 + look.Px(kHitPadding);
  widgets::DrawTextClipped(look, name, {left, y}, kind - left - look.Px(kHitPadding), texts.name);
}

void DrawTitles(const Look& look, const ui::Context& context) {
  RowTexts texts{
      Tr(context.language, Text::kSearchName), Tr(context.language, Text::kSearchKind), {}};
  for (size_t at = 0; at < std::size(kColumns); ++at) {
    texts.cells[at] = Tr(context.language, kColumns[at].title);
  }
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float height = look.Px(kHitRowHeight);
  const float right = at.x + widgets::ContentWidth() - ImGui::GetStyle().ScrollbarSize;
  DrawCells(look, widgets::FaintOf(look), widgets::FaintOf(look),
            {at.x, at.y, right, at.y + height}, texts);
  ImGui::Dummy({widgets::ContentWidth(), height});
  if (context.headless) return;
  const auto explain = [&](float from, float to, Text title, Text tip) {
    widgets::BoxTooltip(look, {from, at.y, to, at.y + height}, Tr(context.language, title),
                        Tr(context.language, tip));
  };
  float column_end = right - look.Px(kHitPadding);
  for (const HitColumn& column : kColumns) {
    const float begin = column_end - look.Px(column.width);
    if (column.title == Text::kSearchStart) {
      explain(begin, column_end, column.title, Text::kSearchStartTip);
    }
    column_end = begin;
  }
  explain(at.x, column_end - look.Px(kKindWidth), Text::kSearchName, Text::kSearchNameTip);
}

// true: clicked.
bool DrawHit(const Look& look, ui::Language language, const ui::FoundHits& found, size_t at,
             bool is_current, ui::DrawLog* log) {
  const SearchHit& hit = found.result.hits[at];
  const ImVec2 top = ImGui::GetCursorScreenPos();
  const float height = look.Px(kHitRowHeight);
  const ui::Box box{top.x, top.y, top.x + widgets::ContentWidth(), top.y + height};
  ImGui::PushID(static_cast<int>(at));
  const bool clicked = widgets::ClickArea("##hit", {box.x1 - box.x0, height});
  ImGui::PopID();
  widgets::ItemGround(look, look.theme.surface.chosen, is_current);
  const RowTexts texts{NameOf(*found.snapshot, hit), KindOf(*found.snapshot, hit),
                       CellsOf(language, *found.snapshot, hit)};
  DrawCells(look, widgets::TextOf(look), widgets::DimOf(look), box, texts);
  const std::string id = fmt::format("hit:{}", at);
  if (hit.has_end) {
    log->Int(id, texts.name, hit.end_ns - hit.start_ns, "ns", box);
  } else {
    log->Text(id, texts.name, box);
  }
  return clicked;
}

// Where it stands, count, sum and percentiles of the hits.
void DrawFigures(const Look& look, const ui::Context& context, ui::DrawLog* log,
                 ui::Commands* commands) {
  const analysis::SearchResult& result = context.search.found->result;
  const std::optional<size_t> current = ui::CurrentHit(context.search);
  const std::string count =
      current ? TrFormat(context.language, Text::kSearchHitOf, *current + 1, result.count)
              : fmt::format("{} {}", result.count, Tr(context.language, Text::kSearchHits));
  const std::string sum = fmt::format("{} {}", Tr(context.language, Text::kSearchSum),
                                      ui::FormatDuration(result.sum_ns));
  const std::string p50 = "p50 " + ui::FormatDuration(result.duration_ns.p50);
  const std::string p95 = "p95 " + ui::FormatDuration(result.duration_ns.p95);
  ImVec2 at = ImGui::GetCursorScreenPos();
  const auto draw = [&](const std::string& text, const char* tip) {
    const ui::Box box = widgets::DrawText(look, widgets::TextOf(look), at, text);
    if (*tip != '\0' && !context.headless) widgets::BoxTooltip(look, box, text, tip);
    at.x = box.x1 + look.Px(18);
    return box;
  };
  log->Int("count", count, result.count, "", draw(count, ""));
  log->Int("sum", sum, result.sum_ns, "ns", draw(sum, Tr(context.language, Text::kSearchSumTip)));
  log->Real("p50", p50, result.duration_ns.p50, "ns",
            draw(p50, Tr(context.language, Text::kSearchP50Tip)));
  log->Real("p95", p95, result.duration_ns.p95, "ns",
            draw(p95, Tr(context.language, Text::kSearchP95Tip)));
  const ImVec2 below = ImGui::GetCursorScreenPos();
  ImGui::SetCursorScreenPos(at);
  if (widgets::LinkText(look, "csv", "CSV"))
    commands->push_back(ui::SaveTable{ui::panel_ids::kSearch});
  if (ImGui::IsItemHovered(ImGuiHoveredFlags_DelayShort)) {
    ImGui::SetTooltip("%s", Tr(context.language, Text::kSearchCsvTip));
  }
  ImGui::SetCursorScreenPos(below);
  ImGui::Dummy({widgets::ContentWidth(), look.Px(ui::kTextSize + 2)});
}

// One line: what is wrong, that it goes on, or what was found.
void DrawSummary(const Look& look, const ui::Context& context, ui::DrawLog* log,
                 ui::Commands* commands) {
  const ui::SearchState& search = context.search;
  const auto say = [&](const char* id, const std::string& text, const widgets::TextStyle& style) {
    log->Text(id, text, widgets::Paragraph(look, style, text));
  };
  if (context.snapshot == nullptr) {
    return say("empty", Tr(context.language, Text::kSearchNoRun), widgets::DimOf(look));
  }
  if (Trim(search.text).empty()) {
    return say("keys", Tr(context.language, Text::kSearchKeys), widgets::DimOf(look));
  }
  if (search.found == nullptr) {
    return say("running", Tr(context.language, Text::kSearchRunning), widgets::DimOf(look));
  }
  const ui::FoundHits& found = *search.found;
  if (found.error) {
    widgets::TextStyle style = widgets::DimOf(look);
    style.color = look.theme.state.bad;
    return say("error", ui::SearchErrorText(context.language, *found.error), style);
  }
  if (found.result.count == 0) {
    return say("none", Tr(context.language, Text::kSearchNoHits), widgets::DimOf(look));
  }
  DrawFigures(look, context, log, commands);
}

void Append(ui::Commands from, ui::Commands* commands) {
  std::move(from.begin(), from.end(), std::back_inserter(*commands));
}

}  // namespace

void SearchPanel::StepOn(const ui::Context& context, ui::Commands* commands) {
  const ui::SearchState& search = context.search;
  typed_ = search.text;
  if (search.found == nullptr || search.found->text != search.text) return;
  ui::Commands steps = ui::StepToHit(context, search.steps);
  // Where there is none it is over; later hits are not stepped to by themselves.
  if (steps.empty()) steps.push_back(ui::SearchFor{search.text});
  Append(std::move(steps), commands);
}

void SearchPanel::DrawField(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) {
  const Look look = widgets::LookOf(context);
  if (opened_ != context.search.opened) {
    opened_ = context.search.opened;
    typed_ = context.search.text;
    ImGui::SetKeyboardFocusHere();
  }
  if (context.search.steps != 0) StepOn(context, commands);
  const bool is_wrong = context.search.found != nullptr && context.search.found->error.has_value();
  const bool changed =
      widgets::TextField(look, "##query", &typed_,
                         {.hint = Tr(context.language, Text::kSearchHint), .invalid = is_wrong});
  log->Text("query", typed_, widgets::ToBox(ImGui::GetItemRectMin(), ImGui::GetItemRectMax()));
  const bool has_keyboard = ImGui::IsItemActive() || ImGui::IsItemDeactivated();
  // Escape closes the search, and lets the field take back what was typed.
  if (ImGui::IsKeyPressed(ImGuiKey_Escape, false)) {
    if (context.overlay == ui::Overlay::kNone) commands->push_back(ui::ShowSearch{false});
    return;
  }
  if (changed) commands->push_back(ui::SearchFor{typed_});
  if (!has_keyboard) return;
  if (!widgets::PressesEnter()) return;
  Append(ui::StepToHit(context, ImGui::GetIO().KeyShift ? -1 : 1), commands);
  ImGui::SetKeyboardFocusHere(-1);  // Enter left the field
}

void SearchPanel::DrawHits(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) {
  const Look look = widgets::LookOf(context);
  if (context.search.found == nullptr || context.search.found->result.hits.empty()) return;
  const ui::FoundHits& found = *context.search.found;
  const std::vector<SearchHit>& hits = found.result.hits;
  const float height = look.Px(kHitRowHeight);
  DrawTitles(look, context);
  const bool all = static_cast<size_t>(found.result.count) == hits.size();
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(0, 0));
  if (ImGui::BeginChild("hits", {0, all ? 0 : -look.Px(kHitRowHeight)},
                        ImGuiChildFlags_NavFlattened, ImGuiWindowFlags_AlwaysVerticalScrollbar)) {
    const std::optional<size_t> current = ui::CurrentHit(context.search);
    if (revealed_ != context.revealed.count && current) {
      ImGui::SetScrollFromPosY(
          ImGui::GetCursorStartPos().y + (static_cast<float>(*current) + 0.5F) * height, 0.5F);
    }
    revealed_ = context.revealed.count;
    ImGuiListClipper clipper;
    clipper.Begin(static_cast<int>(hits.size()), height);
    while (clipper.Step()) {
      for (int at = clipper.DisplayStart; at < clipper.DisplayEnd; ++at) {
        const auto hit = static_cast<size_t>(at);
        if (DrawHit(look, context.language, found, hit, current == hit, log)) {
          commands->push_back(ui::SelectHit{hit});
        }
      }
    }
  }
  ImGui::EndChild();
  ImGui::PopStyleVar();
  if (all) return;
  const std::string most = TrFormat(context.language, Text::kSearchMost, hits.size());
  log->Int("listed", most, static_cast<int64_t>(hits.size()), "",
           widgets::Paragraph(look, widgets::FaintOf(look), most));
}

void SearchPanel::Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) {
  if (!context.search.open) return;
  const Look look = widgets::LookOf(context);
  const widgets::OverlayWindow window(look, "##search", PlaceOfSearch(look));
  log->SetPanel(ui::panel_ids::kSearch);
  DrawField(context, log, commands);
  DrawSummary(look, context, log, commands);
  DrawHits(context, log, commands);
}

ui::TableMaker SearchPanel::AsTable(const ui::Context& context) {
  if (context.search.found == nullptr || context.search.found->error) return nullptr;
  return [found = context.search.found] {
    ui::Table table{{"name", "kind", "rank", "step", "start_ns", "duration_ns"}, {}};
    for (const SearchHit& hit : found->result.hits) {
      table.rows.push_back({NameOf(*found->snapshot, hit), KindOf(*found->snapshot, hit),
                            hit.rank < 0 ? "" : std::to_string(hit.rank),
                            hit.step < 0 ? "" : std::to_string(hit.step),
                            std::to_string(hit.start_ns - found->snapshot->RunStartNs()),
                            hit.has_end ? std::to_string(hit.end_ns - hit.start_ns) : ""});
    }
    return table;
  };
}

}  // namespace shardscope::panels
