// ResumedFrom: the checkpoint that a run goes on from, as its trace says it
// (trace_keys::kResumedRun, kResumedStep, kResumedFrom).
#pragma once

#include <cstdint>
#include <string>

namespace shardscope {

struct ResumedFrom {
  std::string run_id;  // of the run that wrote it; empty: it was no run of ours
  int64_t step = 0;
  std::string folder;
};

}  // namespace shardscope
