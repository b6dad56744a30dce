// What shardscope-train prints on standard output while it trains: one updating line on a terminal,
// plain lines otherwise.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "engine/runtime/trainer.h"

namespace shardscope::app {

// Threads: one call at a time.
class TrainProgress {
 public:
  // `on_no_reader` is called when a line found nobody to read it.
  explicit TrainProgress(std::function<void()> on_no_reader);

  void OnStep(const runtime::StepReport& report);
  void OnMessage(const std::string& text);

  // While the trace is finished: says so once that has taken a second.
  void OnFinishing(int percent);

  // Leaves the updating line; call before printing anything else.
  void Close();

 private:
  void Flush();

  const std::function<void()> on_no_reader_;
  const bool is_terminal_;
  bool line_is_open_ = false;
  std::chrono::steady_clock::time_point next_finishing_{};  // when that is said again
};

std::string FinishingText(int percent);

// As long as it lives, what finishes a trace in this process tells `progress`; nullptr: nobody.
class FinishingTold {
 public:
  explicit FinishingTold(TrainProgress* progress);
  ~FinishingTold();
  FinishingTold(const FinishingTold&) = delete;
  FinishingTold& operator=(const FinishingTold&) = delete;
};

// Steps count from 0: "step 11 (12 of 100)  loss 2.345  12.3 k tokens/s  ..."
std::string ProgressText(const runtime::StepReport& report);

}  // namespace shardscope::app
