// A CUDA runtime without CUDA, for tests: a shared object with the symbols of RuntimeApi (and
// cudaLaunchHostFunc, which stands for kernels). Streams and events are queues; what is on them
// runs whenever somebody waits for it, or earlier on streams that the seed makes fast: a missing
// wait then shows as a wrong order. Memory is host memory, poisoned when freed. All calls take one
// lock, and work runs under it.
#pragma once

#include <cstdint>

namespace shardscope::cuda {

// Loaded by name with dlsym; each test process has one fake.
inline constexpr const char* kFakeControlSymbol = "FakeCudaControl";

struct FakeOptions {
  // 0: nothing runs before somebody waits for it. 1: everything runs at once. Others: each stream
  // does the one or the other, by seed, thread name and the order in which the thread made it.
  uint64_t seed = 0;
  bool log_calls = false;
  int num_devices = 1;
  // The n-th cudaStreamWaitEvent of the thread called `drop_thread` does nothing; -1: none.
  int drop_thread = 0;
  int64_t drop_wait = -1;
  // The n-th call of `fail_call` ("cudaEventRecord") returns `fail_code`; null: none.
  const char* fail_call = nullptr;
  int64_t fail_at = 0;
  int fail_code = 0;
  // The n-th piece of work breaks the device: it and all calls after it return 700; -1: none.
  int64_t fault_at = -1;
};

struct FakeCounts {
  int64_t streams = 0;      // alive
  int64_t events = 0;       // alive
  int64_t allocations = 0;  // alive
  int64_t waits = 0;        // cudaStreamWaitEvent calls of thread FakeOptions::drop_thread
  int64_t violations = 0;
};

// What a test may do with it; all functions take the fake's lock.
struct FakeControl {
  // Forgets everything but what is alive.
  void (*reset)(const FakeOptions* options);
  // The calling thread's name: for FakeOptions::seed and drop_thread.
  void (*name_thread)(int name);
  FakeCounts (*counts)();
  // Lines, valid until the next call of either on this thread: rules of CUDA that were broken, and
  // the calls in order ("wait 0.2 for e3"); streams are named by the thread that made them and the
  // order of that, events by the order in which they were first recorded.
  const char* (*violations)();
  const char* (*calls)();
};

}  // namespace shardscope::cuda
