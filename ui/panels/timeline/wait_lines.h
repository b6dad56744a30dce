// Waits of GPU streams around the selected kernel or op: a line from the event that was waited for
// to the work that waited. One that the Schedule does not plan, or plans and nobody saw, stands
// out.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ui/context.h"
#include "ui/draw_log.h"
#include "ui/panels/timeline/overlay.h"
#include "ui/timeline/tracks/stream_waits.h"

namespace shardscope::panels {

class WaitLines {
 public:
  void Draw(const ui::Context& context, const TimelineOverlay::Frame& frame, ui::DrawLog* log);

 private:
  void Update(const ui::Context& context);

  // What waits_ are of. With each new report later rows are looked at too.
  std::string run_folder_;
  ui::SelectedOp op_;
  int64_t span_ = -1;
  std::shared_ptr<const analysis::Report> report_;

  std::vector<timeline::StreamWait> waits_;
};

}  // namespace shardscope::panels
