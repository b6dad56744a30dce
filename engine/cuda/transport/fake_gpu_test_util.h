// For tests: a GPU in one object, for transports. Why there are two fakes: that of tests/fake_cuda
// is a shared object with the runtime's own symbols, one a process, whose streams run when they are
// waited for: what the executor does, mistakes in calls included. Here each test has its own,
// work may wait for other work (NCCL's kernels for one another's) or for a clock (a paced link),
// and all orders that CUDA allows are tried.
//
// Streams are queues, events count their recordings, memory is the
// host's. Nothing runs until Run(): then the queues' heads run one by one in an order that a seed
// chooses among all that CUDA allows, so that a missing wait shows.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "engine/cuda/device/runtime_api.h"
#include "engine/cuda/transport/block_work.h"
#include "engine/cuda/transport/kernels.h"
#include "trace/base/mutex.h"

namespace shardscope::cuda {

class FakeGpu {
 public:
  // One at a time: the table's functions find it here.
  FakeGpu() { current() = this; }
  ~FakeGpu() {
    for (void* memory : memory_) std::free(memory);
    current() = nullptr;
  }

  RuntimeApi Api();

  Stream NewStream() {
    const MutexLock lock(mutex_);
    streams_[++num_streams_] = {};
    return reinterpret_cast<Stream>(num_streams_);
  }
  // `ready` says when the work may run; it may not call the GPU.
  void Launch(Stream stream, std::function<void()> work, std::function<bool()> ready = nullptr) {
    const MutexLock lock(mutex_);
    streams_.at(reinterpret_cast<uintptr_t>(stream)).push_back({std::move(work), std::move(ready)});
  }

  // Runs what is queued, up to what waits for something not yet issued.
  void RunWhatCan(uint64_t seed) {
    std::mt19937_64 random(seed);
    while (RunOne(&random)) {
    }
  }
  // Runs everything that is queued. Throws if streams wait for one another for ever.
  void Run(uint64_t seed) {
    RunWhatCan(seed);
    const MutexLock lock(mutex_);
    for (const auto& [stream, queue] : streams_) {
      if (!queue.empty()) throw std::runtime_error("the fake GPU hangs");
    }
  }

  // What would have been silent mistakes.
  int num_vain_waits() const {  // for events that were never recorded
    const MutexLock lock(mutex_);
    return num_vain_waits_;
  }
  size_t num_live_events() const {
    const MutexLock lock(mutex_);
    return events_.size();
  }
  size_t num_live_blocks() const {
    const MutexLock lock(mutex_);
    return memory_.size();
  }

  // The clock of paced kernels; they advance it when they wait.
  uint64_t now_ns = 1000;

 private:
  struct EventState {
    int64_t recorded = 0;
    int64_t completed = 0;
  };
  struct Queued {
    std::function<void()> work;   // none: a wait
    std::function<bool()> ready;  // with mutex_ held; none: at once
  };

  static FakeGpu*& current() {
    static FakeGpu* gpu = nullptr;
    return gpu;
  }

  bool RunOne(std::mt19937_64* random) {
    std::function<void()> work;
    {
      const MutexLock lock(mutex_);
      std::vector<std::deque<Queued>*> ready;
      for (auto& [stream, queue] : streams_) {
        if (queue.empty()) continue;
        const Queued& head = queue.front();
        if (head.ready == nullptr || head.ready()) ready.push_back(&queue);
      }
      if (ready.empty()) return false;
      std::deque<Queued>& queue = *ready[(*random)() % ready.size()];
      work = std::move(queue.front().work);
      queue.pop_front();
    }
    if (work) work();
    return true;
  }

  mutable Mutex mutex_;
  uintptr_t num_streams_ GUARDED_BY(mutex_) = 0;
  uintptr_t num_events_ GUARDED_BY(mutex_) = 0;
  std::map<uintptr_t, std::deque<Queued>> streams_ GUARDED_BY(mutex_);
  std::map<Event, EventState> events_ GUARDED_BY(mutex_);
  std::set<void*> memory_ GUARDED_BY(mutex_);
  int num_vain_waits_ GUARDED_BY(mutex_) = 0;
};

inline RuntimeApi FakeGpu::Api() {
  RuntimeApi api;
  api.Malloc = [](void** memory, size_t bytes) {
    const MutexLock lock(current()->mutex_);
    *memory = std::malloc(bytes);
    current()->memory_.insert(*memory);
    return kSuccess;
  };
  api.Free = [](void* memory) {
    const MutexLock lock(current()->mutex_);
    current()->memory_.erase(memory);
    std::free(memory);
    return kSuccess;
  };
  api.MemcpyAsync = [](void* to, const void* from, size_t bytes, int, Stream stream) {
    current()->Launch(stream, [=] { std::memcpy(to, from, bytes); });
    return kSuccess;
  };
  api.MemsetAsync = [](void* memory, int value, size_t bytes, Stream stream) {
    current()->Launch(stream, [=] { std::memset(memory, value, bytes); });
    return kSuccess;
  };
  api.EventCreateWithFlags = [](Event* event, unsigned) {
    const MutexLock lock(current()->mutex_);
    *event = reinterpret_cast<Event>(++current()->num_events_);
    current()->events_[*event] = {};
    return kSuccess;
  };
  api.EventDestroy = [](Event event) {
    const MutexLock lock(current()->mutex_);
    current()->events_.erase(event);
    return kSuccess;
  };
  api.EventRecord = [](Event event, Stream stream) {
    FakeGpu* gpu = current();
    const MutexLock lock(gpu->mutex_);
    const int64_t recording = ++gpu->events_.at(event).recorded;
    gpu->streams_.at(reinterpret_cast<uintptr_t>(stream))
        .push_back({[gpu, event, recording] {
                      const MutexLock inner(gpu->mutex_);
                      gpu->events_.at(event).completed = recording;
                    },
                    nullptr});
    return kSuccess;
  };
  api.EventQuery = [](Event event) {
    const MutexLock lock(current()->mutex_);
    const EventState& state = current()->events_.at(event);
    return state.completed >= state.recorded ? kSuccess : kErrorNotReady;
  };
  api.StreamWaitEvent = [](Stream stream, Event event, unsigned) {
    FakeGpu* gpu = current();
    const MutexLock lock(gpu->mutex_);
    const int64_t recorded = gpu->events_.at(event).recorded;
    if (recorded == 0) ++gpu->num_vain_waits_;
    gpu->streams_.at(reinterpret_cast<uintptr_t>(stream))
        .push_back({nullptr, [gpu, event, recorded]() REQUIRES(gpu->mutex_) {
                      return gpu->events_.at(event).completed >= recorded;
                    }});
    return kSuccess;
  };
  api.GetLastError = [] { return kSuccess; };
  api.GetErrorString = [](Code code) { return code == 2 ? "out of memory" : "an error"; };
  return api;
}

// The kernels' arithmetic on the fake GPU's streams.
class FakeKernels final : public Kernels {
 public:
  explicit FakeKernels(FakeGpu* gpu) : gpu_(gpu) {}

  void Copy(const CopyTask& task, const Pace& pace, Stream stream) override {
    gpu_->Launch(stream, [this, task, pace] {
      for (int i = 0; i < task.num_inputs; ++i) {
        char* to = static_cast<char*>(task.output) + static_cast<size_t>(i) * task.bytes;
        if (to == task.inputs[i]) continue;
        for (uint32_t thread = 0; thread < kThreads; ++thread) {
          CopyBytes(to, static_cast<const char*>(task.inputs[i]), task.bytes, {thread, kThreads});
        }
      }
      Wait(pace);
    });
  }
  void Sum(const SumTask& task, const Pace& pace, Stream stream) override {
    gpu_->Launch(stream, [this, task, pace] {
      switch (task.dtype) {
        case plan::DType::kFp32:
          SumAll<Fp32Format>(task);
          break;
        case plan::DType::kBf16:
          SumAll<Bf16Format>(task);
          break;
        case plan::DType::kFp16:
          SumAll<Fp16Format>(task);
          break;
        case plan::DType::kFp64:
          SumAll<Fp64Format>(task);
          break;
      }
      Wait(pace);
    });
  }
  void Reserve(LinkWires* wires, LinkWindow* window, const LinkRequest& request,
               Stream stream) override {
    gpu_->Launch(stream, [this, wires, window, request] {
      *window = ReserveWindow(gpu_->now_ns, request, wires);
      windows.push_back(*window);
    });
  }
  int64_t MeasureClockStepNs() override { return 1; }

  std::vector<LinkWindow> windows;      // as they were reserved
  std::vector<uint64_t> paced_ends_ns;  // when each paced kernel ended

 private:
  static constexpr uint32_t kThreads = 3;  // of a block

  template <typename Format>
  static void SumAll(const SumTask& task) {
    for (uint32_t thread = 0; thread < kThreads; ++thread) {
      SumElements<Format>(task, 0, task.elements, {thread, kThreads});
    }
  }
  void Wait(const Pace& pace) {
    if (pace.window == nullptr) return;
    const uint64_t due_ns = DueAt(*pace.window, pace.to);
    Spin spin{gpu_->now_ns, pace.limit_ns};
    uint32_t sleep_ns = 0;
    while (spin.WaitsOn(gpu_->now_ns, due_ns, &sleep_ns)) gpu_->now_ns += sleep_ns;
    paced_ends_ns.push_back(gpu_->now_ns);
  }

  FakeGpu* const gpu_;
};

}  // namespace shardscope::cuda
