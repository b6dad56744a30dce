// Panel: what is drawn inside one window of the app. ui/panel_list.inc lists them.
#pragma once

#include <functional>

#include "ui/context.h"
#include "ui/draw_log.h"
#include "ui/table.h"

namespace shardscope::ui {

// Makes a table out of what it holds on to, on any thread.
using TableMaker = std::function<Table()>;

class Panel {
 public:
  Panel() = default;
  virtual ~Panel() = default;
  Panel(const Panel&) = delete;
  Panel& operator=(const Panel&) = delete;

  // Once a frame in which it is in front, on the UI thread, inside its window.
  virtual void Draw(const Context& context, DrawLog* log, Commands* commands) = 0;

  // What it lists, in the order that was drawn last; null: nothing that makes a table, or not yet.
  virtual TableMaker AsTable(const Context& context) const {
    (void)context;
    return nullptr;
  }
};

}  // namespace shardscope::ui
