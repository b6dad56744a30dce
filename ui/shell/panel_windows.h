// The panels of the app: which there are, where each is docked, the frame drawn around each,
// and the default layout.
#pragma once

#include <imgui.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ui/context.h"
#include "ui/draw_log.h"
#include "ui/panel.h"
#include "ui/panel_list.h"
#include "ui/text.h"

namespace shardscope::shell {

// Part of the name of the layout file: raise it when the default layout changes, so that old files
// are not used.
inline constexpr int kLayoutVersion = 5;

// Splits the dock space as in the default layout and puts every panel of ui/panel_list.inc into its
// slot.
void BuildDefaultLayout(ImGuiID dock_space, ImVec2 size, float scale);

// What columns are as wide as they are for: the dock space and the scale of the text.
struct ColumnsFor {
  float width = 0;  // 0: not known, of a layout that was remembered
  float scale = 0;
  bool operator==(const ColumnsFor&) const = default;
};

// How wide the columns are at scale 1 where the window has room. 0: not known.
struct WantedColumns {
  float left = 0;
  float right = 0;
};

// The left and the right column grow and shrink with the text in them, wherever their edges were
// dragged to, and leave the timeline its part of a window that becomes smaller; in one that becomes
// larger again they are as they were. false: there are no columns yet.
bool FitColumns(const ColumnsFor& before, const ColumnsFor& now, WantedColumns* wanted);

struct PanelWindow {
  const char* id;  // "timeline": what FocusPanel and the draw log call it
  ui::Text title;
  ui::DockSlot slot;
  bool has_table;  // while it lists something
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

  // Brings a panel to the front. The keyboard stays where it is, unless the panel that is behind
  // this one now had it.
  static void Raise(std::string_view id);

  // Raise(), where that does not hide the panel that has the keyboard, or the lesson that asks for
  // what is done.
  void RaiseBesideUse(std::string_view id) const;

  // In the last frame, of its tabs.
  bool IsInFront(std::string_view id) const;
  // All that are, in the order of PanelWindows().
  std::vector<std::string_view> InFront() const;
  // The panel that had the keyboard last; empty: none has had it.
  std::string_view focused() const { return focused_; }
  // The one that had it in the last frame, or whose popup did; empty: none, as while the top bar or
  // the search has it.
  std::string_view with_keyboard() const { return has_keyboard_ ? focused_ : std::string_view(); }
  // Panel::AsTable() of that panel.
  ui::TableMaker TableOf(std::string_view id, const ui::Context& context) const;
  // Whether it is what is seen at this place of the window.
  bool IsUnder(std::string_view id, ImVec2 at) const;

 private:
  void DrawOne(const ui::Context& context, size_t index, ui::DrawLog* log, ui::Commands* commands);

  struct Frame {
    std::unique_ptr<ui::Panel> panel;
    bool in_front = false;  // in the last frame: its tab's label is bright then
  };

  std::vector<Frame> frames_;  // in the order of PanelWindows()
  std::string_view focused_;   // id
  bool has_keyboard_ = false;  // `focused_`, in the last frame
  int focused_frames_ = 0;     // in which the panel that is asked for was in front
};

}  // namespace shardscope::shell
