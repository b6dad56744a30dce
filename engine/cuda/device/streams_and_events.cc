#include "engine/cuda/device/streams_and_events.h"

#include <cmath>
#include <utility>

#include "trace/base/time.h"

namespace shardscope::cuda {
namespace {

constexpr int kTries = 4;  // the first wakes the GPU up

}  // namespace

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

// Communication goes first where both need the multiprocessors: a collective that starts late keeps
// every rank waiting, a matrix product only its own (FSDP2 gives its streams priority -1).
Stream DeviceStreams::Make(const plan::Stream& stream) const {
  int least = 0;
  int greatest = 0;
  Check(api_, "cudaDeviceGetStreamPriorityRange",
        api_.DeviceGetStreamPriorityRange(&least, &greatest));
  // Communication, and the copies around it.
  const bool is_first =
      stream.role != plan::StreamRole::kHost && stream.role != plan::StreamRole::kCompute;
  Stream made = nullptr;
  Check(api_, "cudaStreamCreateWithPriority",
        api_.StreamCreateWithPriority(&made, kStreamNonBlocking, is_first ? greatest : least));
  return made;
}

EventClock::~EventClock() {
  if (base_ != nullptr) api_.EventDestroy(base_);
  if (spare_ != nullptr) api_.EventDestroy(spare_);
  if (stream_ != nullptr) api_.StreamDestroy(stream_);
}

void EventClock::Anchor() {
  if (stream_ == nullptr) {
    Check(api_, "cudaStreamCreateWithPriority",
          api_.StreamCreateWithPriority(&stream_, kStreamNonBlocking, 0));
    Check(api_, "cudaEventCreateWithFlags", api_.EventCreateWithFlags(&base_, 0));
    Check(api_, "cudaEventCreateWithFlags", api_.EventCreateWithFlags(&spare_, 0));
  }
  for (int i = 0; i < kTries; ++i) {
    const int64_t before_ns = MonotonicNs();
    Check(api_, "cudaEventRecord", api_.EventRecord(spare_, stream_));
    Check(api_, "cudaEventSynchronize", api_.EventSynchronize(spare_));
    const int64_t half_ns = (MonotonicNs() - before_ns) / 2;
    if (i > 0 && half_ns >= uncertainty_ns_) continue;
    uncertainty_ns_ = half_ns;
    base_ns_ = before_ns + half_ns;
    std::swap(base_, spare_);
  }
}

int64_t EventClock::TimeOf(Event event) const {
  float milliseconds = 0;
  Check(api_, "cudaEventElapsedTime", api_.EventElapsedTime(&milliseconds, base_, event));
  return base_ns_ + std::llround(static_cast<double>(milliseconds) * kNsPerMs);
}

}  // namespace shardscope::cuda
