// WindowSurface: a window with OpenGL 3.3, through GLFW. Waits for events between frames, so an
// idle app uses no CPU.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trace/base/status.h"
#include "ui/shell/backend/gui.h"
#include "ui/shell/backend/png.h"

namespace shardscope::shell {

class WindowSurface : public Surface {
 public:
  // Error: no display, or no OpenGL 3.3; names the commands that need neither.
  static Result<std::unique_ptr<WindowSurface>> Create(int width, int height,
                                                       const std::string& title);

  // Waits until an event comes, Wake() is called, or `seconds` are over.
  virtual void Wait(double seconds) = 0;

  // Any thread: ends a Wait().
  static void Wake();

  // True while something came that no frame has taken in yet: keys, the mouse, files, or a new size
  // or content of the window.
  virtual bool has_input() const = 0;
  virtual bool close_requested() const = 0;
  // Gone from the screen, while what is behind it still ends.
  virtual void Hide() = 0;
  // True when OpenGL is drawn by the CPU: frames cost enough to be rationed.
  virtual bool software() const = 0;
  // The next frame is drawn in any case, and kept.
  virtual void CaptureNext() = 0;
  // That frame's pixels, once it has ended.
  virtual Image TakeCaptured() = 0;
  // How much the desktop enlarges everything.
  virtual float content_scale() const = 0;
  // Files dropped onto the window since the last call.
  virtual std::vector<std::string> TakeDropped() = 0;
};

}  // namespace shardscope::shell
