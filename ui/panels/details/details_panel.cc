#include "ui/panels/details/details_panel.h"

#include <imgui.h>

#include <algorithm>
#include <optional>

#include "trace/base/units.h"
#include "trace/query/find_op_run.h"
#include "ui/panels/details/area_details.h"
#include "ui/panels/details/details_text.h"
#include "ui/panels/panel_frame.h"
#include "ui/timeline/run_index.h"
#include "ui/values.h"
#include "ui/widgets/buttons.h"
#include "ui/widgets/labels.h"
#include "ui/widgets/tooltip.h"

namespace shardscope::panels {
namespace {

using widgets::Look;

constexpr float kTitleSize = 15;
constexpr float kDetailRowHeight = 22;
constexpr float kLeastDetailRowHeight = 17;
constexpr float kFooterHeight = 22;
constexpr float kMeaningHeight = 74;

ui::Text TruthName(query::Truth truth) {
  switch (truth) {
    case query::Truth::kEmulated:
      return ui::Text::kEmulated;
    case query::Truth::kProjected:
      return ui::Text::kProjected;
    case query::Truth::kMeasured:
      break;
  }
  return ui::Text::kMeasured;
}

// One that leads somewhere is underlined, in the colour of links under the mouse.
ui::Box DrawValue(const Look& look, widgets::TextStyle style, ImVec2 right_top,
                  const DetailRow& row, ui::Commands* commands) {
  if (!row.link) return widgets::DrawTextRight(look, style, right_top, row.value);
  const ImVec2 size = widgets::TextSize(look, style, row.value);
  const ImVec2 before = ImGui::GetCursorScreenPos();
  ImGui::SetCursorScreenPos({right_top.x - size.x, right_top.y});
  ImGui::PushID(static_cast<int>(right_top.y));  // two links may read alike
  if (widgets::ClickArea("##link", {std::max(size.x, 1.0F), size.y})) {
    commands->push_back(*row.link);
  }
  ImGui::PopID();
  if (ImGui::IsItemHovered()) {
    style.color = look.theme.state.accent;
    ImGui::SetMouseCursor(ImGuiMouseCursor_Hand);
  }
  ImGui::SetCursorScreenPos(before);
  const ui::Box drawn = widgets::DrawTextRight(look, style, right_top, row.value);
  ImGui::GetWindowDrawList()->AddRectFilled({drawn.x0, drawn.y1}, {drawn.x1, drawn.y1 + look.Px(1)},
                                            ui::WithAlpha(style.color, 0.5F));
  return drawn;
}

// "rank 1 · step 7"; of an op of an evaluation, which is in no step, whose batch it is.
std::string PlaceOf(const ui::Context& context, const query::OpRun& run) {
  const query::RankRows* rows = context.snapshot->FindRank(run.rank);
  for (const query::Evaluation& evaluation : rows->evaluations) {
    const int32_t batch = evaluation.BatchOf(run.step);
    if (batch < 0) continue;
    return ui::TrFormat(context.language, ui::Text::kDetailsRankEvaluation, int32_t{run.rank},
                        evaluation.step, batch);
  }
  return ui::TrFormat(context.language, ui::Text::kDetailsRankStep, int32_t{run.rank}, run.step);
}

}  // namespace

void DetailsPanel::Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) {
  const Look look = widgets::LookOf(context);
  const ImVec2 top = ImGui::GetCursorScreenPos();
  const ImVec2 room = ImGui::GetContentRegionAvail();
  if (context.area.query && context.snapshot != nullptr) {
    DrawAreaDetails(context, log);
    return;
  }
  UpdateWork(context);
  if (work_.kind == timeline::WorkFacts::Kind::kNothing) Update(context);
  UpdateSum(context);
  float footer_y = top.y + room.y - look.Px(14);
  if (work_.kind != timeline::WorkFacts::Kind::kNothing) {
    DrawWorkHeader(context, log);
    DrawRows(context, log, commands);
    if (!meaning_.empty()) DrawMeaning(context, log);
  } else if (!facts_.found) {
    PanelFrame{context, look, log, commands}.Empty(ui::Text::kDetailsEmpty);
  } else {
    DrawHeader(context, log);
    DrawSum(context, log);
    DrawRows(context, log, commands);
    DrawMeaning(context, log);
  }
  if (facts_.found || work_.kind != timeline::WorkFacts::Kind::kNothing) {
    // In a low window all of it scrolls.
    footer_y = std::max(footer_y, ImGui::GetCursorScreenPos().y);
  }
  if (context.snapshot != nullptr && room.y > look.Px(120)) DrawFooter(context, footer_y, log);
}

void DetailsPanel::UpdateWork(const ui::Context& context) {
  if (context.snapshot == nullptr || context.selection.span.is_none()) {
    work_ = {};
    return;
  }
  const query::Snapshot& snapshot = *context.snapshot;
  const bool same = work_.kind != timeline::WorkFacts::Kind::kNothing &&
                    run_folder_ == snapshot.run_folder && generation_ == snapshot.generation &&
                    report_ == context.report && work_.id() == context.selection.span &&
                    work_.rank == context.selection.rank && language_ == context.language;
  if (same) return;
  facts_ = {};
  work_ = timeline::WorkFactsOf(snapshot, *context.index, context.selection.rank,
                                context.selection.span);
  rows_ = WorkRows(work_, context.language);
  meaning_ = WorkMeaning(work_, context.language);
  AddWaits(context);
  run_folder_ = snapshot.run_folder;
  generation_ = snapshot.generation;
  language_ = context.language;
}

void DetailsPanel::DrawWorkHeader(const ui::Context& context, ui::DrawLog* log) const {
  const Look look = widgets::LookOf(context);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const widgets::TextStyle style{look.fonts.mono, kTitleSize, look.theme.ink.text};
  const float width = ImGui::GetContentRegionAvail().x;
  const ui::Box name = widgets::DrawTextClipped(look, style, at, width, work_.short_name);
  log->Text("title", work_.name, name);
  if (!context.headless) widgets::BoxTooltip(look, name, work_.name, "");
  const std::string kind = WorkKindName(work_, context.language);
  const ui::Box chip = widgets::DrawChip(look, {at.x, at.y + look.Px(26)}, kind, {});
  log->Text("work_kind", kind, chip);
  const std::string place = ui::TrFormat(context.language, ui::Text::kRankN, work_.rank);
  widgets::ChipStyle plain;
  plain.bold = false;
  widgets::DrawChip(look, {chip.x1 + look.Px(6), chip.y0}, place, plain);
  ImGui::SetCursorScreenPos({at.x, chip.y1 + look.Px(12)});
}

void DetailsPanel::Update(const ui::Context& context) {
  if (context.snapshot == nullptr || context.selection.op_run.is_none()) {
    facts_ = {};
    return;
  }
  const query::Snapshot& snapshot = *context.snapshot;
  const bool same_op =
      run_folder_ == snapshot.run_folder &&
      timeline::AreFactsOf(facts_, context.selection.rank, context.selection.op_run);
  const bool same_rows =
      generation_ == snapshot.generation || (same_op && timeline::AreSettled(facts_, snapshot));
  const bool same_report = report_ == context.report;
  if (same_op && same_rows && same_report && language_ == context.language) return;
  facts_ = timeline::FactsOf(snapshot, context.selection.rank, context.selection.op_run);
  rows_ = facts_.found ? DetailRows(facts_, context.language) : std::vector<DetailRow>();
  meaning_ = DetailMeaning(facts_, context.language);
  AddWaits(context);
  run_folder_ = snapshot.run_folder;
  generation_ = snapshot.generation;
  language_ = context.language;
}

void DetailsPanel::AddWaits(const ui::Context& context) {
  report_ = context.report;
  const query::Snapshot& snapshot = *context.snapshot;
  const analysis::EdgeCheck* check = report_ == nullptr ? nullptr : &report_->edges;
  std::vector<timeline::StreamWait> waits;
  if (work_.kind == timeline::WorkFacts::Kind::kWork) {
    const query::RankRows* rows = snapshot.FindRank(work_.rank);
    const uint32_t row =
        rows == nullptr ? timeline::kNoRow : timeline::FindWorkRow(*rows, work_.id());
    waits = timeline::WaitsOfWork(snapshot, *context.index, check, work_.rank, row);
  } else if (facts_.found) {
    waits = timeline::WaitsOfOp(snapshot, check, facts_.run.rank, facts_.run);
  }
  for (DetailRow& row : WaitRows(waits, context.language)) rows_.push_back(std::move(row));
  const std::string meaning = WaitMeaning(waits, context.language);
  if (!meaning.empty()) meaning_ = meaning;
}

void DetailsPanel::UpdateSum(const ui::Context& context) {
  also_ = facts_.found ? context.selection.also : std::vector<ui::SelectedOp>();
  if (also_.empty()) return;
  sum_ns_ = facts_.run.ended_ns - facts_.run.started_ns;
  for (const ui::SelectedOp& op : also_) {
    const auto run = query::FindOpRun(*context.snapshot, op.rank, op.op_run);
    if (run) sum_ns_ += run->ended_ns - run->started_ns;
  }
}

void DetailsPanel::DrawSum(const ui::Context& context, ui::DrawLog* log) const {
  if (also_.empty()) return;
  const Look look = widgets::LookOf(context);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  widgets::DrawText(look, widgets::DimOf(look), at,
                    ui::TrFormat(context.language, ui::Text::kDetailsSelected, also_.size() + 1));
  const std::string value = ui::FormatDuration(sum_ns_);
  log->Int("selected_sum", value, sum_ns_, "ns",
           widgets::DrawTextRight(look, widgets::BoldOf(look),
                                  {at.x + ImGui::GetContentRegionAvail().x, at.y}, value));
  ImGui::SetCursorScreenPos({at.x, at.y + look.Px(kDetailRowHeight)});
}

void DetailsPanel::DrawHeader(const ui::Context& context, ui::DrawLog* log) const {
  const Look look = widgets::LookOf(context);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const std::string title = DetailTitle(facts_.op);
  const widgets::TextStyle style{look.fonts.mono, kTitleSize, look.theme.ink.text};
  const ui::Box name =
      widgets::DrawTextClipped(look, style, at, ImGui::GetContentRegionAvail().x, title);
  log->Text("title", title, name);
  if (!context.headless) widgets::BoxTooltip(look, name, title, "");
  const float right = at.x + ImGui::GetContentRegionAvail().x;
  float chip_y = at.y + look.Px(26);
  float x = at.x;
  if (facts_.is_collective()) {
    const char* truth = ui::Tr(context.language, TruthName(facts_.truth));
    widgets::ChipStyle chip;
    chip.swatch = ui::OpColor(*context.theme, facts_.op.op_class);
    chip.hatched = facts_.truth == query::Truth::kEmulated;
    const ui::Box drawn = widgets::DrawChip(look, {x, chip_y}, truth, chip);
    log->Text("truth", truth, drawn);
    x = drawn.x1 + look.Px(6);
  }
  const std::string place = PlaceOf(context, facts_.run);
  widgets::ChipStyle plain;
  plain.bold = false;
  if (x > at.x && x + widgets::ChipWidth(look, place, plain) > right) {
    x = at.x;
    chip_y += look.Px(26);
  }
  const ui::Box drawn = widgets::DrawChip(look, {x, chip_y}, place, plain);
  log->Int("step", place, facts_.run.step, "step", drawn);
  ImGui::SetCursorScreenPos({at.x, drawn.y1 + look.Px(12)});
}

void DetailsPanel::DrawRows(const ui::Context& context, ui::DrawLog* log,
                            ui::Commands* commands) const {
  const Look look = widgets::LookOf(context);
  ImVec2 at = ImGui::GetCursorScreenPos();
  const ImVec2 room = ImGui::GetContentRegionAvail();
  // Rows move together rather than out of the panel.
  const float wanted = (room.y - look.Px(kMeaningHeight + kFooterHeight)) /
                       std::max(static_cast<float>(rows_.size()), 1.0F);
  const float height =
      std::clamp(wanted, look.Px(kLeastDetailRowHeight), look.Px(kDetailRowHeight));
  for (const DetailRow& row : rows_) {
    widgets::TextStyle style = widgets::BoldOf(look);
    if (row.tone == DetailRow::Tone::kGood) style.color = look.theme.state.good;
    if (row.tone == DetailRow::Tone::kBad) style.color = look.theme.state.bad;
    const ui::Box drawn = DrawValue(look, style, {at.x + room.x, at.y}, row, commands);
    widgets::DrawTextClipped(look, widgets::DimOf(look), at, drawn.x0 - at.x - look.Px(ui::kGrid),
                             ui::Tr(context.language, row.label.name));
    widgets::BoxTooltip(look, {at.x, at.y, at.x + room.x, at.y + height},
                        ui::Tr(context.language, row.label.name),
                        ui::Tr(context.language, row.label.tip));
    if (const int64_t* whole = std::get_if<int64_t>(&row.number)) {
      log->Int(row.id, row.value, *whole, row.unit, drawn);
    } else if (const double* real = std::get_if<double>(&row.number)) {
      log->Real(row.id, row.value, *real, row.unit, drawn);
    } else {
      log->Text(row.id, row.value, drawn);
    }
    at.y += height;
  }
  ImGui::SetCursorScreenPos(at);
}

void DetailsPanel::DrawMeaning(const ui::Context& context, ui::DrawLog* log) const {
  const Look look = widgets::LookOf(context);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float width = ImGui::GetContentRegionAvail().x;
  ImGui::GetWindowDrawList()->AddRectFilled(
      {at.x, at.y + look.Px(3)}, {at.x + width, at.y + look.Px(4)}, context.theme->surface.line);
  ImGui::SetCursorScreenPos({at.x, at.y + look.Px(12)});
  log->Text("meaning", meaning_, widgets::Paragraph(look, widgets::DimOf(look), meaning_));
}

void DetailsPanel::DrawFooter(const ui::Context& context, float y, ui::DrawLog* log) const {
  const Look look = widgets::LookOf(context);
  const query::Snapshot& snapshot = *context.snapshot;
  const int64_t dropped = ui::DroppedRecords(snapshot);
  const bool is_imported = snapshot.IsImported();
  std::string text = ui::TrFormat(
      context.language, is_imported ? ui::Text::kHealthLineImported : ui::Text::kHealthLineStill,
      dropped);
  if (const std::optional<int64_t> lag_ns = ui::LagNs(context)) {
    text =
        ui::TrFormat(context.language, ui::Text::kHealthLine, dropped, ui::FormatDuration(*lag_ns));
  }
  widgets::TextStyle style = widgets::FaintOf(look);
  if (dropped > 0) style.color = look.theme.state.bad;
  const ImVec2 at(ImGui::GetWindowPos().x + look.Px(ui::kPanelPadding), y);
  const ui::Box drawn = widgets::DrawText(look, style, at, text);
  log->Int("dropped", text, dropped, "", drawn);
  ImGui::SetCursorScreenPos(at);
  ImGui::Dummy({0, drawn.y1 - at.y});
}

ui::TableMaker DetailsPanel::AsTable(const ui::Context& context) const {
  if (context.area.measured == nullptr) return nullptr;
  return [area = context.area.measured] {
    ui::Table table{{"name", "kind", "count", "sum_ns", "p50_ns", "p95_ns", "longest_ns"}, {}};
    for (const analysis::AreaName& name : area->names) {
      table.rows.push_back({name.name, name.kind, std::to_string(name.count),
                            std::to_string(name.sum_ns), ui::ExactText(name.duration_ns.p50),
                            ui::ExactText(name.duration_ns.p95), std::to_string(name.longest_ns)});
    }
    return table;
  };
}

}  // namespace shardscope::panels
