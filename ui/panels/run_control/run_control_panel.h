// Run control: every live knob with its value in force and the pending one; under them, in view
// however far they are scrolled, the step at which it applies, and what the last change did.
#pragma once

#include <map>
#include <string>

#include "ui/panel.h"

namespace shardscope::panels {

class RunControlPanel : public ui::Panel {
 public:
  // Fills the current window. Keeps what is being typed into a text knob, and where things stand.
  void Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) override;

 private:
  std::string path_;                           // of the run that drafts_ are for
  std::map<std::string, std::string> drafts_;  // by key
  int shown_keys_ = 0;                         // ShownKey::times when it last scrolled to one
  int frames_to_key_ = 0;                      // in which it still does
  std::string notice_;                         // that was said last
  float answer_height_ = 0;                    // that what stands under the knobs needs; pixels
};

}  // namespace shardscope::panels
