// GpuRecords: the records that CUPTI would make of a program in virtual time.
#pragma once

#include <cstdint>
#include <string>

#include "tests/golden/gpu_scenario.h"

namespace shardscope::golden {

// What every rank's host asks of CUDA and what its GPU does for it, put behind one another into
// Scenario::records. `host_ns`: the time of the rank's host, which goes on with each call.
class GpuRecords {
 public:
  // The functions that ranks call, by CUPTI's numbers.
  static constexpr CUpti_CallbackId kMalloc = 20, kMemcpy = 41, kStreamSynchronize = 131,
                                    kEventRecord = 135, kStreamWait = 147, kLaunch = 505,
                                    kDriverLaunch = 652;

  // `costs` and `scenario` must outlive this.
  GpuRecords(const Costs& costs, Scenario* scenario) : costs_(costs), scenario_(*scenario) {}

  // A call, which lasts until `until_ns` if that is given. Returns its correlation.
  uint32_t AddCall(int rank, CUpti_CallbackId callback, int64_t* host_ns, int64_t until_ns = 0);

  // The driver's segments, and what CUPTI took for itself.
  void AddStart(int rank, const DeviceBytes& device, int64_t* host_ns);

  // The event behind `op`, reached by its stream at `time_ns`. Returns the number of the recording.
  uint64_t AddEvent(int rank, plan::StreamIndex stream, plan::OpIndex op, int64_t time_ns,
                    int64_t* host_ns);
  // `stream` waits for the event of `target`, as last recorded.
  void AddStreamWait(int rank, plan::StreamIndex stream, plan::OpIndex target, uint64_t recording,
                     int64_t* host_ns);
  // The host waits for the work of `stream`, until `until_ns`.
  void AddHostWait(int rank, plan::StreamIndex stream, int64_t until_ns, int64_t* host_ns);

  // Work of `op` from `start_ns` to `end_ns` on the GPU, asked for by the call `correlation`.
  void AddKernel(int rank, const plan::Op& op, const std::string& name, int64_t start_ns,
                 int64_t end_ns, uint32_t correlation);
  void AddCopy(int rank, const plan::Op& op, int64_t start_ns, int64_t end_ns,
               uint32_t correlation);

 private:
  template <typename Record>
  void Add(const Record& record);

  const Costs& costs_;
  Scenario& scenario_;
  uint32_t correlation_ = 0;
  uint64_t recording_ = 100;
};

}  // namespace shardscope::golden
