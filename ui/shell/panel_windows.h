// The panels of the app: which there are, where each is docked, and the frame drawn around each.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>

#include "ui/context.h"
#include "ui/draw_log.h"
#include "ui/shell/layout.h"
#include "ui/text.h"

namespace shardscope::shell {

struct PanelWindow {
  const char* id;  // "timeline": what FocusPanel and the draw log call it
  ui::Text title;
  DockSlot slot;
};
std::span<const PanelWindow> PanelWindows();

// "Timeline###timeline": the part after ### is the window's identity in every language.
std::string WindowName(const PanelWindow& panel, ui::Language language);

struct Panels;

// Owns the panels and draws them into the dock space.
class PanelFrames {
 public:
  PanelFrames();
  ~PanelFrames();

  // `focus`: id of a panel to bring to the front, or empty. false: it is not in front yet, for the
  // layout that was remembered is still being restored; ask for it again in the next frame.
  bool Draw(const ui::Context& context, const std::string& focus, ui::DrawLog* log,
            ui::Commands* commands);

 private:
  void DrawOne(const ui::Context& context, size_t index, ui::DrawLog* log, ui::Commands* commands);

  std::unique_ptr<Panels> panels_;
  // Whether each panel's tab was in front in the last frame: its label is bright then.
  std::array<bool, 16> in_front_{};
  int focused_frames_ = 0;  // in which the panel that is asked for was in front
};

}  // namespace shardscope::shell
