#include "ui/timeline/draw/draw_lane.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "trace/base/not_ended.h"
#include "trace/query/has_ended.h"
#include "ui/timeline/geometry.h"
#include "ui/timeline/gpu/track_index.h"

namespace shardscope::timeline {
namespace {

using query::IsCommunication;
using query::OpClass;
using widgets::Look;

constexpr float kLabelSize = ui::kSmallTextSize;
constexpr float kLabelPadding = 4;
constexpr float kBoxRounding = 2;
// Of the hue, in what is no span with two ends: names can be read on it.
constexpr float kFaintShare = 0.7F;

widgets::TextStyle LabelStyle(const Look& look, ui::Color color) {
  return {look.fonts.bold, kLabelSize, color};
}

void Fill(const ui::Box& box, ui::Color color, float rounding) {
  ImGui::GetWindowDrawList()->AddRectFilled({box.x0, box.y0}, {box.x1, box.y1}, color,
                                            box.x1 - box.x0 >= 6 ? rounding : 0);
}

// On whole pixels, with a gap to the right neighbour, never thinner than a pixel.
ui::Box Snap(float x0, float x1, const ui::Box& lane, float gap) {
  ui::Box box = lane;
  box.x0 = std::max(std::round(x0), lane.x0);
  box.x1 = std::min(std::max(std::round(x1) - gap, box.x0 + 1), lane.x1);
  return box;
}

bool HasLabelRoom(const ui::Box& box, float scale) {
  return box.x1 - box.x0 >= kMinLabel * scale && box.y1 - box.y0 >= kLabelSize * scale;
}

}  // namespace

const LabelCache::Entry& LabelCache::Get(const Look& look, const query::Snapshot& snapshot,
                                         query::PlanOpId plan_op) {
  ForgetOther(look, snapshot);
  const auto [found, added] = entries_.try_emplace(plan_op);
  if (!added) return found->second;
  const query::PlanOp* op = snapshot.FindPlanOp(plan_op);
  if (op == nullptr) return found->second;
  found->second.label = LabelOf(*op);
  const widgets::TextStyle style = LabelStyle(look, 0);
  found->second.full_width = widgets::TextSize(look, style, found->second.label.full).x;
  found->second.shorter_width = widgets::TextSize(look, style, found->second.label.shorter).x;
  return found->second;
}

void LabelCache::ForgetOther(const Look& look, const query::Snapshot& snapshot) {
  if (scale_ == look.scale && run_folder_ == snapshot.run_folder) return;
  entries_.clear();
  names_.clear();
  scale_ = look.scale;
  run_folder_ = snapshot.run_folder;
}

const LabelCache::Entry& LabelCache::GetName(const Look& look, const query::Snapshot& snapshot,
                                             int32_t name) {
  ForgetOther(look, snapshot);
  const auto [found, added] = names_.try_emplace(name);
  if (!added) return found->second;
  Entry& entry = found->second;
  const std::string& text = snapshot.names[static_cast<size_t>(name)];
  entry.label.shorter = ShortKernelName(WithoutNotEnded(text));
  entry.label.full = entry.label.shorter;
  if (IsNotEnded(text)) entry.label.full += kNotEnded;
  entry.full_width = widgets::TextSize(look, LabelStyle(look, 0), entry.label.full).x;
  entry.shorter_width = widgets::TextSize(look, LabelStyle(look, 0), entry.label.shorter).x;
  return entry;
}

void DrawHatchLines(const ui::Box& box, float anchor_x, const HatchStyle& style) {
  ImDrawList* list = ImGui::GetWindowDrawList();
  const float height = box.y1 - box.y0;
  // A rising line runs from (c, y1) to (c + height, y0), a falling one from (c, y0) to
  // (c + height, y1), both for c = anchor + k * spacing.
  const float first =
      anchor_x + style.spacing / 2 +
      std::ceil((box.x0 - height - anchor_x - style.spacing / 2) / style.spacing) * style.spacing;
  for (float c = first; c < box.x1; c += style.spacing) {
    const float x0 = std::max(c, box.x0);
    const float x1 = std::min(c + height, box.x1);
    if (x1 - x0 < 0.5F) continue;
    const float y0 = style.rising ? box.y1 - (x0 - c) : box.y0 + (x0 - c);
    const float y1 = style.rising ? box.y1 - (x1 - c) : box.y0 + (x1 - c);
    list->AddLine({x0, y0}, {x1, y1}, style.color, style.thickness);
  }
}

void DrawEmulatedHatch(const Look& look, const ui::Box& box, float anchor_x) {
  DrawHatchLines(box, anchor_x, {look.Px(8), look.Px(1), look.theme.op.hatch, true});
}

void DrawStallBox(const Look& look, const ui::Box& box, float anchor_x, bool slot_wait) {
  const ui::Theme& theme = look.theme;
  // Waiting for a core is no communication: it must not look like exposed time.
  const ui::Color ground =
      slot_wait ? ui::Mix(theme.surface.panel, theme.op.wait, 0.25F) : theme.op.stall_fill;
  Fill(box, ground, 0);
  DrawHatchLines(
      box, anchor_x,
      {look.Px(4.5F), look.Px(1.5F), slot_wait ? theme.op.wait : theme.op.exposed, false});
}

void LanePainter::Draw(const LaneDraw& draw, const Lane& lane, const ui::Box& box) const {
  if (draw.dense) {
    DrawRuns(draw, box);
    DrawGaps(draw, lane, box);
    return;
  }
  const query::RankRows* rows = context.snapshot->FindRank(lane.rank);
  if (rows == nullptr) return;
  if (lane.source.kind == LaneKind::kCompute) DrawGaps(draw, lane, box);
  for (const SpanBox& span : draw.boxes) DrawSpan(span, lane, box, *rows);
  ui::Box strip = box;
  strip.y1 = strip.y0 + kCopyStripHeight * context.scale;
  for (const SpanBox& span : draw.strip) DrawSpan(span, lane, strip, *rows);
  if (lane.source.kind != LaneKind::kCompute) DrawGaps(draw, lane, box);
}

void LanePainter::DrawSpan(const SpanBox& span, const Lane& lane, const ui::Box& box,
                           const query::RankRows& rows) const {
  const float scale = context.scale;
  if (span.instant) {
    const ui::Box tick = Snap(span.x0, std::max(span.x1, span.x0 + 2 * scale), box, 0);
    Fill({tick.x0, tick.y0 + 2 * scale, tick.x1, tick.y1 - 2 * scale}, context.theme->op.host, 0);
    return;
  }
  const bool strip = lane.source.kind == LaneKind::kFolded;
  const ui::Box body = Snap(span.x0, span.x1, box, strip || span.count > 1 ? 0 : kSpanGap);
  if (body.x1 <= box.x0 || body.x0 >= box.x1) return;
  if (span.count > 1) {
    // A fold is no single span: fainter, without gaps, hatch or name.
    const ui::Color hue = ui::OpColor(*context.theme, span.op_class);
    Fill(body, ui::Mix(context.theme->surface.panel, hue, kFaintShare), 0);
    return;
  }
  if (strip) {
    Fill(body, ui::UnitShade(ui::OpColor(*context.theme, span.op_class), span.shade), 0);
    return;
  }
  const bool is_open = lane.source.rows == LaneRows::kRanges &&
                       !query::HasEnded(*context.snapshot, rows.spans[span.row]);
  if (is_open) {
    DrawOpenBody(span, body);
  } else {
    DrawBody(span, body);
  }
  ui::Box transfer = body;
  if (span.wait_x1 > span.x0) {
    transfer.x0 = std::clamp(std::round(span.wait_x1), body.x0, body.x1);
  }
  if (lane.source.rows != LaneRows::kOps) {
    DrawWork(span, lane, body, transfer, rows);
    return;
  }
  const query::OpRun& run = rows.op_runs[span.row];
  if (HasLabelRoom(transfer, scale)) {
    DrawLabel(span, transfer,
              labels->Get(widgets::LookOf(context), *context.snapshot, run.plan_op));
  }
  if (context.selection.Contains({run.id, run.rank})) DrawOutline(body);
  if (log != nullptr && log->enabled()) LogSpan(run, body);
}

void LanePainter::DrawOutline(const ui::Box& box) const {
  ImGui::GetWindowDrawList()->AddRect({box.x0 - 1, box.y0 - 1}, {box.x1 + 1, box.y1 + 1},
                                      context.theme->ink.text, kBoxRounding * context.scale,
                                      1.5F * context.scale);
}

void LanePainter::DrawWork(const SpanBox& span, const Lane& lane, const ui::Box& body,
                           const ui::Box& transfer, const query::RankRows& rows) const {
  const bool kernel = lane.source.rows == LaneRows::kWork;
  const int32_t name = kernel ? rows.gpu_work[span.row].name : rows.spans[span.row].name;
  const query::SpanId id = kernel ? rows.gpu_work[span.row].id : rows.spans[span.row].id;
  if (HasLabelRoom(transfer, context.scale)) {
    DrawLabel(span, transfer, labels->GetName(widgets::LookOf(context), *context.snapshot, name));
  }
  if (context.selection.ContainsSpan(id, lane.rank)) DrawOutline(body);
  if (log == nullptr || !log->enabled()) return;
  const int64_t duration_ns =
      kernel ? rows.gpu_work[span.row].end_ns - rows.gpu_work[span.row].start_ns
             : rows.spans[span.row].end_ns - rows.spans[span.row].start_ns;
  const std::string prefix = kernel ? "work:" : "range:";
  const std::string logged = prefix + std::to_string(lane.rank) + ":" + std::to_string(id.value());
  const std::string& text = context.snapshot->names[static_cast<size_t>(name)];
  if (IsNotEnded(text)) {
    log->Text(logged, text, body);
  } else {
    log->Int(logged, text, duration_ns, "ns", body);
  }
  if (kernel && span.wait_x1 > span.x0) {
    log->Int("wait_of_work:" + std::to_string(lane.rank) + ":" + std::to_string(id.value()), "",
             std::llround((transfer.x0 - body.x0)), "px", {body.x0, body.y0, transfer.x0, body.y1});
  }
}

// Fainter, with lines but at its right: it has no end.
void LanePainter::DrawOpenBody(const SpanBox& span, const ui::Box& box) const {
  const ui::Color hue = ui::UnitShade(ui::OpColor(*context.theme, span.op_class), span.shade);
  Fill(box, ui::Mix(context.theme->surface.panel, hue, kFaintShare), 0);
  const float line = std::max(std::round(context.scale), 1.0F);
  Fill({box.x0, box.y0, std::min(box.x0 + 2 * line, box.x1), box.y1}, hue, 0);
  Fill({box.x0, box.y0, box.x1, box.y0 + line}, hue, 0);
  Fill({box.x0, box.y1 - line, box.x1, box.y1}, hue, 0);
}

void LanePainter::DrawBody(const SpanBox& span, const ui::Box& box) const {
  const float scale = context.scale;
  const ui::Color hue = ui::UnitShade(ui::OpColor(*context.theme, span.op_class), span.shade);
  if (span.truth == query::Truth::kProjected) {
    ImGui::GetWindowDrawList()->AddRect({box.x0 + 0.5F, box.y0 + 0.5F},
                                        {box.x1 - 0.5F, box.y1 - 0.5F}, hue, kBoxRounding * scale,
                                        scale);
    return;
  }
  ui::Box transfer = box;
  if (IsCommunication(span.op_class) && span.wait_x1 > span.x0) {
    transfer.x0 = std::clamp(std::round(span.wait_x1), box.x0, box.x1);
    Fill({box.x0, box.y0, transfer.x0, box.y1}, context.theme->op.wait, 0);
  }
  if (transfer.x1 - transfer.x0 < 0.5F) return;
  Fill(transfer, hue, kBoxRounding * scale);
  if (span.truth == query::Truth::kEmulated && transfer.x1 - transfer.x0 >= 6 * scale) {
    DrawEmulatedHatch(widgets::LookOf(context), transfer, std::round(span.wait_x1));
  }
}

void LanePainter::DrawLabel(const SpanBox& span, const ui::Box& box,
                            const LabelCache::Entry& entry) const {
  const float scale = context.scale;
  const float visible = box.x1 - box.x0 - 2 * kLabelPadding * scale;
  const Look look = widgets::LookOf(context);
  const LabelFit fit = FitLabel(visible + 2 * kLabelPadding * scale - 4 * scale, entry.full_width,
                                entry.shorter_width);
  if (fit == LabelFit::kNone) return;
  // Half a name over a hatch is noise; on the plain ground of compute the cut name still helps.
  if (fit == LabelFit::kClipped && IsCommunication(span.op_class)) return;
  const std::string& text = fit == LabelFit::kFull ? entry.label.full : entry.label.shorter;
  const float width = fit == LabelFit::kFull ? entry.full_width : entry.shorter_width;
  const ui::Color ground = ui::OpColor(*context.theme, span.op_class);
  const widgets::TextStyle style = LabelStyle(look, ui::InkOn(*context.theme, ground));
  const float slack = box.x1 - box.x0 - width;
  const float x = fit == LabelFit::kClipped ? box.x0 + kLabelPadding * scale : box.x0 + slack / 2;
  const float y = (box.y0 + box.y1 - look.Px(kLabelSize)) / 2 - scale;
  const ImVec4 clip(box.x0, box.y0, box.x1 - scale, box.y1);
  ImGui::GetWindowDrawList()->AddText(style.font, look.Px(style.size),
                                      {std::round(x), std::round(y)}, style.color, text.data(),
                                      text.data() + text.size(), 0, &clip);
}

void LanePainter::DrawRuns(const LaneDraw& draw, const ui::Box& box) const {
  ImDrawList* list = ImGui::GetWindowDrawList();
  const ui::Theme& theme = *context.theme;
  // Thousands of runs have a few looks.
  constexpr size_t kLooks = 2 * words::kNumOpClasses;
  std::array<std::array<ui::Color, kDensityLevels + 1>, kLooks> colors{};
  // In parts, because indices of 16 bits end at 65,536 vertices.
  constexpr size_t kRunsAtATime = 4096;
  for (size_t first = 0; first < draw.runs.size(); first += kRunsAtATime) {
    const size_t last = std::min(first + kRunsAtATime, draw.runs.size());
    const auto count = static_cast<int>(last - first);
    list->PrimReserve(6 * count, 4 * count);
    for (size_t at = first; at < last; ++at) {
      const DensityRun& run = draw.runs[at];
      const size_t look = static_cast<size_t>(run.op_class) * 2 + (run.exposed ? 1 : 0);
      ui::Color& color = colors[look][run.level];
      if (color == 0) {
        const ui::Color hue = run.exposed ? theme.op.exposed : ui::OpColor(theme, run.op_class);
        const float share = static_cast<float>(run.level) / static_cast<float>(kDensityLevels);
        color = ui::Mix(theme.surface.panel, hue, 0.1F + 0.9F * share);
      }
      list->PrimRect({run.x0, box.y0}, {run.x1, box.y1}, color);
    }
  }
}

void LanePainter::DrawGaps(const LaneDraw& draw, const Lane& lane, const ui::Box& box) const {
  const Look look = widgets::LookOf(context);
  const LaneKind kind = lane.source.kind;
  for (const GapBox& gap : draw.gaps) {
    const ui::Box body = Snap(gap.x0, gap.x1, box, kind == LaneKind::kCompute ? kSpanGap : 0);
    if (body.x1 <= box.x0 || body.x0 >= box.x1) continue;
    if (kind == LaneKind::kCompute) {
      DrawStallBox(look, body, std::round(gap.x0), gap.slot_wait);
    } else {
      Fill(body, context.theme->op.exposed, kind == LaneKind::kExposed ? context.scale : 0);
    }
  }
}

void LanePainter::LogSpan(const query::OpRun& run, const ui::Box& box) const {
  const query::PlanOp* op = context.snapshot->FindPlanOp(run.plan_op);
  if (op == nullptr) return;
  const int64_t duration_ns = run.ended_ns - run.started_ns;
  log->Int("op_run:" + std::to_string(run.rank) + ":" + std::to_string(run.id.value()), op->name,
           duration_ns, "ns", box);
}

}  // namespace shardscope::timeline
