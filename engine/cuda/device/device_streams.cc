#include "engine/cuda/device/device_streams.h"

namespace shardscope::cuda {

DeviceStreams::~DeviceStreams() {
  for (const auto& [name, stream] : streams_) static_cast<void>(api_.StreamDestroy(stream));
}

std::vector<Stream> DeviceStreams::Of(const plan::Schedule& schedule) {
  std::vector<Stream> streams;
  for (const plan::Stream& stream : schedule.streams) {
    const auto found = streams_.find(stream.name);
    if (found != streams_.end()) {
      streams.push_back(found->second);
      continue;
    }
    streams.push_back(Make(stream));
    streams_[stream.name] = streams.back();
    if (log_ != nullptr) log_->OnStream(rank_, streams.back());
  }
  return streams;
}

// Communication goes first where both want the multiprocessors: a collective that starts late keeps
// every rank waiting, a matrix product only its own (FSDP2 gives its streams priority -1).
Stream DeviceStreams::Make(const plan::Stream& stream) const {
  int least = 0;
  int greatest = 0;
  Check(api_, "cudaDeviceGetStreamPriorityRange",
        api_.DeviceGetStreamPriorityRange(&least, &greatest));
  const bool is_communication = stream.role == plan::StreamRole::kAllGather ||
                                stream.role == plan::StreamRole::kReduceScatter ||
                                stream.role == plan::StreamRole::kAllReduce;
  const bool is_first = is_communication || stream.role == plan::StreamRole::kCopy;
  Stream made = nullptr;
  Check(api_, "cudaStreamCreateWithPriority",
        api_.StreamCreateWithPriority(&made, kStreamNonBlocking, is_first ? greatest : least));
  return made;
}

}  // namespace shardscope::cuda
