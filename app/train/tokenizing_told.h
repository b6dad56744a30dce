// What shardscope-train says of text that is tokenised, which it does before the run has a folder.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace shardscope::app {

class TokenizingTold {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // The line that is due at `now`, when `done` of `all` bytes are tokens; empty: none. Nothing is
  // said of what takes less than a second, and the rest every five; it begins anew where `done` is
  // 0.
  std::string LineAt(Time now, int64_t done, int64_t all);

 private:
  Time next_{};
};

}  // namespace shardscope::app
