// DeviceLog: where the executor says which host call belongs to which op, and asks when the GPU
// really worked for it. With CUPTI there is one (engine/cuda/recording/cupti_log.h); without, op
// times come from CUDA events.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/cuda/device/runtime_api.h"
#include "engine/executor/op_bodies.h"
#include "engine/plan/op.h"
#include "trace/record/cupti/activity.h"
#include "trace/record/gpu/nccl_ranges.h"

namespace shardscope::cuda {

// One op run of the process: the key under which GPU work is joined to it. At most 2^8 ranks, 2^24
// ops, 2^31 steps.
inline int64_t OpRunKey(int rank, int64_t step, plan::OpIndex op) {
  return (step << 32) | (int64_t{rank} << 24) | int64_t{op};
}
inline int RankOfKey(int64_t key) { return static_cast<int>((key >> 24) & 0xFF); }

// When the GPU worked for an op: from its first work's start to its last work's end; 0 if it did
// nothing, or the times are lost.
struct DeviceInterval {
  int64_t started_ns = 0;
  int64_t ended_ns = 0;
};

// Threads: any.
class DeviceLog {
 public:
  virtual ~DeviceLog() = default;

  // All work on `stream` is `rank`'s. On the thread whose device the stream is on.
  virtual void OnStream(int rank, Stream stream) = 0;

  // An op is about to be issued: what OpRunKey() of it stands for. On the rank's host thread.
  virtual void OnBegin(const executor::OpContext& /*context*/) {}

  // `op.key` is its OpRunKey().
  virtual void OnIssued(const cupti::HostOp& op) = 0;

  // What the driver hands out meanwhile is NCCL's.
  virtual void OnNccl(const gpu::NcclRange& /*call*/) {}

  // All streams of `rank` have ended their work of `step`: its times, by op index. May wait for
  // records that are on their way.
  virtual std::vector<DeviceInterval> TakeStep(int rank, int64_t step, size_t num_ops) = 0;
};

}  // namespace shardscope::cuda
