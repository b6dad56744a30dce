// The app in a window: the loop around Shell.
#pragma once

#include <functional>
#include <string>

#include "trace/base/status.h"

namespace shardscope::shell {

struct WindowOptions {
  std::string run;   // opened at once; empty: none
  std::string with;  // that it is compared with; empty: none
  // Where the run cannot be opened: the window comes all the same, and says why.
  bool stays_without_run = false;
  int64_t memory_bytes = 0;  // for the run; 0: as query::ReadLimits
  // Called when the first frame is on screen, with a run the first one with rows of it; then the
  // app quits. Empty: it goes on until the user quits.
  std::function<void()> first_frame_only;
  // For tests of the window: a frame takes at least so long, as with a slow renderer; and where
  // what each frame drew is written as JSON, empty: nowhere.
  double frame_seconds = 0;
  std::string draw_log;
};

// Opens the window and returns when the user quits. Errors: no display; the run cannot be opened;
// once the user quits, that it could not be imported, or, with `stays_without_run`, opened.
Status RunWindowApp(const WindowOptions& options);

}  // namespace shardscope::shell
