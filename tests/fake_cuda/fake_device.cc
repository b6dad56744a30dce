#include "tests/fake_cuda/fake_device.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/cuda/device/runtime_api.h"
#include "trace/base/time.h"

namespace shardscope::cuda {
namespace {

constexpr int kErrorInvalidValue = 1;
constexpr int kErrorInvalidHandle = 400;
constexpr int kErrorIllegalAddress = 700;
constexpr int kPoison = 0xDD;
constexpr size_t kMaxViolations = 20;

uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

bool IsFast(uint64_t seed, const FakeThread& thread) {
  if (seed < 2) return seed == 1;
  const auto stream = static_cast<uint64_t>(thread.name * 64 + thread.num_streams);
  return Mix(seed * 0x9E3779B97F4A7C15 + stream) % 2 == 0;
}

std::string Lines(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

}  // namespace

FakeThread& ThisThread() {
  thread_local FakeThread thread;
  return thread;
}

FakeDevice& FakeDevice::Instance() {
  static FakeDevice device;
  return device;
}

// What a failed step left behind; tests that must not leave any look at the blocks themselves.
FakeDevice::~FakeDevice() {
  for (const auto& [address, block] : blocks_) std::free(reinterpret_cast<void*>(address));
}

void FakeDevice::Reset(const FakeOptions& options) {
  options_ = options;
  num_calls_.clear();
  violations_.clear();
  calls_.clear();
  num_recorded_events_ = 0;
  num_waits_ = 0;
  num_works_ = 0;
  sticky_code_ = 0;
  std::erase_if(streams_, [](const auto& stream) { return stream->is_destroyed; });
  std::erase_if(events_, [](const auto& event) { return event->is_destroyed; });
  for (auto block = blocks_.begin(); block != blocks_.end();) {
    if (block->second.is_live) {
      ++block;
      continue;
    }
    std::free(reinterpret_cast<void*>(block->first));
    block = blocks_.erase(block);
  }
}

int FakeDevice::Enter(const char* call) {
  if (sticky_code_ != 0) return sticky_code_;
  const bool is_chosen = options_.fail_call != nullptr && options_.fail_call == std::string(call);
  return is_chosen && num_calls_[call]++ == options_.fail_at ? options_.fail_code : 0;
}

int FakeDevice::TakeLastCode() {
  return sticky_code_ != 0 ? sticky_code_ : std::exchange(ThisThread().last_code, 0);
}

FakeStream* FakeDevice::MakeStream(int priority) {
  FakeThread& thread = ThisThread();
  auto stream = std::make_unique<FakeStream>();
  stream->name = std::to_string(thread.name) + "." + std::to_string(thread.num_streams);
  stream->priority = priority;
  stream->is_fast = IsFast(options_.seed, thread);
  ++thread.num_streams;
  Log("stream " + stream->name + " priority " + std::to_string(priority));
  alive_.insert(stream.get());
  streams_.push_back(std::move(stream));
  return streams_.back().get();
}

int FakeDevice::DestroyStream(FakeStream* stream) {
  if (!IsKnown(stream, "cudaStreamDestroy")) return kErrorInvalidHandle;
  if (!stream->queue.empty() && sticky_code_ == 0) {
    Violate("stream " + stream->name + " is destroyed while it has work");
  }
  stream->is_destroyed = true;
  alive_.erase(stream);
  return kSuccess;
}

FakeEvent* FakeDevice::MakeEvent(unsigned flags) {
  events_.push_back(std::make_unique<FakeEvent>());
  events_.back()->flags = flags;
  alive_.insert(events_.back().get());
  return events_.back().get();
}

int FakeDevice::DestroyEvent(FakeEvent* event) {
  if (!IsKnown(event, "cudaEventDestroy")) return kErrorInvalidHandle;
  event->is_destroyed = true;
  alive_.erase(event);
  return kSuccess;
}

int FakeDevice::Record(FakeEvent* event, FakeStream* stream) {
  if (!IsKnown(event, "cudaEventRecord") || !IsKnown(stream, "cudaEventRecord")) {
    return kErrorInvalidHandle;
  }
  event->last = std::make_shared<FakeRecording>(FakeRecording{.stream = stream});
  if (event->number < 0) event->number = num_recorded_events_++;
  Log("record e" + std::to_string(event->number) + " on " + stream->name);
  stream->queue.push_back({.record = event->last});
  RunFast();
  return sticky_code_;
}

int FakeDevice::Wait(FakeStream* stream, FakeEvent* event) {
  if (!IsKnown(event, "cudaStreamWaitEvent") || !IsKnown(stream, "cudaStreamWaitEvent")) {
    return kErrorInvalidHandle;
  }
  if (event->last == nullptr) {
    // CUDA takes it for a wait that is over: a silent mistake.
    Violate("stream " + stream->name + " waits for an event that was never recorded");
    return kSuccess;
  }
  Log("wait " + stream->name + " for e" + std::to_string(event->number));
  const bool counts = ThisThread().name == options_.drop_thread;
  if (counts && num_waits_++ == options_.drop_wait) return kSuccess;
  stream->queue.push_back({.wait = event->last});
  RunFast();
  return sticky_code_;
}

int FakeDevice::Launch(FakeStream* stream, std::function<void()> work) {
  if (!IsKnown(stream, "launch")) return kErrorInvalidHandle;
  Log("work " + stream->name);
  stream->queue.push_back({.work = std::move(work)});
  RunFast();
  return sticky_code_;
}

int FakeDevice::SynchronizeEvent(FakeEvent* event) {
  if (!IsKnown(event, "cudaEventSynchronize")) return kErrorInvalidHandle;
  if (event->last == nullptr) {
    Violate("the host waits for an event that was never recorded");
    return kSuccess;
  }
  Log("host waits for e" + std::to_string(event->number));
  RunUntil(event->last);
  RunFast();
  return sticky_code_;
}

int FakeDevice::SynchronizeStream(FakeStream* stream) {
  if (!IsKnown(stream, "cudaStreamSynchronize")) return kErrorInvalidHandle;
  Log("host waits for " + stream->name);
  const auto end = std::make_shared<FakeRecording>(FakeRecording{.stream = stream});
  stream->queue.push_back({.record = end});
  RunUntil(end);
  RunFast();
  return sticky_code_;
}

// Polling must come to an end, so each look lets the stream do a step.
int FakeDevice::Query(FakeEvent* event) {
  if (!IsKnown(event, "cudaEventQuery")) return kErrorInvalidHandle;
  if (event->last == nullptr || event->last->is_done) return kSuccess;
  RunNext(event->last->stream);
  return sticky_code_ != 0 ? sticky_code_ : kErrorNotReady;
}

int FakeDevice::Elapsed(FakeEvent* start, FakeEvent* end, float* milliseconds) {
  for (const FakeEvent* event : {start, end}) {
    if (!IsKnown(event, "cudaEventElapsedTime")) return kErrorInvalidHandle;
    if ((event->flags & kEventDisableTiming) != 0 || event->last == nullptr) {
      Violate("the time of an event without time is asked for");
      return kErrorInvalidHandle;
    }
    if (!event->last->is_done) return kErrorNotReady;
  }
  *milliseconds =
      static_cast<float>(static_cast<double>(end->last->done_ns - start->last->done_ns) /
                         static_cast<double>(kNsPerMs));
  return kSuccess;
}

void* FakeDevice::Allocate(size_t bytes) {
  void* const memory = std::malloc(std::max<size_t>(bytes, 1));
  std::memset(memory, kPoison, bytes);
  blocks_[reinterpret_cast<uintptr_t>(memory)] = {bytes, true};
  return memory;
}

size_t FakeDevice::LiveBytes() const {
  size_t bytes = 0;
  for (const auto& [address, block] : blocks_) bytes += block.is_live ? block.bytes : 0;
  return bytes;
}

// As CUDA's, it waits for the device first.
int FakeDevice::Free(void* memory) {
  if (memory == nullptr) return kSuccess;
  const auto block = blocks_.find(reinterpret_cast<uintptr_t>(memory));
  if (block == blocks_.end() || !block->second.is_live) {
    Violate("memory is freed that is not allocated");
    return kErrorInvalidValue;
  }
  for (const auto& stream : streams_) {
    if (!stream->is_destroyed) SynchronizeStream(stream.get());
  }
  std::memset(memory, kPoison, block->second.bytes);
  block->second.is_live = false;
  return sticky_code_;
}

void FakeDevice::CheckRange(const void* memory, size_t bytes, const std::string& what) {
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  auto block = blocks_.upper_bound(begin);
  if (block == blocks_.begin()) return;
  --block;
  if (begin >= block->first + std::max<size_t>(block->second.bytes, 1)) return;
  if (!block->second.is_live) Violate(what + " touches memory that was freed");
  if (begin + bytes > block->first + block->second.bytes)
    Violate(what + " passes its memory's end");
}

bool FakeDevice::IsKnown(const void* handle, const char* call) {
  if (alive_.count(handle) != 0) return true;
  Violate(std::string(call) + " is given a stream or event that is not there");
  return false;
}

// False: it has nothing to do, or its next command waits.
bool FakeDevice::RunNext(FakeStream* stream) {
  if (stream->queue.empty()) return false;
  FakeCommand& next = stream->queue.front();
  if (next.wait != nullptr && !next.wait->is_done) return false;
  const FakeCommand command = std::move(next);
  stream->queue.pop_front();
  if (command.record != nullptr) {
    command.record->is_done = true;
    command.record->done_ns = MonotonicNs();
  }
  if (command.work != nullptr && sticky_code_ == 0) {
    if (num_works_++ == options_.fault_at) {
      sticky_code_ = kErrorIllegalAddress;
    } else {
      command.work();
    }
  }
  return true;
}

// Only what it needs: everything else stays as late as it may be.
void FakeDevice::RunUntil(const std::shared_ptr<FakeRecording>& recording) {
  while (!recording->is_done) {
    if (RunNext(recording->stream)) continue;
    const std::shared_ptr<FakeRecording> blocker = recording->stream->queue.front().wait;
    RunUntil(blocker);
  }
}

void FakeDevice::RunFast() {
  bool moved = true;
  while (moved) {
    moved = false;
    for (const auto& stream : streams_) {
      if (!stream->is_fast) continue;
      while (RunNext(stream.get())) moved = true;
    }
  }
}

void FakeDevice::Log(const std::string& text) {
  if (options_.log_calls) calls_.push_back(text);
}

void FakeDevice::Violate(const std::string& text) {
  if (violations_.size() < kMaxViolations) violations_.push_back(text);
}

FakeCounts FakeDevice::counts() const {
  const auto alive = [](const auto& all) {
    return std::count_if(all.begin(), all.end(),
                         [](const auto& one) { return !one->is_destroyed; });
  };
  FakeCounts counts;
  counts.streams = alive(streams_);
  counts.events = alive(events_);
  for (const auto& [address, block] : blocks_) counts.allocations += block.is_live ? 1 : 0;
  counts.waits = num_waits_;
  counts.violations = static_cast<int64_t>(violations_.size());
  return counts;
}

std::string FakeDevice::violations() const { return Lines(violations_); }
std::string FakeDevice::calls() const { return Lines(calls_); }

}  // namespace shardscope::cuda
