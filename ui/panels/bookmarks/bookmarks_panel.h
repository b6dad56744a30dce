// Bookmarks: the places of the run that were marked, with their notes. A click on one goes there;
// its note can be changed, its link copied, and it can be removed.
#pragma once

#include <string>

#include "ui/panel.h"

namespace shardscope::panels {

class BookmarksPanel : public ui::Panel {
 public:
  // Fills the current window.
  void Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) override;
  ui::TableMaker AsTable(const ui::Context& context) const override;

 private:
  void DrawHeader(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) const;
  void DrawBookmark(const ui::Context& context, size_t at, ui::DrawLog* log,
                    ui::Commands* commands);
  void DrawActions(const ui::Context& context, const std::string& id, ui::Commands* commands);

  std::string removing_;  // id of the one that is removed with the next click
};

}  // namespace shardscope::panels
