#include "ui/panels/collectives/matrix_view.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "trace/base/units.h"
#include "ui/panel_ids.h"
#include "ui/text.h"
#include "ui/widgets/look.h"
#include "ui/widgets/tooltip.h"

namespace shardscope::panels {
namespace {

using analysis::MatrixCell;
using ui::Text;
using widgets::Look;

constexpr float kLeastCell = 3;  // pixels at scale 1
constexpr float kMostCell = 44;
constexpr float kMatrixLeft = 58;
constexpr float kMatrixTop = 36;
constexpr float kLeastAlpha = 0.15F;

// "rank 3", "ranks 0-7".
std::string RanksText(const ui::Context& context, size_t first, size_t last) {
  const std::vector<int32_t>& ranks = context.collectives->matrix.ranks;
  if (first == last) return ui::TrFormat(context.language, Text::kMatrixRank, ranks[first]);
  return ui::TrFormat(context.language, Text::kMatrixRanks, ranks[first], ranks[last]);
}

double OfStep(const ui::Context& context, int64_t bytes) {
  const auto steps = static_cast<double>(std::max<size_t>(context.collectives->steps.size(), 1));
  return static_cast<double>(bytes) / steps;
}

// Within the square, of one index to the next.
float CellPlace(const ui::Context& context, float start, float length, size_t index) {
  const auto count = static_cast<float>(context.collectives->matrix.ranks.size());
  return start + length * static_cast<float>(index) / count;
}

ui::Box CellBox(const ui::Context& context, const ui::Box& square, const MatrixCell& cell) {
  const float length = square.x1 - square.x0;
  return {CellPlace(context, square.x0, length, cell.first_to),
          CellPlace(context, square.y0, length, cell.first_from),
          CellPlace(context, square.x0, length, cell.last_to + 1),
          CellPlace(context, square.y0, length, cell.last_from + 1)};
}

void DrawRankAxes(const ui::Context& context, const Look& look, const ui::Box& square) {
  ImGui::GetWindowDrawList()->AddRect({square.x0, square.y0}, {square.x1, square.y1},
                                      look.theme.surface.line);
  const widgets::TextStyle faint = widgets::FaintOf(look);
  const std::vector<int32_t>& ranks = context.collectives->matrix.ranks;
  const float pitch = (square.x1 - square.x0) / static_cast<float>(ranks.size());
  const float width = widgets::TextSize(look, faint, std::to_string(ranks.back())).x + look.Px(6);
  const auto every = static_cast<size_t>(std::max(std::ceil(width / pitch), 1.0F));
  for (size_t at = 0; at < ranks.size(); at += every) {
    const std::string text = std::to_string(ranks[at]);
    const float middle = (static_cast<float>(at) + 0.5F) * pitch;
    widgets::DrawText(
        look, faint,
        {square.x0 + middle - widgets::TextSize(look, faint, text).x / 2, square.y0 - look.Px(15)},
        text);
    widgets::DrawTextRight(look, faint, {square.x0 - look.Px(6), square.y0 + middle - look.Px(6)},
                           text);
  }
}

}  // namespace

void MatrixView::Update(const ui::Context& context, size_t most) {
  if (made_of_ == context.collectives && made_for_ == most) return;
  made_of_ = context.collectives;
  made_for_ = most;
  cells_ = CellsOf(made_of_->matrix, most);
  most_bytes_ = 0;
  for (const MatrixCell& cell : cells_) most_bytes_ = std::max(most_bytes_, cell.bytes);
}

void MatrixView::DrawCells(const ui::Context& context, const ui::Box& square,
                           ui::DrawLog* log) const {
  const Look look = widgets::LookOf(context);
  const float pitch =
      (square.x1 - square.x0) / static_cast<float>(context.collectives->matrix.ranks.size());
  const float gap = pitch > look.Px(6) ? look.Px(1) : 0;
  for (const MatrixCell& cell : cells_) {
    const ui::Box box = CellBox(context, square, cell);
    const float share = static_cast<float>(cell.bytes) / static_cast<float>(most_bytes_);
    ImGui::GetWindowDrawList()->AddRectFilled(
        {box.x0, box.y0}, {box.x1 - gap, box.y1 - gap},
        ui::WithAlpha(look.theme.op.all_gather, kLeastAlpha + (1 - kLeastAlpha) * share));
    const bool is_labelled = pitch >= look.Px(40);
    if (!is_labelled && !log->enabled()) continue;
    const double bytes = OfStep(context, cell.bytes);
    const std::string text = FormatBytes(std::llround(bytes));
    log->Real(fmt::format("sent:{}:{}", context.collectives->matrix.ranks[cell.first_from],
                          context.collectives->matrix.ranks[cell.first_to]),
              text, bytes, "B", box);
    // Numbers beside the colours where they fit.
    if (is_labelled) widgets::DrawTextCentered(look, widgets::FaintOf(look), box, text);
  }
}

void MatrixView::HandleMouse(const ui::Context& context, const ui::Box& square,
                             ui::Commands* commands) const {
  ImGui::SetCursorScreenPos({square.x0, square.y0});
  const bool clicked =
      ImGui::InvisibleButton("##matrix", {square.x1 - square.x0, square.y1 - square.y0});
  if (!ImGui::IsItemHovered() || context.headless) return;
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  for (const MatrixCell& cell : cells_) {
    const ui::Box box = CellBox(context, square, cell);
    if (mouse.x < box.x0 || mouse.x >= box.x1 || mouse.y < box.y0 || mouse.y >= box.y1) continue;
    const Look look = widgets::LookOf(context);
    ImGui::GetWindowDrawList()->AddRect({box.x0, box.y0}, {box.x1, box.y1}, look.theme.ink.text);
    widgets::Tooltip(look,
                     RanksText(context, cell.first_from, cell.last_from) + " → " +
                         RanksText(context, cell.first_to, cell.last_to),
                     ui::TrFormat(context.language, Text::kMatrixTip,
                                  FormatBytes(std::llround(OfStep(context, cell.bytes)))),
                     look.theme.surface.line);
    if (!clicked) return;
    const int32_t rank = context.collectives->matrix.ranks[cell.first_from];
    commands->push_back(ui::ShowRank{rank, std::max(context.focus.step, 0)});
    commands->push_back(ui::FocusPanel{ui::panel_ids::kTimeline});
    return;
  }
}

void MatrixView::Draw(const ui::Context& context, const ui::Box& box, ui::DrawLog* log,
                      ui::Commands* commands) {
  const Look look = widgets::LookOf(context);
  const analysis::CommunicationMatrix& matrix = context.collectives->matrix;
  const char* title = ui::Tr(context.language, Text::kMatrixTitle);
  log->Text("matrix", title,
            widgets::DrawText(look, widgets::BoldOf(look), {box.x0, box.y0}, title));
  if (matrix.unplaced_bytes > 0) {
    const std::string text =
        ui::TrFormat(context.language, Text::kMatrixUnplaced,
                     FormatBytes(std::llround(OfStep(context, matrix.unplaced_bytes))));
    log->Real("unplaced", text, OfStep(context, matrix.unplaced_bytes), "B",
              widgets::DrawTextRight(look, widgets::FaintOf(look), {box.x1, box.y0}, text));
  }
  if (matrix.empty()) {
    const char* none = ui::Tr(context.language, Text::kMatrixTooMany);
    log->Text("too_many", none,
              widgets::DrawText(look, widgets::DimOf(look), {box.x0, box.y0 + look.Px(20)}, none));
    return;
  }
  const float room =
      std::min(box.x1 - box.x0 - look.Px(kMatrixLeft), box.y1 - box.y0 - look.Px(kMatrixTop + 4));
  if (room < look.Px(24)) return;
  const float length = std::min(room, look.Px(kMostCell) * static_cast<float>(matrix.ranks.size()));
  const ui::Box square{box.x0 + look.Px(kMatrixLeft), box.y0 + look.Px(kMatrixTop),
                       box.x0 + look.Px(kMatrixLeft) + length,
                       box.y0 + look.Px(kMatrixTop) + length};
  Update(context, static_cast<size_t>(length / look.Px(kLeastCell)));
  DrawRankAxes(context, look, square);
  DrawCells(context, square, log);
  HandleMouse(context, square, commands);
}

}  // namespace shardscope::panels
