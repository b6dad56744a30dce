#include "ui/panels/timeline/wait_lines.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <array>
#include <optional>

#include "ui/timeline/geometry.h"
#include "ui/timeline/run_index.h"
#include "ui/timeline/tracks/work_facts.h"
#include "ui/widgets/look.h"

namespace shardscope::panels {
namespace {

using timeline::Lane;
using timeline::LaneKind;
using timeline::StreamWait;
using timeline::WaitEnd;
using widgets::Look;

// Height on screen of a wait's end; nullopt if its lane is folded away. Copies of op lanes are a
// strip over the all-gathers.
std::optional<float> HeightOf(const ui::Context& context, const TimelineOverlay::Frame& frame,
                              const WaitEnd& end) {
  LaneKind kind = LaneKind::kStream;
  for (const query::Track& track : context.snapshot->tracks) {
    if (end.is_op && track.id == end.track) kind = timeline::LaneOf(track.role);
  }
  const bool strip = kind == LaneKind::kCopy;
  if (strip) kind = LaneKind::kAllGather;
  for (const Lane& lane : frame.layout.lanes) {
    if (lane.rank != end.rank || lane.source.kind != kind) continue;
    if (!end.is_op && lane.source.track->track != end.track) continue;
    const float height = strip ? timeline::kCopyStripHeight * context.scale : lane.height;
    return frame.origin + lane.y + height / 2;
  }
  return std::nullopt;
}

ui::Color ColorOf(const Look& look, const StreamWait& wait) {
  return wait.differs() ? look.theme.op.exposed : look.theme.ink.text;
}

ImVec2 BezierAt(const std::array<ImVec2, 4>& points, float share) {
  const float rest = 1 - share;
  const std::array<float, 4> weights = {rest * rest * rest, 3 * rest * rest * share,
                                        3 * rest * share * share, share * share * share};
  ImVec2 at;
  for (size_t i = 0; i < points.size(); ++i) {
    at.x += weights[i] * points[i].x;
    at.y += weights[i] * points[i].y;
  }
  return at;
}

// The event is a ring where it was reached; a wait that was not seen is dotted.
void DrawLine(const Look& look, ImVec2 from, ImVec2 to, const StreamWait& wait) {
  ImDrawList* list = ImGui::GetWindowDrawList();
  const ui::Color color = ColorOf(look, wait);
  const ui::Color shadow = ui::WithAlpha(look.theme.surface.panel, 0.75F);
  const float pull = std::max((to.x - from.x) / 2, look.Px(10));
  const ImVec2 from_pull(from.x + pull, from.y);
  const ImVec2 to_pull(to.x - pull, to.y);
  if (wait.verdict == StreamWait::Verdict::kMissing) {
    constexpr int kDots = 24;
    for (int dot = 1; dot < kDots; ++dot) {
      const ImVec2 at = BezierAt({from, from_pull, to_pull, to},
                                 static_cast<float>(dot) / static_cast<float>(kDots));
      list->AddCircleFilled(at, look.Px(1.4F), color, 8);
    }
  } else {
    list->AddBezierCubic(from, from_pull, to_pull, to, shadow, look.Px(3));
    list->AddBezierCubic(from, from_pull, to_pull, to, color, look.Px(1));
  }
  list->AddCircleFilled(from, look.Px(3.5F), look.theme.surface.panel, 12);
  list->AddCircle(from, look.Px(3), color, 12, look.Px(1.3F));
  const float size = look.Px(5);
  list->AddTriangleFilled(to, {to.x - size, to.y - size * 0.6F}, {to.x - size, to.y + size * 0.6F},
                          color);
}

const char* PrefixOf(const StreamWait& wait) {
  if (wait.verdict == StreamWait::Verdict::kMissing) return "wait_missing";
  return wait.verdict == StreamWait::Verdict::kExtra ? "wait_extra" : "wait";
}

}  // namespace

void WaitLines::Update(const ui::Context& context) {
  const ui::Selection& selection = context.selection;
  const query::Snapshot& snapshot = *context.snapshot;
  const ui::SelectedOp op{selection.op_run, selection.rank};
  const bool same = run_folder_ == snapshot.run_folder && op_ == op && span_ == selection.span &&
                    report_ == context.report;
  if (same) return;
  run_folder_ = snapshot.run_folder;
  op_ = op;
  span_ = selection.span;
  report_ = context.report;
  waits_.clear();
  const query::RankRows* rows = snapshot.FindRank(selection.rank);
  if (rows == nullptr) return;
  const analysis::EdgeCheck* check = report_ == nullptr ? nullptr : &report_->edges;
  if (selection.span >= 0) {
    const uint32_t row = timeline::FindWorkRow(*rows, selection.span);
    if (row == timeline::kNoRow) return;
    waits_ = timeline::WaitsOfWork(snapshot, *context.index, check, selection.rank, row);
  } else if (selection.op_run >= 0) {
    const uint32_t row = timeline::FindRow(*rows, selection.op_run);
    if (row == timeline::kNoRow) return;
    waits_ = timeline::WaitsOfOp(snapshot, check, selection.rank, rows->op_runs[row]);
  }
}

void WaitLines::Draw(const ui::Context& context, const TimelineOverlay::Frame& frame,
                     ui::DrawLog* log) {
  Update(context);
  const Look look = widgets::LookOf(context);
  for (const StreamWait& wait : waits_) {
    const std::optional<float> from_y = HeightOf(context, frame, wait.from);
    const std::optional<float> to_y = HeightOf(context, frame, wait.to);
    if (!from_y || !to_y) continue;
    const ImVec2 from(frame.axis.X(wait.from.time_ns), *from_y);
    const ImVec2 to(frame.axis.X(wait.to.time_ns), *to_y);
    if (to.x < frame.axis.left() || from.x > frame.axis.right()) continue;
    DrawLine(look, from, to, wait);
    log->Int(fmt::format("{}:{}:{}", PrefixOf(wait), wait.from.id, wait.to.id),
             wait.from.name + " \xE2\x86\x92 " + wait.to.name, wait.to.time_ns - wait.from.time_ns,
             "ns",
             {std::min(from.x, to.x), std::min(from.y, to.y), std::max(from.x, to.x),
              std::max(from.y, to.y)});
  }
}

}  // namespace shardscope::panels
