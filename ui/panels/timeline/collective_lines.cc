#include "ui/panels/timeline/collective_lines.h"

#include <imgui.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trace/base/text.h"
#include "trace/query/find_track.h"
#include "ui/boxes.h"
#include "ui/text.h"
#include "ui/theme.h"
#include "ui/values.h"
#include "ui/widgets/line_breaks.h"
#include "ui/widgets/look.h"

namespace shardscope::panels {
namespace {

using timeline::LaneKind;
using widgets::Look;

// nullopt: the op is no collective of several ranks, or its row has not come.
std::optional<query::Collective> CollectiveOfOp(const ui::Context& context,
                                                const TimelineOverlay::Frame& frame,
                                                const ui::SelectedOp& op) {
  const query::RankRows* rows = context.snapshot->FindRank(op.rank);
  const timeline::RankIndex* rank = frame.index.Find(op.rank);
  if (op.op_run.is_none() || rows == nullptr || rank == nullptr) return std::nullopt;
  const std::optional<query::Collective> found =
      frame.index.CollectiveOf(*rows, *rank, timeline::FindRow(*rows, op.op_run));
  const bool is_joined = found && found->kind != query::OpClass::kSendReceive;
  return is_joined && found->group_size > 1 ? found : std::nullopt;
}

// None: the mouse is on none.
ui::SelectedOp OpOf(const ui::Context& context, const timeline::Hit& hit) {
  const bool is_op = hit.kind == timeline::Hit::Kind::kSpan && hit.count == 1 &&
                     hit.lane.rows == timeline::LaneRows::kOps && hit.lane.kind != LaneKind::kHost;
  const query::RankRows* rows = is_op ? context.snapshot->FindRank(hit.rank) : nullptr;
  if (rows == nullptr || hit.row >= rows->op_runs.size()) return {};
  return {rows->op_runs[hit.row].id, hit.rank};
}

LaneKind LaneOfTrack(const query::Snapshot& snapshot, query::TrackId track) {
  const query::Track* found = query::FindTrack(snapshot, track);
  return found == nullptr ? LaneKind::kAllReduce : timeline::LaneOf(found->role);
}

}  // namespace

void CollectiveLines::Update(const ui::Context& context, const TimelineOverlay::Frame& frame,
                             const ui::SelectedOp& op) {
  if (op == op_ && version_ == frame.index.rows_version()) return;
  op_ = op;
  version_ = frame.index.rows_version();
  members_.clear();
  const std::optional<query::Collective> wanted = CollectiveOfOp(context, frame, op);
  if (!wanted) return;
  op_class_ = wanted->kind;
  for (const query::RankRows& rows : context.snapshot->ranks) {
    std::optional<query::Collective> found;
    rows.collectives.ForEachOfSteps(
        wanted->step, wanted->step, [&](const query::Collective& row, size_t) {
          const bool is_it =
              row.communicator == wanted->communicator && row.sequence == wanted->sequence;
          if (is_it) found = row;
        });
    if (!found) continue;
    const uint32_t at = timeline::FindRow(rows, found->op_run);
    if (at == timeline::kNoRow) continue;
    const query::OpRun& run = rows.op_runs[at];
    members_.push_back({rows.rank, run.started_ns});
    if (rows.rank == op.rank) lane_ = LaneOfTrack(*context.snapshot, run.track);
  }
}

const CollectiveLines::Member* CollectiveLines::Find(int32_t rank) const {
  const auto found =
      std::lower_bound(members_.begin(), members_.end(), rank,
                       [](const Member& member, int32_t wanted) { return member.rank < wanted; });
  return found == members_.end() || found->rank != rank ? nullptr : &*found;
}

void CollectiveLines::Draw(const ui::Context& context, const TimelineOverlay::Frame& frame,
                           const timeline::Hit& hovered, ui::DrawLog* log) {
  came_last_.reset();
  const ui::SelectedOp under_mouse = OpOf(context, hovered);
  const bool is_hovered = CollectiveOfOp(context, frame, under_mouse).has_value();
  Update(
      context, frame,
      is_hovered ? under_mouse : ui::SelectedOp{context.selection.op_run, context.selection.rank});
  if (members_.size() < 2) return;
  const auto by_start = [](const Member& a, const Member& b) {
    return a.started_ns < b.started_ns;
  };
  const auto [first, last] = std::minmax_element(members_.begin(), members_.end(), by_start);
  const Look look = widgets::LookOf(context);
  const ui::Color color = ui::WithAlpha(ui::OpColor(look.theme, op_class_), 0.9F);
  ImDrawList* list = ImGui::GetWindowDrawList();
  std::optional<ImVec2> before;
  for (const timeline::Lane& lane : frame.layout.lanes) {
    if (lane.source.kind != lane_ && lane.source.kind != LaneKind::kFolded) continue;
    const Member* member = Find(lane.rank);
    if (member == nullptr) continue;
    const ImVec2 at(frame.axis.X(member->started_ns), frame.origin + lane.y + lane.height / 2);
    if (before) list->AddLine(*before, at, color, look.Px(1.4F));
    before = at;
    const bool is_last = member->rank == last->rank;
    list->AddCircleFilled(at, look.Px(is_last ? 4 : 2.2F), is_last ? look.theme.state.bad : color,
                          12);
    log->Int("joined:" + std::to_string(member->rank), "", member->started_ns, "ns",
             {at.x, at.y, at.x, at.y});
    if (!is_last || last->started_ns == first->started_ns) continue;
    came_last_ = CameLast{at.x, at.y,
                          ui::TrFormat(context.language, ui::Text::kTimelineCameLast, member->rank,
                                       ui::FormatDuration(last->started_ns - first->started_ns))};
  }
}

// Left of the arrival, where the lane is still free of this collective, as far as there is room; at
// the edge where the lane is out of sight. Wrapped where it is wider than the lanes.
void CollectiveLines::DrawCameLast(const ui::Context& context, const TimelineOverlay::Frame& frame,
                                   std::span<const ui::Box> drawn, ui::DrawLog* log) const {
  if (!came_last_) return;
  const Look look = widgets::LookOf(context);
  const widgets::TextStyle style = widgets::BoldOf(look);
  const float widest = frame.axis.right() - frame.axis.left() - look.Px(8);
  const std::string broken = widgets::BreakLines(
      came_last_->text, widest,
      [&](std::string_view part) { return widgets::TextSize(look, style, part).x; });
  const std::vector<std::string_view> lines = Split(broken, '\n');
  const float line_height = widgets::TextSize(look, style, came_last_->text).y;
  ImVec2 size(0, line_height * static_cast<float>(lines.size()));
  for (const std::string_view line : lines) {
    size.x = std::max(size.x, widgets::TextSize(look, style, line).x);
  }
  const float highest = frame.box.y0 + look.Px(4);
  const float lowest = frame.box.y1 - size.y - look.Px(4);
  const float wanted = std::max(std::min(came_last_->y - size.y / 2, lowest), highest);
  const bool is_in_sight =
      came_last_->x >= frame.axis.left() && came_last_->x <= frame.axis.right();
  const float beside_x = came_last_->x - size.x - look.Px(10);
  const float x = is_in_sight ? std::max(beside_x, frame.axis.left() + look.Px(4)) : beside_x;
  const auto ground_at = [&](float y) {
    return ui::Box{x - look.Px(3), y - 1, x + size.x + look.Px(3), y + size.y + 1};
  };
  // Where it is wanted, else under or over what it would cover.
  std::vector<float> places = {wanted};
  for (const ui::Box& box : drawn) {
    places.push_back(box.y1 + look.Px(3));
    places.push_back(box.y0 - size.y - look.Px(3));
  }
  const auto place = std::ranges::find_if(places, [&](float y) {
    const auto covers = [&](const ui::Box& box) { return ui::Intersects(box, ground_at(y)); };
    const bool has_room = y == wanted || (y >= highest && y <= lowest);
    return has_room && std::ranges::none_of(drawn, covers);
  });
  if (place == places.end()) return;
  const ui::Box ground = ground_at(*place);
  ImGui::GetWindowDrawList()->AddRectFilled({ground.x0, ground.y0}, {ground.x1, ground.y1},
                                            look.theme.surface.raised, look.Px(3));
  float y = *place;
  for (const std::string_view line : lines) {
    widgets::DrawText(look, style, {x, y}, line);
    y += line_height;
  }
  log->Text("came_last", came_last_->text, {x, *place, x + size.x, y});
}

}  // namespace shardscope::panels
