// Run control: every live knob with its value in force and the pending one, the step at which it
// applies, and what the last change did.
#pragma once

#include <map>
#include <string>

#include "ui/panel.h"

namespace shardscope::panels {

class RunControlPanel : public ui::Panel {
 public:
  // Fills the current window. Keeps what is being typed into a text knob, nothing else.
  void Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) override;

 private:
  std::string path_;                           // of the run that drafts_ are for
  std::map<std::string, std::string> drafts_;  // by key
  int shown_keys_ = 0;                         // ShownKey::times when it last scrolled to one
};

}  // namespace shardscope::panels
