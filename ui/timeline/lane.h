// A lane's spans as small draw structs in pixels: second of a lane's three functions; and what
// is under the mouse, by binary search in the columns. Any thread; no ImGui.
#pragma once

#include <cstdint>
#include <vector>

#include "ui/timeline/axis.h"
#include "ui/timeline/lane_source.h"
#include "ui/timeline/run_index.h"

namespace shardscope::timeline {

struct SpanBox {
  float x0 = 0;
  float x1 = 0;
  float wait_x1 = 0;   // end of a collective's waiting part; x0 if there is none
  uint32_t row = 0;    // by LaneSource::rows; of the first span if several folded into one
  uint32_t count = 1;  // > 1: that many spans too narrow to tell apart
  query::OpClass op_class = query::OpClass::kHost;
  uint8_t shade = 0;
  query::Truth truth = query::Truth::kMeasured;
  bool instant = false;
};

// Columns of a coarse view with the same look: hue = class that fills most, lightness = busy share.
struct DensityRun {
  float x0 = 0;
  float x1 = 0;
  query::OpClass op_class = query::OpClass::kHost;
  uint8_t level = 0;     // 1 ... kDensityLevels
  bool exposed = false;  // folded ranks: exposed communication fills most
};
inline constexpr int kDensityLevels = 8;

// A stall in the compute lane; in the exposed lane and in folded ranks exposed communication.
struct GapBox {
  float x0 = 0;
  float x1 = 0;
  uint32_t stall = 0;      // of RankIndex::stalls, in the compute lane
  bool slot_wait = false;  // waited for a core, not for communication
};

struct LaneDraw {
  bool dense = false;
  std::vector<SpanBox> boxes;    // if not dense
  std::vector<SpanBox> strip;    // copies, over the all-gathers
  std::vector<GapBox> gaps;      // if dense, only stalls of kMinStall and more
  std::vector<DensityRun> runs;  // if dense
};

// `rows`: of the lane's rank. `was_dense`: how this lane was drawn last, so that it does not
// flicker between the two near the border (one notch of the wheel apart).
LaneDraw Preprocess(const RunIndex& index, const query::RankRows& rows, const LaneSource& lane,
                    const Axis& axis, bool was_dense);

// Whether spans get density columns: when they are narrower than kMinRectangle on average.
bool DrawDense(const SpanColumn& column, const Axis& axis, bool was_dense);

struct Hit {
  enum class Kind : uint8_t { kNothing, kSpan, kStall, kExposed };
  Kind kind = Kind::kNothing;
  int32_t rank = 0;
  LaneSource lane;
  uint32_t row = kNoRow;  // by LaneSource::rows, for a span
  uint32_t stall = 0;     // of RankIndex::stalls, for a stall
  uint32_t count = 1;     // spans that share these pixels; > 1: zoom in to tell them apart
  Range range;            // of the span, the stall, the exposed part or all `count` spans
};

// `x` in pixels of the window, `y` from the top of the first rank.
Hit HitTest(const Layout& layout, const Axis& axis, float x, float y);

// The rank whose block contains `y`; nullptr if none.
const RankBlock* RankAt(const Layout& layout, float y);

}  // namespace shardscope::timeline
