// A run of the unsharded reference trainer (shardscope-train --reference): the same configuration,
// the same samples, no Schedule. With a folder it leaves a run whose trace has the step rows.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "engine/config/config.h"
#include "engine/runtime/setup.h"
#include "engine/runtime/trainer.h"
#include "trace/base/status.h"

namespace shardscope::runtime {

struct ReferenceOptions {
  config::Config config;  // passed Check()
  std::string folder;     // empty: no trace
  std::string dump_path;  // empty: none
  std::function<void(const StepReport&)> on_step;
  const std::atomic<int>* stop_signal = nullptr;  // not 0: stops after the running step
};

Result<RunSummary> RunReference(const ReferenceOptions& options, const Job& job);

}  // namespace shardscope::runtime
