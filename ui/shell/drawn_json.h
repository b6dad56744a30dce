// What was drawn, as JSON: `shardscope shot --json`, and `shardscope open --draw-log` for those who
// drive the window.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ui/commands.h"
#include "ui/context.h"
#include "ui/draw_log.h"

namespace shardscope::shell {

struct DrawnPage {
  std::string run;  // its name
  int width = 0;    // pixels
  int height = 0;
  ui::Language language = ui::Language::kEnglish;
  ui::ThemeName theme = ui::ThemeName::kDark;
  // Of a window: its frames are counted, its view and scale change.
  struct Window {
    int64_t frame = 0;
    float scale = 1;
    ui::View view;
  };
  std::optional<Window> window;
};

// Every item with its text, value, unit and box.
std::string PrintDrawn(const DrawnPage& page, const ui::DrawLog& log);

}  // namespace shardscope::shell
