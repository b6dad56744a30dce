#include "ui/panels/timeline/hit_marks.h"

#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "ui/theme.h"
#include "ui/timeline/run_index.h"
#include "ui/widgets/look.h"

namespace shardscope::panels {
namespace {

using analysis::HitKind;
using analysis::SearchHit;
using timeline::Lane;
using timeline::LaneKind;
using timeline::LaneRows;

constexpr float kMarkHeight = 3;
constexpr float kMarkWidth = 2;  // at least
constexpr float kTickHeight = 5;

// Whether this lane of a thread's nested ranges has the hit.
bool HasRange(const Lane& lane, const query::Snapshot& snapshot, const SearchHit& hit) {
  const query::RankRows* rows = snapshot.FindRank(hit.rank);
  const timeline::SpanColumn& spans = *lane.source.spans;
  for (size_t at = spans.FirstStartingAt(hit.start_ns); at < spans.size(); ++at) {
    const timeline::Span span = spans[at];
    if (span.start_ns != hit.start_ns) break;
    if (rows != nullptr && span.row < rows->spans.size() && rows->spans[span.row].id == hit.span) {
      return true;
    }
  }
  return false;
}

// Draws marks that come by start; one that ends where the last one of its lane did is in it.
class Marks {
 public:
  explicit Marks(const ui::Context& context) : scale_(context.scale), color_(ColorOf(context)) {}

  static ui::Color ColorOf(const ui::Context& context) { return context.theme->state.accent; }

  void Draw(const TimelineOverlay::Frame& frame, const Lane& lane, const SearchHit& hit) {
    const float x0 = std::max(std::round(frame.axis.X(hit.start_ns)), frame.box.x0);
    // As its span, one whose end was not seen goes on to the end of the view.
    const float end_x = hit.has_end ? std::round(frame.axis.X(hit.end_ns)) : frame.box.x1;
    const float x1 = std::min(std::max(end_x, x0 + kMarkWidth * scale_), frame.box.x1);
    const auto [end, is_first] = ends_.try_emplace(&lane, x1);
    if (!is_first && x1 <= end->second) return;
    end->second = x1;
    const float bottom = frame.origin + lane.y + lane.height;
    ImGui::GetWindowDrawList()->AddRectFilled({x0, bottom - kMarkHeight * scale_}, {x1, bottom},
                                              color_);
    ++drawn_;
  }

  // Over all lanes.
  void DrawMoment(const TimelineOverlay::Frame& frame, const SearchHit& hit) {
    const float x = std::round(frame.axis.X(hit.start_ns));
    ImGui::GetWindowDrawList()->AddRectFilled({x, frame.box.y0},
                                              {x + kMarkWidth * scale_, frame.box.y1}, color_);
    ++drawn_;
  }

  int64_t drawn() const { return drawn_; }

 private:
  const float scale_;
  const ui::Color color_;
  std::unordered_map<const Lane*, float> ends_;
  int64_t drawn_ = 0;
};

}  // namespace

LanesOfTracks::LanesOfTracks(const query::Snapshot& snapshot, const timeline::Layout& layout) {
  std::map<std::pair<int32_t, LaneKind>, const Lane*> of_ops;
  for (const Lane& lane : layout.lanes) {
    if (lane.source.kind == LaneKind::kFolded || lane.source.rows == LaneRows::kOps) {
      of_ops[{lane.rank, lane.source.kind}] = &lane;
    } else if (lane.source.track != nullptr) {
      lanes_[lane.source.track->track].push_back(&lane);
    }
  }
  for (const query::Track& track : snapshot.tracks) {
    if (lanes_.contains(track.id)) continue;
    auto lane = of_ops.find({track.rank, LaneKind::kFolded});
    if (lane == of_ops.end()) lane = of_ops.find({track.rank, timeline::LaneThatShows(track.role)});
    if (lane != of_ops.end()) lanes_[track.id].push_back(lane->second);
  }
}

const Lane* LanesOfTracks::Find(const query::Snapshot& snapshot, const SearchHit& hit) const {
  const auto found = lanes_.find(hit.track);
  if (hit.what == HitKind::kMarker || found == lanes_.end()) return nullptr;
  const std::vector<const Lane*>& lanes = found->second;
  if (lanes.size() == 1) return lanes.front();
  const auto lane = std::find_if(lanes.begin(), lanes.end(),
                                 [&](const Lane* one) { return HasRange(*one, snapshot, hit); });
  return lane == lanes.end() ? nullptr : *lane;
}

void DrawHitMarks(const ui::Context& context, const TimelineOverlay::Frame& frame,
                  ui::DrawLog* log) {
  if (context.search.found == nullptr || context.search.found->result.hits.empty()) return;
  const analysis::SearchResult& result = context.search.found->result;
  const timeline::Range& range = frame.axis.range();
  const LanesOfTracks lanes(*context.snapshot, frame.layout);
  Marks marks(context);
  // What begins before the view may reach into it.
  auto hit = std::partition_point(result.hits.begin(), result.hits.end(), [&](const auto& one) {
    return one.start_ns < range.start_ns - result.longest_ns;
  });
  for (; hit != result.hits.end() && hit->start_ns < range.end_ns; ++hit) {
    if (hit->has_end && hit->end_ns < range.start_ns) continue;
    if (hit->what == HitKind::kMarker) marks.DrawMoment(frame, *hit);
    const Lane* lane = lanes.Find(*context.snapshot, *hit);
    if (lane != nullptr) marks.Draw(frame, *lane, *hit);
  }
  log->Int("hits_lit", "", marks.drawn(), "", frame.box);
}

void MinimapHits::Draw(const ui::Context& context, const timeline::Axis& axis, const ui::Box& box,
                       ui::DrawLog* log) {
  if (context.search.found == nullptr || context.search.found->result.hits.empty()) return;
  const bool stale = found_.lock() != context.search.found || range_ != axis.range() ||
                     left_ != axis.left() || width_ != axis.width();
  if (stale) {
    found_ = context.search.found;
    range_ = axis.range();
    left_ = axis.left();
    width_ = axis.width();
    columns_.clear();
    for (const SearchHit& hit : context.search.found->result.hits) {
      const float x = std::round(axis.X(hit.start_ns));
      if (columns_.empty() || x > columns_.back()) columns_.push_back(x);
    }
  }
  const float height = kTickHeight * context.scale;
  for (const float x : columns_) {
    ImGui::GetWindowDrawList()->AddRectFilled({x, box.y1 - height}, {x + 1, box.y1},
                                              Marks::ColorOf(context));
  }
  log->Int("minimap_hits", "", static_cast<int64_t>(columns_.size()), "", box);
}

}  // namespace shardscope::panels
