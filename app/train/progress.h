// What shardscope-train tells of its steps: on standard output one updating line on a terminal,
// plain lines otherwise; in a file its losses.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "engine/runtime/trainer.h"
#include "trace/base/output_file.h"

namespace shardscope::app {

// Threads: one call at a time.
class TrainProgress {
 public:
  // `on_no_reader` is called when a line found no reader.
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

// As long as it lives, what finishes a trace in this process is told by `progress`; null: it is not
// told.
class FinishingTold {
 public:
  explicit FinishingTold(TrainProgress* progress);
  ~FinishingTold();
  FinishingTold(const FinishingTold&) = delete;
  FinishingTold& operator=(const FinishingTold&) = delete;
};

// Steps count from 0: "step 11 (12 of 100)  loss 2.345  12.3 k tokens/s  ..."
std::string ProgressText(const runtime::StepReport& report);

// "loss 2.3450", or that no token counts.
std::string LossText(const runtime::StepReport& report);

// "step loss grad_norm", in full precision; the loss is nan where no token counts,
// the norm where the step was skipped.
std::string LossLine(const runtime::StepReport& report);

// --losses FILE: one line a step, which others may read while the run goes on. One thread at a
// time.
class LossFile {
 public:
  // With an empty path there is no file, and nothing is done.
  Status Open(const std::string& path);
  bool is_open() const { return file_.has_value(); }

  // The training is worth more than this file: an error is said at once, and ends it alone.
  void Add(const runtime::StepReport& report);

  // The first error.
  Status Close();

 private:
  Status status_;
  std::optional<OutputFile> file_;
};

}  // namespace shardscope::app
