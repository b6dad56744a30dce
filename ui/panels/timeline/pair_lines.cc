#include "ui/panels/timeline/pair_lines.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trace/analysis/names.h"
#include "ui/theme.h"
#include "ui/widgets/look.h"

namespace shardscope::panels {
namespace {

using timeline::LaneKind;
using widgets::Look;

constexpr float kLeastPixels = 10;  // between sends of a lane, on average
constexpr std::pair<LaneKind, LaneKind> kPairs[] = {
    {LaneKind::kSendActivation, LaneKind::kReceiveActivation},
    {LaneKind::kSendGradient, LaneKind::kReceiveGradient}};

// The middle of the rank's lane on screen, of a folded rank that of its only one; nullopt: none.
std::optional<float> MiddleOf(const TimelineOverlay::Frame& frame, int32_t rank, LaneKind kind) {
  for (const timeline::Lane& lane : frame.layout.lanes) {
    const bool shows = lane.source.kind == kind || lane.source.kind == LaneKind::kFolded;
    if (lane.rank == rank && shows) return frame.origin + lane.y + lane.height / 2;
  }
  return std::nullopt;
}

struct PairLine {
  ImVec2 from;
  ImVec2 to;
};

void DrawPairLine(const Look& look, const PairLine& line) {
  ImDrawList* list = ImGui::GetWindowDrawList();
  const ui::Color color = ui::WithAlpha(look.theme.op.send_receive, 0.8F);
  const float pull = (line.to.y - line.from.y) * 0.4F;
  list->AddBezierCubic(line.from, {line.from.x, line.from.y + pull}, {line.to.x, line.to.y - pull},
                       line.to, color, look.Px(1.2F));
  list->AddCircleFilled(line.to, look.Px(2.5F), color, 10);
}

// All sends of one lane.
void DrawLane(const ui::Context& context, const TimelineOverlay::Frame& frame,
              const timeline::RankIndex& rank, std::pair<LaneKind, LaneKind> pair,
              ui::DrawLog* log) {
  const timeline::SpanColumn& sends = rank.column(pair.first);
  if (sends.empty()) return;
  const query::RankRows* rows = context.snapshot->FindRank(rank.rank);
  const std::optional<float> from_y = MiddleOf(frame, rank.rank, pair.first);
  if (rows == nullptr || !from_y) return;
  const size_t first = sends.FirstTouching(frame.axis.range().start_ns);
  const size_t last = sends.FirstStartingAt(frame.axis.range().end_ns);
  const Look look = widgets::LookOf(context);
  const float room = (frame.axis.right() - frame.axis.left()) / look.Px(kLeastPixels);
  if (last <= first || static_cast<float>(last - first) > room) return;
  for (size_t at = first; at < last; ++at) {
    const timeline::Span send = sends[at];
    const std::optional<query::Collective> collective =
        frame.index.CollectiveOf(*rows, rank, send.row);
    if (!collective) continue;
    const timeline::OpPlace* receiver = frame.index.ReceiverOf(*collective);
    const query::RankRows* to_rows =
        receiver == nullptr ? nullptr : context.snapshot->FindRank(receiver->rank);
    if (to_rows == nullptr) continue;
    const std::optional<float> to_y = MiddleOf(frame, receiver->rank, pair.second);
    if (!to_y || *to_y == *from_y) continue;
    const query::OpRun& receive = to_rows->op_runs[receiver->row];
    const PairLine line = {{frame.axis.X(send.start_ns), *from_y},
                           {frame.axis.X(receive.ended_ns), *to_y}};
    DrawPairLine(look, line);
    const query::PlanOp* op = context.snapshot->FindPlanOp(rows->op_runs[send.row].plan_op);
    log->Int(fmt::format("pair:{}:{}", rank.rank, send.row),
             fmt::format("{} {} \xE2\x86\x92 {}", op == nullptr ? "" : analysis::ShortName(*op),
                         rank.rank, receiver->rank),
             receive.ended_ns - send.start_ns, "ns",
             {std::min(line.from.x, line.to.x), std::min(line.from.y, line.to.y),
              std::max(line.from.x, line.to.x), std::max(line.from.y, line.to.y)});
  }
}

}  // namespace

void DrawPairLines(const ui::Context& context, const TimelineOverlay::Frame& frame,
                   ui::DrawLog* log) {
  for (const timeline::RankIndex& rank : frame.index.ranks()) {
    for (const auto& pair : kPairs) DrawLane(context, frame, rank, pair, log);
  }
}

}  // namespace shardscope::panels
