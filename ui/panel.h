// Panel: what is drawn inside one window of the app. ui/shell/panel_windows.cc lists them.
#pragma once

#include "ui/context.h"
#include "ui/draw_log.h"

namespace shardscope::ui {

class Panel {
 public:
  Panel() = default;
  virtual ~Panel() = default;
  Panel(const Panel&) = delete;
  Panel& operator=(const Panel&) = delete;

  // Once a frame in which it is in front, on the UI thread, inside its window.
  virtual void Draw(const Context& context, DrawLog* log, Commands* commands) = 0;
};

}  // namespace shardscope::ui
