// Blocks: what a rank's memory was made of at one moment, as a treemap and a list: who allocated
// each block and who frees it, and what came and went since an earlier moment.
#pragma once

#include <memory>
#include <vector>

#include "trace/base/status.h"
#include "trace/query/live_blocks.h"
#include "ui/commands.h"
#include "ui/panel.h"
#include "ui/panels/blocks/choices_list.h"

namespace shardscope::panels {

class BlocksPanel : public ui::Panel {
 public:
  // Fills the current window.
  void Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) override;
  ui::TableMaker AsTable(const ui::Context& context) const override;

 private:
  struct Frame;
  static void DrawChoice(const ui::Context& context, ui::Commands* commands);
  void DrawHead(const Frame& frame) const;
  void DrawRanks(const Frame& frame) const;
  void DrawSince(const Frame& frame) const;
  void DrawTreemap(const Frame& frame);
  void DrawList(const Frame& frame, const char* id, const std::vector<query::LiveBlock>& blocks);

  // What the tiles were made of, and where they lie.
  std::shared_ptr<const Result<query::LiveBlocks>> made_of_;
  ui::Box made_in_;
  std::vector<ui::Box> tiles_;  // of the live blocks
  ClickedRow clicked_choice_;
};

}  // namespace shardscope::panels
