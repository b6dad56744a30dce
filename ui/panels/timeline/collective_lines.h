// Lines that join one collective over the lanes of all ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ui/panels/timeline/overlay.h"
#include "ui/timeline/lane.h"

namespace shardscope::panels {

class CollectiveLines {
 public:
  // From arrival to arrival, in the order of the lanes; the rank that came last is marked. Of
  // `hovered`, or, where that is no collective, of the selected op. Nothing for sends and receives,
  // which have lines of their own.
  void Draw(const ui::Context& context, const TimelineOverlay::Frame& frame,
            const timeline::Hit& hovered, ui::DrawLog* log);
  // After it and whatever may cross it: how long the first one waited for the last. It keeps clear
  // of `drawn`, boxes of labels, and is left out where there is no room for that.
  void DrawCameLast(const ui::Context& context, const TimelineOverlay::Frame& frame,
                    std::span<const ui::Box> drawn, ui::DrawLog* log) const;

 private:
  struct Member {
    int32_t rank = 0;
    int64_t started_ns = 0;
  };
  void Update(const ui::Context& context, const TimelineOverlay::Frame& frame,
              const ui::SelectedOp& op);
  const Member* Find(int32_t rank) const;

  // What members_ are of.
  ui::SelectedOp op_;
  uint64_t version_ = 0;

  std::vector<Member> members_;  // by rank; empty: it is none
  struct CameLast {
    float x = 0;
    float y = 0;
    std::string text;
  };
  std::optional<CameLast> came_last_;  // of the lines drawn last
  timeline::LaneKind lane_ = timeline::LaneKind::kAllGather;
  query::OpClass op_class_ = query::OpClass::kAllGather;
};

}  // namespace shardscope::panels
