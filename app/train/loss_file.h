// LossFile: --losses FILE, one line a step, which others may read while the run goes on.
#pragma once

#include <optional>
#include <string>

#include "engine/runtime/trainer.h"
#include "trace/base/output_file.h"

namespace shardscope::app {

// "step loss grad_norm", in full precision.
std::string LossLine(const runtime::StepReport& report);

// One thread at a time.
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
