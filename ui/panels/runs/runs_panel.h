// Runs: open a run, one of the recent or live ones, or start a new one from a form with every key;
// where none is open also the start page, with cards of what can be begun with one click.
#pragma once

#include <cstdint>
#include <string>

#include "ui/language.h"
#include "ui/panel.h"
#include "ui/panels/runs/new_run_form.h"

namespace shardscope::panels {

struct PanelFrame;

class RunsPanel : public ui::Panel {
 public:
  // Fills the current window. Keeps what is being typed, nothing else.
  void Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) override;

 private:
  void DrawOpen(const PanelFrame& frame);
  void DrawStartingPoint(const PanelFrame& frame);
  void DrawFolder(const PanelFrame& frame);
  void DrawKeyField(const PanelFrame& frame, const config::KeyInfo& key);
  void DrawKey(const PanelFrame& frame, const config::KeyInfo& key);
  void DrawKeys(const PanelFrame& frame);
  void DrawStart(const PanelFrame& frame);
  void DrawChanged(const PanelFrame& frame);
  void DrawCards(const PanelFrame& frame);
  void DrawNewRun(const PanelFrame& frame);
  // What keeps a folder from taking a run; empty if nothing does. Read once a second, not in each
  // frame: it lists the folder.
  const std::string& FolderError(const PanelFrame& frame, const std::string& folder);

  std::string open_path_;
  std::string folder_;
  struct CheckedFolder {
    std::string folder;
    ui::Language language = ui::Language::kEnglish;
    int64_t second = -1;
    std::string error;
  } checked_;
  std::string search_;
  int shown_keys_ = 0;         // ShownKey::times when it last showed one
  bool reveals_form_ = false;  // scrolls to it
  bool wants_path_ = false;    // its field is to have the keyboard
  bool entered_path_ = false;  // Enter was pressed in it in the last frame
  bool wants_search_ = false;  // likewise
  int typed_into_ = 0;         // TypedInto::times in the last frame
  bool only_changed_ = false;  // of the keys
  NewRunForm form_;
};

}  // namespace shardscope::panels
