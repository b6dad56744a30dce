// Names short enough for spans, lists and call-outs. No ImGui.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/query/snapshot.h"

namespace shardscope::timeline {

// What stands on a span: "B block3.attention", and where that does not fit "B attention".
struct SpanLabel {
  std::string full;
  std::string shorter;
};
SpanLabel LabelOf(const query::PlanOp& op);

// Which of the two goes on a span whose visible part is `visible` pixels wide. kClipped: the
// shorter one, cut at the right edge.
enum class LabelFit : uint8_t { kNone, kFull, kShorter, kClipped };
LabelFit FitLabel(float visible, float full_width, float shorter_width);

// What changed at a marker: "prefetch none → pre, 0 → 1" if the keys share their first part, else
// each with its key.
std::string ChangeLabel(const std::vector<query::Marker>& markers);

// Change markers in time order, those of one step together.
struct Change {
  int64_t time_ns = 0;
  int32_t step = 0;
  std::vector<query::Marker> markers;
};
std::vector<Change> ChangesOf(const query::Snapshot& snapshot);

}  // namespace shardscope::timeline
