// Advice: the dearest causes as cards: what to change, the most that it saves, where it is seen,
// and buttons for the knobs of a training that do it.
#pragma once

#include <vector>

#include "ui/advice.h"
#include "ui/panel.h"

namespace shardscope::panels {

class AdvicePanel : public ui::Panel {
 public:
  void Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) override;

 private:
  struct Frame;

  void DrawCards(const Frame& frame);
  void DrawCard(const Frame& frame, size_t at);
  static void DrawPlaces(const Frame& frame, size_t at);
  void DrawKnobs(const Frame& frame, size_t at);
  void DrawUndo(const Frame& frame);

  std::string run_folder_;               // that turned_ is of
  std::vector<ui::AdvisedKnob> turned_;  // by a button here, the newest last
};

}  // namespace shardscope::panels
