#include "ui/panels/sql/sql_panel.h"

#include <fmt/format.h>
#include <imgui.h>
#include <imgui_internal.h>

#include <algorithm>
#include <cfloat>
#include <string_view>
#include <vector>

#include "trace/base/text.h"
#include "trace/query/select.h"
#include "ui/context.h"
#include "ui/draw_log.h"
#include "ui/panel_ids.h"
#include "ui/panels/panel_frame.h"
#include "ui/panels/sql/row_target.h"
#include "ui/text.h"
#include "ui/values.h"
#include "ui/widgets/buttons.h"
#include "ui/widgets/fields.h"
#include "ui/widgets/labels.h"
#include "ui/widgets/look.h"
#include "ui/widgets/part.h"
#include "ui/widgets/tables.h"

namespace shardscope::panels {

namespace {

using ui::Text;

constexpr float kStatementHeight = 96;
constexpr float kLeastAnswer = 110;  // height under the statement, with its button
// The list of tables, and the statement with its answer.
constexpr widgets::TwoParts kSqlParts{.width = 190,
                                      .least_width_behind = 180,
                                      .fraction = 3,
                                      .least_height = 60,
                                      .least_height_below = kStatementHeight + kLeastAnswer};
constexpr float kButtonWidth = 72;
constexpr float kShownWidth = 160;  // of the choice between table and chart
constexpr float kMostColumnWidth = 420;
constexpr float kOldRowsAlpha = 0.45F;
constexpr size_t kRowsOfWidths = 200;  // from which columns take their widths
constexpr int kRowsOfTable = 100;      // that a click on its name selects

std::string CellText(const query::Cell& cell) { return Printable(query::ShownText(cell)); }

bool IsNumber(const query::Cell& cell) {
  return std::holds_alternative<int64_t>(cell) || std::holds_alternative<double>(cell);
}

// Numbers to the right, with equal digits.
void DrawCell(const PanelFrame& frame, const query::Cell& cell) {
  const std::string text = CellText(cell);
  if (IsNumber(cell)) {
    const float room = ImGui::GetContentRegionAvail().x - ImGui::CalcTextSize(text.c_str()).x;
    if (room > 0) ImGui::SetCursorPosX(ImGui::GetCursorPosX() + room);
  }
  ImGui::PushStyleColor(ImGuiCol_Text, frame.look.theme.ink.text);
  ImGui::TextUnformatted(text.c_str(), text.c_str() + text.size());
  ImGui::PopStyleColor();
}

void DrawRow(const PanelFrame& frame, const query::SelectedRows& rows, int index) {
  const std::vector<query::Cell>& cells = rows.rows[static_cast<size_t>(index)];
  ImGui::TableNextRow();
  ImGui::PushID(index);
  for (size_t column = 0; column < cells.size(); ++column) {
    ImGui::TableSetColumnIndex(static_cast<int>(column));
    if (column == 0) {
      const ImVec2 at = ImGui::GetCursorPos();
      if (ImGui::Selectable("##row", false, ImGuiSelectableFlags_SpanAllColumns)) {
        for (ui::Command& command :
             CommandsToShow(*frame.context.snapshot, rows.origin_ns, rows.names, cells)) {
          frame.commands->push_back(std::move(command));
        }
      }
      const ui::Box box = widgets::ToBox(ImGui::GetItemRectMin(), ImGui::GetItemRectMax());
      if (frame.log->enabled()) {
        std::vector<std::string> texts;
        for (const query::Cell& cell : cells) texts.push_back(CellText(cell));
        frame.log->Text(fmt::format("row:{}", index), Join(texts, " | "), box);
      }
      ImGui::SetCursorPos(at);
    }
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float room = ImGui::GetContentRegionAvail().x;
    DrawCell(frame, cells[column]);
    if (frame.log->enabled()) {
      frame.log->Text(fmt::format("cell:{}:{}", index, column), CellText(cells[column]),
                      {at.x, at.y, at.x + room, at.y + ImGui::GetTextLineHeight()});
    }
  }
  ImGui::PopID();
}

// In the font that is current. ImGui's own widths are those of the first row that it draws.
std::vector<float> WidthsOf(const PanelFrame& frame, const query::SelectedRows& rows) {
  const auto width_of = [](const std::string& text) {
    return ImGui::CalcTextSize(text.c_str(), text.c_str() + text.size()).x;
  };
  std::vector<float> widths;
  for (size_t column = 0; column < rows.names.size(); ++column) {
    float width = width_of(Printable(rows.names[column], ""));
    for (size_t at = 0; at < std::min(rows.rows.size(), kRowsOfWidths); ++at) {
      width = std::max(width, width_of(CellText(rows.rows[at][column])));
    }
    widths.push_back(std::min(width, frame.look.Px(kMostColumnWidth)));
  }
  return widths;
}

// Each statement has a table of its own, with its own widths.
void DrawRows(const PanelFrame& frame, const ui::SqlAnswer& answer) {
  const query::SelectedRows& rows = answer.rows;
  const int num_columns = static_cast<int>(rows.names.size());
  constexpr ImGuiTableFlags kFlags =
      ImGuiTableFlags_ScrollX | ImGuiTableFlags_ScrollY | ImGuiTableFlags_Resizable |
      ImGuiTableFlags_RowBg | ImGuiTableFlags_SizingFixedFit | ImGuiTableFlags_NoSavedSettings;
  ImGui::PushFont(frame.look.fonts.mono, ui::kMonoSize);
  ImGui::PushID(answer.query.c_str());
  if (ImGui::BeginTable("rows", num_columns, kFlags)) {
    ImGui::TableSetupScrollFreeze(0, 1);
    const bool is_new = ImGui::GetCurrentTable()->IsInitializing;
    const std::vector<float> widths = is_new ? WidthsOf(frame, rows) : std::vector<float>();
    for (size_t column = 0; column < rows.names.size(); ++column) {
      ImGui::TableSetupColumn("", ImGuiTableColumnFlags_WidthFixed, is_new ? widths[column] : 0);
    }
    ImGui::TableNextRow(ImGuiTableRowFlags_Headers);
    for (size_t column = 0; column < rows.names.size(); ++column) {
      if (!ImGui::TableSetColumnIndex(static_cast<int>(column))) continue;
      widgets::HeaderCell(Printable(rows.names[column], ""));
    }
    ImGuiListClipper clipper;
    clipper.Begin(static_cast<int>(rows.rows.size()));
    while (clipper.Step()) {
      for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i) DrawRow(frame, rows, i);
    }
    ImGui::EndTable();
  }
  ImGui::PopID();
  ImGui::PopFont();
}

// One line over the rows: what runs, what went wrong, or how many there are.
void DrawStatus(const PanelFrame& frame) {
  const ui::SqlConsole& console = frame.context.sql;
  const ui::RunPlace place = frame.context.place;
  const auto say = [&](const char* id, const widgets::TextStyle& style, const std::string& text) {
    frame.Say(id, style, text);
  };
  const widgets::TextStyle dim = widgets::DimOf(frame.look);
  widgets::TextStyle bad = widgets::TextOf(frame.look);
  bad.color = frame.look.theme.state.bad;
  if (place != ui::RunPlace::kThere) {
    return say("not_there", bad, ui::RunPlaceText(frame.context.language, place));
  }
  if (!console.running.empty()) return say("running", dim, frame.Tr(Text::kSqlRunning));
  if (console.answer == nullptr) return say("hint", dim, frame.Tr(Text::kSqlHint));
  const ui::SqlAnswer& answer = *console.answer;
  const std::string took = ui::FormatDuration(answer.took_ns);
  const ui::Language language = frame.context.language;
  if (answer.is_cancelled) {
    return say("cancelled", dim, ui::TrFormat(language, Text::kSqlCancelled, took));
  }
  if (!answer.error.empty()) return say("error", bad, answer.error);
  const size_t count = answer.rows.rows.size();
  const Text words = answer.rows.is_cut ? Text::kSqlCut : Text::kSqlRows;
  const std::string text = count == 1 && !answer.rows.is_cut
                               ? ui::TrFormat(language, Text::kSqlOneRow, took)
                               : ui::TrFormat(language, words, count, took);
  frame.log->Int("rows", text, static_cast<int64_t>(count), "",
                 widgets::Paragraph(frame.look, dim, text));
}

}  // namespace

void SqlPanel::Ask(const PanelFrame& frame) {
  if (frame.context.place != ui::RunPlace::kThere) return;
  if (text_.find_first_not_of(" \t\r\n;") != std::string::npos) {
    frame.commands->push_back(ui::RunSql{text_});
  }
}

void SqlPanel::DrawTables(const PanelFrame& frame) {
  if (frame.context.sql.tables == nullptr) return;
  bool views = true;
  widgets::FaintHeading(frame.look, frame.Tr(Text::kSqlViews));
  for (const query::TableColumns& table : *frame.context.sql.tables) {
    if (views && !table.is_view) {
      views = false;
      widgets::Gap(frame.look, 8);
      widgets::FaintHeading(frame.look, frame.Tr(Text::kSqlTables));
    }
    if (widgets::LinkText(frame.look, table.table.c_str(), table.table)) {
      text_ = fmt::format("SELECT * FROM {} LIMIT {}", table.table, kRowsOfTable);
      Ask(frame);
    }
    frame.NoteItem("table:" + table.table, table.table);
    if (ImGui::IsItemHovered(ImGuiHoveredFlags_DelayShort)) {
      ImGui::SetTooltip("%s\n%s", Join(table.columns, "\n").c_str(), frame.Tr(Text::kSqlTableTip));
    }
  }
}

void SqlPanel::DrawStatement(const PanelFrame& frame) {
  const widgets::Look& look = frame.look;
  if (wants_text_) ImGui::SetKeyboardFocusHere();
  const bool entered =
      widgets::TextArea(look, "##statement", &text_, {-FLT_MIN, look.Px(kStatementHeight)});
  // The panel, that comes to the front, may take it again.
  if (ImGui::IsItemActive()) wants_text_ = false;
  const bool runs = !frame.context.sql.running.empty();
  bool clicked = false;
  if (runs) {
    if (widgets::Button(look, "cancel", frame.Tr(Text::kSqlCancel), widgets::Emphasis::kQuiet,
                        look.Px(kButtonWidth))) {
      frame.commands->push_back(ui::CancelSql{});
    }
  } else {
    clicked = widgets::Button(look, "run", frame.Tr(Text::kSqlRun), widgets::Emphasis::kPrimary,
                              look.Px(kButtonWidth));
    // Not over what went wrong, which stands below.
    const ui::SqlAnswer* answer = frame.context.sql.answer.get();
    const bool is_wrong = answer != nullptr && (answer->is_cancelled || !answer->error.empty());
    if (ImGui::IsItemHovered() && !is_wrong) ImGui::SetTooltip("%s", frame.Tr(Text::kSqlRunTip));
  }
  if (entered || clicked) Ask(frame);
  const std::vector<std::string>& history = frame.context.sql.history;
  if (history.empty()) return;
  ImGui::SameLine(0, look.Px(8));
  std::vector<std::string> options = {frame.Tr(Text::kSqlHistory)};
  for (auto query = history.rbegin(); query != history.rend(); ++query) {
    options.push_back(Printable(*query, ""));
  }
  int chosen = 0;
  if (widgets::Choice(look, "##history", options, &chosen) && chosen > 0) {
    text_ = history[history.size() - static_cast<size_t>(chosen)];
  }
}

void SqlPanel::DrawAnswer(const PanelFrame& frame) {
  const auto& answer = frame.context.sql.answer;
  if (answer == nullptr || !answer->error.empty() || answer->rows.names.empty()) return;
  // Of the statement before, while one runs.
  const bool is_old = !frame.context.sql.running.empty();
  ImGui::BeginDisabled(is_old);
  ImGui::PushStyleVar(ImGuiStyleVar_Alpha, is_old ? kOldRowsAlpha : 1);
  const bool has_chart = chart_.Show(answer);
  if (has_chart) {
    const int clicked =
        widgets::Segmented(frame.look, "shown",
                           {.options = {frame.Tr(Text::kSqlTable), frame.Tr(Text::kSqlChart)},
                            .chosen = as_chart_ ? 1 : 0,
                            .width = frame.look.Px(kShownWidth)});
    if (clicked >= 0) as_chart_ = clicked == 1;
  }
  if (has_chart && as_chart_) {
    chart_.Draw(frame);
  } else {
    DrawRows(frame, *answer);
  }
  ImGui::PopStyleVar();
  ImGui::EndDisabled();
}

void SqlPanel::Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) {
  const PanelFrame frame{context, widgets::LookOf(context), log, commands};
  const bool is_news = context.typed_into.IsNews(ui::panel_ids::kSql, &typed_into_);
  if (context.snapshot == nullptr) return frame.Empty(Text::kSqlEmpty);
  wants_text_ = wants_text_ || is_news;
  if (!context.sql.is_open) commands->push_back(ui::OpenSql{});
  widgets::Gap(frame.look, 4);
  const widgets::PlacedParts parts = widgets::PlaceTwoParts(frame.look, kSqlParts);
  if (ImGui::BeginChild("tables", parts.first, ImGuiChildFlags_NavFlattened)) DrawTables(frame);
  ImGui::EndChild();
  if (parts.beside) ImGui::SameLine(0, frame.look.Px(14));
  if (ImGui::BeginChild("statement", parts.second, ImGuiChildFlags_NavFlattened)) {
    DrawStatement(frame);
    widgets::Gap(frame.look, 4);
    DrawStatus(frame);
    DrawAnswer(frame);
  }
  ImGui::EndChild();
}

ui::TableMaker SqlPanel::AsTable(const ui::Context& context) const {
  const auto& shown = context.sql.answer;
  if (shown == nullptr || !shown->error.empty() || shown->rows.names.empty()) return nullptr;
  return [answer = shown] {
    ui::Table table;
    table.columns = answer->rows.names;
    for (const std::vector<query::Cell>& row : answer->rows.rows) {
      std::vector<std::string>& cells = table.rows.emplace_back();
      for (const query::Cell& cell : row) cells.push_back(query::ExactText(cell));
    }
    return table;
  };
}

}  // namespace shardscope::panels
