// CuptiLog: a GpuLog with CUPTI switched on for this process.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engine/cuda/recording/gpu_log.h"
#include "trace/record/cupti/session.h"

namespace shardscope::cuda {

// Owner: the plugin's Device. Threads: Start, Open and Close on the main thread.
class CuptiLog {
 public:
  // Before the process's first CUDA context. Error: why CUPTI cannot be had; op times come from
  // events then.
  static Result<std::unique_ptr<CuptiLog>> Start(std::function<int32_t(uint32_t)> rank_of_device);
  ~CuptiLog();

  DeviceLog* log() { return &log_; }

  // The trace is open: rows go to `recorder`.
  void Open(record::Recorder* recorder, executor::OpIds ids);
  // Between steps: whether CUPTI makes records and ops get times. Memory of the driver is told
  // always. Before Close().
  void SetRecording(bool is_recording);
  // Before the trace is finished: takes in what CUPTI still has and stops it, for good. All streams
  // are done. What was lost becomes rows of table capability. May come twice.
  void Close();

 private:
  CuptiLog(const cupti::CuptiFunctions& functions, std::function<int32_t(uint32_t)> rank_of_device);

  cupti::StreamId IdOf(Stream stream) const;

  const cupti::CuptiFunctions functions_;
  GpuLog log_;
  record::Recorder* recorder_ = nullptr;     // while open
  std::unique_ptr<cupti::Session> session_;  // last: its thread uses the others
};

}  // namespace shardscope::cuda
