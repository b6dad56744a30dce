// The exported symbols of the fake CUDA runtime: those of libcudart.so.13 that RuntimeApi names.
#include "tests/fake_cuda/fake_runtime.h"

#include <cstring>
#include <string>

#include "engine/cuda/device/runtime_api.h"
#include "tests/fake_cuda/fake_device.h"
#include "trace/base/mutex.h"

namespace {

using shardscope::MutexLock;
using shardscope::cuda::Code;
using shardscope::cuda::Event;
using shardscope::cuda::FakeControl;
using shardscope::cuda::FakeCounts;
using shardscope::cuda::FakeDevice;
using shardscope::cuda::FakeEvent;
using shardscope::cuda::FakeOptions;
using shardscope::cuda::FakeStream;
using shardscope::cuda::Stream;

constexpr Code kErrorNoDevice = 100;  // driver_types.h

FakeStream* AsStream(Stream stream) { return static_cast<FakeStream*>(stream); }
FakeEvent* AsEvent(Event event) { return static_cast<FakeEvent*>(event); }

// Runs `body` under the lock unless the call is to fail.
template <typename Body>
Code Call(const char* name, const Body& body) {
  FakeDevice& device = FakeDevice::Instance();
  const MutexLock lock(device.mutex);
  int code = device.Enter(name);
  if (code == 0) code = body(device);
  // "Not ready" too: that is no error, and yet the runtime keeps it as one.
  if (code != 0) shardscope::cuda::ThisThread().last_code = code;
  return code;
}

thread_local std::string g_lines;

const char* Keep(std::string text) {
  g_lines = std::move(text);
  return g_lines.c_str();
}

constexpr size_t kTotalBytes = size_t{1} << 34;

}  // namespace

extern "C" {

const FakeControl* FakeCudaControl() {
  static constexpr FakeControl kControl = {
      .reset =
          [](const FakeOptions* options) {
            const MutexLock lock(FakeDevice::Instance().mutex);
            FakeDevice::Instance().Reset(*options);
          },
      .name_thread = [](int name) { shardscope::cuda::ThisThread() = {.name = name}; },
      .counts =
          [] {
            const MutexLock lock(FakeDevice::Instance().mutex);
            return FakeDevice::Instance().counts();
          },
      .violations =
          [] {
            const MutexLock lock(FakeDevice::Instance().mutex);
            return Keep(FakeDevice::Instance().violations());
          },
      .calls =
          [] {
            const MutexLock lock(FakeDevice::Instance().mutex);
            return Keep(FakeDevice::Instance().calls());
          },
  };
  return &kControl;
}

Code cudaDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}

Code cudaGetDeviceCount(int* count) {
  return Call("cudaGetDeviceCount", [&](FakeDevice& device) {
    *count = device.options().num_devices;
    return *count > 0 ? 0 : kErrorNoDevice;
  });
}

Code cudaSetDevice(int /*ordinal*/) {
  return Call("cudaSetDevice", [](FakeDevice&) { return 0; });
}

Code cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return Call("cudaMemGetInfo", [&](FakeDevice& device) {
    *total_bytes = kTotalBytes;
    *free_bytes = kTotalBytes - device.LiveBytes();
    return 0;
  });
}

Code cudaMalloc(void** memory, size_t bytes) {
  return Call("cudaMalloc", [&](FakeDevice& device) {
    *memory = device.Allocate(bytes);
    return 0;
  });
}

Code cudaFree(void* memory) {
  return Call("cudaFree", [&](FakeDevice& device) { return device.Free(memory); });
}

Code cudaMemcpyAsync(void* to, const void* from, size_t bytes, int /*kind*/, Stream stream) {
  return Call("cudaMemcpyAsync", [&](FakeDevice& device) {
    return device.Launch(AsStream(stream), [=, &device] {
      device.CheckRange(to, bytes, "a copy");
      device.CheckRange(from, bytes, "a copy");
      std::memmove(to, from, bytes);
    });
  });
}

Code cudaMemsetAsync(void* memory, int value, size_t bytes, Stream stream) {
  return Call("cudaMemsetAsync", [&](FakeDevice& device) {
    return device.Launch(AsStream(stream), [=, &device] {
      device.CheckRange(memory, bytes, "a set");
      std::memset(memory, value, bytes);
    });
  });
}

// Work on the device. May not call CUDA, and runs under the fake's lock.
Code cudaLaunchHostFunc(Stream stream, void (*work)(void*), void* argument) {
  return Call("cudaLaunchHostFunc", [&](FakeDevice& device) {
    // Who launches a kernel asks for the last error to learn of its own.
    if (shardscope::cuda::ThisThread().last_code != 0) {
      device.Violate("a launch finds the error of an earlier call");
    }
    return device.Launch(AsStream(stream), [=] { work(argument); });
  });
}

Code cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return 0;
}

Code cudaStreamCreateWithPriority(Stream* stream, unsigned /*flags*/, int priority) {
  return Call("cudaStreamCreateWithPriority", [&](FakeDevice& device) {
    *stream = device.MakeStream(priority);
    return 0;
  });
}

Code cudaStreamDestroy(Stream stream) {
  FakeDevice& device = FakeDevice::Instance();
  const MutexLock lock(device.mutex);  // also after a fault
  return device.DestroyStream(AsStream(stream));
}

Code cudaStreamSynchronize(Stream stream) {
  return Call("cudaStreamSynchronize",
              [&](FakeDevice& device) { return device.SynchronizeStream(AsStream(stream)); });
}

Code cudaStreamWaitEvent(Stream stream, Event event, unsigned /*flags*/) {
  return Call("cudaStreamWaitEvent",
              [&](FakeDevice& device) { return device.Wait(AsStream(stream), AsEvent(event)); });
}

Code cudaEventCreateWithFlags(Event* event, unsigned flags) {
  return Call("cudaEventCreateWithFlags", [&](FakeDevice& device) {
    *event = device.MakeEvent(flags);
    return 0;
  });
}

Code cudaEventDestroy(Event event) {
  FakeDevice& device = FakeDevice::Instance();
  const MutexLock lock(device.mutex);  // also after a fault
  return device.DestroyEvent(AsEvent(event));
}

Code cudaEventRecord(Event event, Stream stream) {
  return Call("cudaEventRecord",
              [&](FakeDevice& device) { return device.Record(AsEvent(event), AsStream(stream)); });
}

Code cudaEventQuery(Event event) {
  return Call("cudaEventQuery", [&](FakeDevice& device) { return device.Query(AsEvent(event)); });
}

Code cudaEventSynchronize(Event event) {
  return Call("cudaEventSynchronize",
              [&](FakeDevice& device) { return device.SynchronizeEvent(AsEvent(event)); });
}

Code cudaEventElapsedTime(float* milliseconds, Event start, Event end) {
  return Call("cudaEventElapsedTime", [&](FakeDevice& device) {
    return device.Elapsed(AsEvent(start), AsEvent(end), milliseconds);
  });
}

Code cudaGetLastError() {
  FakeDevice& device = FakeDevice::Instance();
  const MutexLock lock(device.mutex);
  return device.TakeLastCode();
}

const char* cudaGetErrorString(Code code) {
  if (code == 700) return "an illegal memory access was encountered";
  if (code == 2) return "out of memory";
  return code == 0 ? "no error" : "an error of the fake";
}

Code cudaProfilerStart() { return 0; }
Code cudaProfilerStop() { return 0; }

}  // extern "C"
