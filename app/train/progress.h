// What shardscope-train prints while it trains: one updating line on a terminal, plain lines
// otherwise.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "engine/runtime/trainer.h"

namespace shardscope::app {

// Threads: one call at a time.
class TrainProgress {
 public:
  // Writes to `out`, borrowed.
  explicit TrainProgress(std::FILE* out);

  void OnStep(const runtime::StepReport& report);
  void OnMessage(const std::string& text);

  // Leaves the updating line; call before printing anything else.
  void Close();

 private:
  void Print(const std::string& line);

  std::FILE* const out_;
  const bool is_terminal_;
  bool line_is_open_ = false;
};

// Steps count from 0: "step 11 (12 of 100)  loss 2.345  12.3 k tokens/s  ..."
std::string ProgressText(const runtime::StepReport& report);

}  // namespace shardscope::app
