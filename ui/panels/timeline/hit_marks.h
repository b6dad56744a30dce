// Where the hits of the search are: a bar under each in its lane, a tick in the minimap. Also for
// the lane that a hit is in.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "ui/context.h"
#include "ui/draw_log.h"
#include "ui/panels/timeline/overlay.h"
#include "ui/timeline/axis.h"
#include "ui/timeline/lane_source.h"

namespace shardscope::panels {

// The lanes of every track. Points into the layout, which must outlive it.
class LanesOfTracks {
 public:
  LanesOfTracks(const query::Snapshot& snapshot, const timeline::Layout& layout);

  // nullptr: of a marker, which is in none, or of what is not drawn.
  const timeline::Lane* Find(const query::Snapshot& snapshot, const analysis::SearchHit& hit) const;

 private:
  // One, or those of a thread's nested ranges.
  std::unordered_map<query::TrackId, std::vector<const timeline::Lane*>> lanes_;
};

// Every hit in view; those on the same pixels as one.
void DrawHitMarks(const ui::Context& context, const TimelineOverlay::Frame& frame,
                  ui::DrawLog* log);

class MinimapHits {
 public:
  // `axis` covers the run; `box`: the minimap's.
  void Draw(const ui::Context& context, const timeline::Axis& axis, const ui::Box& box,
            ui::DrawLog* log);

 private:
  // What columns_ are of; it keeps nothing of a run that was closed.
  std::weak_ptr<const ui::FoundHits> found_;
  timeline::Range range_;
  float left_ = 0;
  float width_ = 0;

  std::vector<float> columns_;  // pixels, ascending
};

}  // namespace shardscope::panels
