// Draws a lane's boxes: third of a lane's three functions. UI thread; reads of the trace only
// the names of what is visible.
#pragma once

#include <string>
#include <unordered_map>

#include "ui/context.h"
#include "ui/draw_log.h"
#include "ui/timeline/labels.h"
#include "ui/timeline/lane.h"
#include "ui/widgets/look.h"

namespace shardscope::timeline {

// Labels of plan ops with their widths, so that no text is measured twice.
class LabelCache {
 public:
  struct Entry {
    SpanLabel label;
    float full_width = 0;
    float shorter_width = 0;
  };
  const Entry& Get(const widgets::Look& look, const query::Snapshot& snapshot,
                   query::PlanOpId plan_op);
  // Of a kernel or a range: index into Snapshot::names.
  const Entry& GetName(const widgets::Look& look, const query::Snapshot& snapshot, int32_t name);

 private:
  void ForgetOther(const widgets::Look& look, const query::Snapshot& snapshot);

  float scale_ = 0;
  std::string run_folder_;
  std::unordered_map<query::PlanOpId, Entry> entries_;  // by plan op
  std::unordered_map<int32_t, Entry> names_;
};

// Everything that the lanes of one frame share.
struct LanePainter {
  const ui::Context& context;
  const Axis& axis;
  ui::DrawLog* log = nullptr;
  LabelCache* labels = nullptr;

  void Draw(const LaneDraw& draw, const Lane& lane, const ui::Box& box) const;

 private:
  void DrawSpan(const SpanBox& span, const Lane& lane, const ui::Box& box,
                const query::RankRows& rows) const;
  void DrawBody(const SpanBox& span, const ui::Box& box) const;
  void DrawOpenBody(const SpanBox& span, const ui::Box& box) const;
  void DrawLabel(const SpanBox& span, const ui::Box& box, const LabelCache::Entry& entry) const;
  void DrawOutline(const ui::Box& box) const;
  // Label and outline of one that is no op.
  void DrawWork(const SpanBox& span, const Lane& lane, const ui::Box& body, const ui::Box& transfer,
                const query::RankRows& rows) const;
  void DrawRuns(const LaneDraw& draw, const ui::Box& box) const;
  void DrawGaps(const LaneDraw& draw, const Lane& lane, const ui::Box& box) const;
  void LogSpan(const query::OpRun& run, const ui::Box& box) const;
};

// Diagonal lines inside a box without a clip rectangle of their own (each would cost a draw call).
// They move with `anchor_x`. `rising`: from lower left to upper right.
struct HatchStyle {
  float spacing = 6;
  float thickness = 1;
  ui::Color color = 0;
  bool rising = true;
};
void DrawHatchLines(const ui::Box& box, float anchor_x, const HatchStyle& style);

// Over an emulated span, also in legends: thin and wide apart, so that the category's colour stays.
void DrawEmulatedHatch(const widgets::Look& look, const ui::Box& box, float anchor_x);

// How a stall is drawn, also in legends: a ground dense with falling lines.
void DrawStallBox(const widgets::Look& look, const ui::Box& box, float anchor_x, bool slot_wait);

}  // namespace shardscope::timeline
