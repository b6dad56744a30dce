// The panels of the app: which there are, where each is docked, and the frame drawn around each.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ui/context.h"
#include "ui/draw_log.h"
#include "ui/panel.h"
#include "ui/shell/layout.h"
#include "ui/text.h"

namespace shardscope::shell {

struct PanelWindow {
  const char* id;  // "timeline": what FocusPanel and the draw log call it
  ui::Text title;
  DockSlot slot;
  std::unique_ptr<ui::Panel> (*make)();
};
std::span<const PanelWindow> PanelWindows();

// "Timeline###timeline": the part after ### is the window's identity in every language.
std::string WindowName(const PanelWindow& panel, ui::Language language);

// Owns the panels and draws them into the dock space.
class PanelFrames {
 public:
  PanelFrames();

  // `focus`: id of a panel to bring to the front, or empty. false: it is not in front yet, for the
  // layout that was remembered is still being restored; ask for it again in the next frame.
  bool Draw(const ui::Context& context, const std::string& focus, ui::DrawLog* log,
            ui::Commands* commands);

 private:
  void DrawOne(const ui::Context& context, size_t index, ui::DrawLog* log, ui::Commands* commands);

  struct Frame {
    std::unique_ptr<ui::Panel> panel;
    bool in_front = false;  // in the last frame: its tab's label is bright then
  };

  std::vector<Frame> frames_;  // in the order of PanelWindows()
  int focused_frames_ = 0;     // in which the panel that is asked for was in front
};

}  // namespace shardscope::shell
