// DeviceStreams: the CUDA streams of a rank, one for each name of a stream in its Schedules.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/cuda/device/device_log.h"
#include "engine/cuda/device/runtime_api.h"
#include "engine/plan/schedule.h"

namespace shardscope::cuda {

// Threads: the rank's host thread, with its device set; destroyed with no step running.
class DeviceStreams {
 public:
  // `log` is told of every stream; borrowed, may be null.
  DeviceStreams(const RuntimeApi& api, int rank, DeviceLog* log)
      : api_(api), rank_(rank), log_(log) {}
  ~DeviceStreams();
  DeviceStreams(const DeviceStreams&) = delete;
  DeviceStreams& operator=(const DeviceStreams&) = delete;

  // By StreamIndex. A stream lives as long as this: Schedules that change need not make new ones.
  std::vector<Stream> Of(const plan::Schedule& schedule);

 private:
  Stream Make(const plan::Stream& stream) const;

  const RuntimeApi api_;
  const int rank_;
  DeviceLog* const log_;
  std::map<std::string, Stream> streams_;  // by name
};

}  // namespace shardscope::cuda
