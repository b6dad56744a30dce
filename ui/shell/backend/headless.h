// HeadlessSurface: frames without display and GPU: an EGL surfaceless context, a framebuffer
// object, and its pixels.
#pragma once

#include <memory>

#include "trace/base/status.h"
#include "ui/shell/backend/gui.h"
#include "ui/shell/backend/png.h"

namespace shardscope::shell {

class HeadlessSurface : public Surface {
 public:
  // Error: no EGL here, or no OpenGL 3.3.
  static Result<std::unique_ptr<HeadlessSurface>> Create(int width, int height);

  // Of the frame that EndFrame() drew last.
  virtual Image Read() = 0;
};

// Draws nothing, for tests of state alone: acknowledges textures and gives a fixed size
// and clock.
class NullSurface : public Surface {
 public:
  NullSurface(int width, int height) : width_(width), height_(height) {}
  void BeginFrame() override;
  void EndFrame() override;

 private:
  int width_;
  int height_;
};

}  // namespace shardscope::shell
