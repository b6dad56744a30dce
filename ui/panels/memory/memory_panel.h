// Memory: live bytes of each rank by category, stacked, on the timeline's time axis.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ui/commands.h"
#include "ui/panel.h"
#include "ui/panels/memory/memory_stack.h"
#include "ui/timeline/draw/axis_input.h"

namespace shardscope::panels {

class MemoryPanel : public ui::Panel {
 public:
  // Fills the current window.
  void Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) override;

 private:
  struct RankMemory {
    // What stack was made for.
    uint64_t version = 0;  // of the index
    std::shared_ptr<const analysis::Report> report;
    timeline::Range range;
    float left = 0;
    float width = 0;
    MemoryStack stack;
    DeviceMemory device;
  };
  struct Row {
    int32_t rank = 0;
    ui::Box box;  // of the plot
  };

  void Update(const ui::Context& context, const timeline::Axis& axis, int32_t rank);
  void KeepFirstRow(const ui::Context& context, std::vector<int32_t> ranks);
  void ScrollToRevealed(const ui::Context& context, int num_shown);
  std::vector<Row> MakeRows(const ui::Context& context, const timeline::Axis& axis,
                            const ui::Box& box);
  void DrawScrollBar(const ui::Context& context, const ui::Box& box, size_t num_shown) const;
  // At the top of the axis of all rows: a round number above all that is drawn in them.
  int64_t TopBytes(const ui::Context& context, const std::vector<Row>& rows) const;
  void DrawRow(const ui::Context& context, const timeline::Axis& axis, const Row& row,
               int64_t max_bytes, ui::DrawLog* log) const;
  void DrawDevice(const ui::Context& context, const Row& row, int64_t max_bytes,
                  ui::DrawLog* log) const;
  void DrawRowLabels(const ui::Context& context, const Row& row, int64_t max_bytes,
                     ui::DrawLog* log) const;
  void AskForBlocks(const timeline::Axis& axis, const std::vector<Row>& rows,
                    ui::Commands* commands) const;
  void HandleMouse(const ui::Context& context, const timeline::Axis& axis, const ui::Box& box,
                   const std::vector<Row>& rows, ui::DrawLog* log, ui::Commands* commands);

  std::string run_folder_;
  uint64_t generation_ = 0;
  std::map<int32_t, RankMemory> ranks_;
  timeline::AxisInput input_;
  float first_row_ = 0;         // scroll position in rows
  std::vector<int32_t> order_;  // of the ranks in these
  std::set<int32_t> pinned_;    // of them
  int shown_ = 0;               // Lanes::shown when it last scrolled to a rank
  int revealed_ = 0;            // Revealed::count likewise
  std::string put_away_;        // the error whose bar was
};

}  // namespace shardscope::panels
