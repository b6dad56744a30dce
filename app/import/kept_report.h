// Kept reports: nothing of an imported run changes any more, so what `report` says of all of it is
// made once, by both definitions of the GPU's times, and lies in its folder. A report then takes
// the time in which its text is read, however large the run.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "trace/analysis/gpu/gpu_time.h"
#include "trace/base/status.h"

namespace shardscope::app {

struct ReportForm {
  bool json = false;
  analysis::GpuDefinition definition = analysis::GpuDefinition::kExact;
};

// The report of the whole run as this very program made it from the files that are there now, piece
// by piece. false, and nothing: none such is kept.
bool PrintKeptReport(const std::string& run, const ReportForm& form,
                     const std::function<void(std::string_view)>& print);

// Makes and keeps all forms, of an imported run; those of a run so large that its rows are better
// not all in memory are made when they are asked for.
Status KeepReportsOf(const std::string& run);

}  // namespace shardscope::app
