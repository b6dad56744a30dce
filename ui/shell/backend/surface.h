// Surface: where frames go. The shell draws the same into a window, into a headless picture, or
// into nothing (tests). UI thread only; the Dear ImGui context must exist before a surface is made
// and outlive it.
#pragma once

namespace shardscope::shell {

class Surface {
 public:
  virtual ~Surface() = default;

  // Events in, ImGui::NewFrame() ready to be called.
  virtual void BeginFrame() = 0;
  // After ImGui::Render().
  virtual void EndFrame() = 0;
};

}  // namespace shardscope::shell
