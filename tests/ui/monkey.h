// Monkey: uses the app as nobody would: clicks, drags, turns the wheel, presses keys and types at
// random, half of the time on something that was drawn. Test support.
#pragma once

#include <imgui.h>

#include <cstdint>
#include <random>
#include <string>

#include "tests/ui/harness.h"

namespace shardscope::ui_test {

class Monkey {
 public:
  // `harness` outlives it. Runs that stand still see the same actions for the same seed.
  Monkey(Harness* harness, uint64_t seed) : harness_(*harness), random_(seed) {}

  // Does something, and draws the frames that take it in. Returns what it was.
  std::string Act();

 private:
  int Pick(int count);  // 0 to count - 1
  ImVec2 PickPlace(std::string* name);
  std::string Click();
  std::string Drag();
  std::string TurnWheel();
  std::string PressKey();
  std::string Type();
  std::string Resize();

  Harness& harness_;
  std::mt19937_64 random_;
};

}  // namespace shardscope::ui_test
