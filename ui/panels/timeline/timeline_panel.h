// Timeline: minimap, step ruler and the lanes of every rank on one time axis.
#pragma once

#include <imgui.h>

#include <map>
#include <set>
#include <string>
#include <tuple>

#include "ui/commands.h"
#include "ui/context.h"
#include "ui/panel.h"
#include "ui/panels/timeline/collective_lines.h"
#include "ui/panels/timeline/header.h"
#include "ui/panels/timeline/overlay.h"
#include "ui/panels/timeline/rank_drag.h"
#include "ui/timeline/draw/axis_input.h"
#include "ui/timeline/draw/draw_lane.h"
#include "ui/timeline/lane.h"
#include "ui/timeline/run_index.h"

namespace shardscope::panels {

// Name, duration and the one fact that matters.
struct TooltipText {
  std::string title;  // empty: no tooltip
  std::string detail;
  bool warns = false;  // a stall or exposed communication
};
TooltipText TooltipOf(const ui::Context& context, const timeline::RunIndex& index,
                      const timeline::Hit& hit);

// Of the pause of `rank` at `x`, if there is one.
TooltipText TooltipOfPause(const ui::Context& context, const timeline::Axis& axis, int32_t rank,
                           float x);

class TimelinePanel : public ui::Panel {
 public:
  // Fills the current window. Keeps what it computed from frame to frame, nothing else.
  void Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) override;

 private:
  struct LaneKey {
    uint64_t version = 0;
    timeline::Range range;
    float left = 0;
    float width = 0;
    bool operator==(const LaneKey&) const = default;
  };
  struct CachedLane {
    LaneKey key;
    timeline::LaneDraw draw;
  };

  void UpdateLayout(const ui::Context& context, float mouse_y);
  const timeline::LaneDraw& LaneDrawOf(const ui::Context& context, const timeline::Lane& lane,
                                       const timeline::Axis& axis);
  void DrawLanes(const ui::Context& context, const timeline::Axis& axis, const ui::Box& box,
                 ui::DrawLog* log);
  void DrawGutter(const ui::Context& context, const ui::Box& box, ui::DrawLog* log);
  void DrawChannel(const ui::Context& context, const timeline::Lane& lane, ImVec2 right_middle,
                   ui::DrawLog* log);
  void HandleMouse(const ui::Context& context, const timeline::Axis& axis, const ui::Box& box,
                   ui::Commands* commands);
  void HandleGutter(const ui::Context& context, float y, ui::Commands* commands);
  void DrawTooltip(const ui::Context& context, ui::DrawLog* log) const;
  void HandleScroll(const ui::Context& context, const timeline::Axis& axis, const ui::Box& box);
  void ScrollToRevealed(const ui::Context& context, const ui::Box& box);
  void ScrollToRank(const ui::Context& context, float height);
  void Select(const ui::Context& context, const timeline::Hit& hit, ui::Commands* commands) const;
  void DrawScrollBar(const ui::Context& context, const ui::Box& box) const;

  const timeline::RunIndex* index_ = nullptr;  // the context's, during Draw()
  timeline::Layout layout_;
  timeline::LabelCache labels_;
  timeline::AxisInput input_;
  RankDrag rank_drag_;
  TimelineHeader header_;
  TimelineOverlay overlay_;
  CollectiveLines collective_lines_;
  WaitLines wait_lines_;
  std::string path_;  // of the run that lanes_, layout_ and scroll_ are of
  // By rank, kind, track and level.
  std::map<std::tuple<int32_t, timeline::LaneKind, query::TrackId, uint16_t>, CachedLane> lanes_;
  timeline::Hit hovered_;  // of this frame
  TooltipText tooltip_;    // of this frame
  float scroll_ = 0;
  int revealed_ = 0;   // Revealed::count when it last scrolled
  int shown_ = 0;      // Lanes::shown when it last scrolled to a rank
  float height_ = -1;  // of the lanes in the frame before
  std::set<int32_t> pinned_;
};

}  // namespace shardscope::panels
