// How long what moves on the screen takes.
#pragma once

namespace shardscope::ui {

inline constexpr double kAnimationSeconds = 0.15;

}  // namespace shardscope::ui
