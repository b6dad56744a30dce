// The time lens: a stretch of a run that is played slower than it was, with a line at its now.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "trace/analysis/moment/moment.h"

namespace shardscope::ui {

// How many seconds a second of the run may take.
inline constexpr std::array<int, 4> kLensSlowness = {10, 100, 1'000, 10'000};

struct LensState {
  bool is_on = false;
  bool plays = false;
  int slowness = kLensSlowness[1];
  int32_t step = -1;  // that is played; -1: what was in view
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  int64_t now_ns = 0;  // in [start_ns, end_ns]
  // Of that stretch; null until they are made.
  std::shared_ptr<const analysis::Moments> moments;
  std::optional<analysis::Moment> moment;  // at now_ns
};

}  // namespace shardscope::ui
