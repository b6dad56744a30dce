// Advice: the dearest causes as cards: what to change, the most that it saves, where it is seen,
// and buttons for the knobs of a training that do it.
#pragma once

#include <cstddef>

#include "ui/panel.h"

namespace shardscope::panels {

class AdvicePanel : public ui::Panel {
 public:
  void Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) override;

 private:
  struct Frame;

  static void DrawCards(const Frame& frame);
  static void DrawCard(const Frame& frame, size_t at);
  static void DrawPlaces(const Frame& frame, size_t at);
  static void DrawKnobs(const Frame& frame, size_t at);
  static void DrawUndo(const Frame& frame);
};

}  // namespace shardscope::panels
