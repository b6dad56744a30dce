// What explains the lanes: the arrow of the selected op from where the host issued it to where it
// began, of an all-gather on to its first use; the call-out of a stall; and the waits of GPU
// streams around the selected kernel or op.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ui/context.h"
#include "ui/draw_log.h"
#include "ui/timeline/axis.h"
#include "ui/timeline/facts.h"
#include "ui/timeline/gpu/stream_waits.h"
#include "ui/timeline/gpu/work_facts.h"
#include "ui/timeline/lane_source.h"
#include "ui/timeline/run_index.h"

namespace shardscope::panels {

class TimelineOverlay {
 public:
  struct Frame {
    const timeline::RunIndex& index;
    const timeline::Layout& layout;
    const timeline::Axis& axis;
    ui::Box box;       // of all lanes on screen
    float origin = 0;  // y on screen of Layout's 0
  };
  // The arrow of the selection; in headless pictures also the dearest stall in view, since no mouse
  // hovers there: of the rank and step that a link names, else of the first rank in sight.
  void Draw(const ui::Context& context, const Frame& frame, ui::DrawLog* log);

  // What the arrow's call-out covered in this frame; empty if there was none.
  const ui::Box& callout() const { return callout_; }

  // From the call that launched it to the kernel in this row of gpu_work.
  void DrawLaunchOf(const ui::Context& context, const Frame& frame, int32_t rank, uint32_t row,
                    ui::DrawLog* log) const;

 private:
  void DrawLaunch(const ui::Context& context, const Frame& frame, const timeline::WorkFacts& facts,
                  ui::DrawLog* log) const;
  void Update(const ui::Context& context);
  // Of an all-gather with a first use, with its slack.
  ui::Box DrawArrow(const ui::Context& context, const Frame& frame, ui::DrawLog* log) const;
  // Of any other op that did not begin when it was issued.
  void DrawIssue(const ui::Context& context, const Frame& frame, ui::DrawLog* log) const;
  void DrawStallCallout(const ui::Context& context, const Frame& frame, ui::DrawLog* log) const;

  std::string run_folder_;
  uint64_t generation_ = 0;
  ui::Box callout_;
  timeline::OpFacts facts_;   // of the selection
  timeline::WorkFacts work_;  // of the selection, if it is no op
};

// "stall 28.0 ms before B block1".
std::string StallBeforeText(const ui::Context& context, const analysis::Stall& stall);

// A line from the event that was waited for to the work that waited. One that the Schedule does not
// plan, or plans and CUPTI did not see, stands out.
class WaitLines {
 public:
  void Draw(const ui::Context& context, const TimelineOverlay::Frame& frame, ui::DrawLog* log);

 private:
  void Update(const ui::Context& context);

  // What waits_ are of. With each new report later rows are looked at too.
  std::string run_folder_;
  ui::SelectedOp op_;
  query::SpanId span_ = query::SpanId::None();
  std::shared_ptr<const analysis::Report> report_;

  std::vector<timeline::StreamWait> waits_;
};

}  // namespace shardscope::panels
