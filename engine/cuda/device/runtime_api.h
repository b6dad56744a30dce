// RuntimeApi: the calls of the CUDA runtime that running a Schedule needs, as a table of plain C
// functions, so that the executor compiles and is tested without CUDA's headers, a driver or a GPU.
// The real library and the fake of tests/fake_cuda export the same symbols.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>

#include "trace/base/status.h"

namespace shardscope::cuda {

using Stream = void*;  // cudaStream_t
using Event = void*;   // cudaEvent_t
using Code = int;      // cudaError_t

// cuda_runtime_api.h and driver_types.h, CUDA 13.0.
inline constexpr Code kSuccess = 0;
inline constexpr Code kErrorNotReady = 600;
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventBlockingSync = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr int kCopyDefault = 4;  // cudaMemcpyDefault: the direction follows the addresses

// Each member is the function cuda<Name>.
struct RuntimeApi {
  Code (*DriverGetVersion)(int* version) = nullptr;  // 13000 for 13.0; 0: no driver
  Code (*GetDeviceCount)(int* count) = nullptr;
  Code (*SetDevice)(int device) = nullptr;
  Code (*MemGetInfo)(size_t* free_bytes, size_t* total_bytes) = nullptr;
  Code (*Malloc)(void** memory, size_t bytes) = nullptr;
  Code (*Free)(void* memory) = nullptr;
  Code (*MemcpyAsync)(void* to, const void* from, size_t bytes, int kind, Stream stream) = nullptr;
  Code (*MemsetAsync)(void* memory, int value, size_t bytes, Stream stream) = nullptr;

  Code (*DeviceGetStreamPriorityRange)(int* least, int* greatest) = nullptr;
  Code (*StreamCreateWithPriority)(Stream* stream, unsigned flags, int priority) = nullptr;
  Code (*StreamDestroy)(Stream stream) = nullptr;
  Code (*StreamSynchronize)(Stream stream) = nullptr;
  Code (*StreamWaitEvent)(Stream stream, Event event, unsigned flags) = nullptr;
  Code (*LaunchHostFunc)(Stream stream, void (*work)(void*), void* argument) = nullptr;

  Code (*EventCreateWithFlags)(Event* event, unsigned flags) = nullptr;
  Code (*EventDestroy)(Event event) = nullptr;
  Code (*EventRecord)(Event event, Stream stream) = nullptr;
  Code (*EventQuery)(Event event) = nullptr;  // kErrorNotReady: not yet
  Code (*EventSynchronize)(Event event) = nullptr;
  Code (*EventElapsedTime)(float* milliseconds, Event start, Event end) = nullptr;

  Code (*GetLastError)() = nullptr;  // and clears it, unless it is one that sticks
  const char* (*GetErrorString)(Code code) = nullptr;
  Code (*ProfilerStart)() = nullptr;
  Code (*ProfilerStop)() = nullptr;
};

// Opens the library and finds all functions. It stays loaded until the process ends. `library` is a
// path or a plain name; the default finds the copy that LibTorch has loaded, if it has. Error: the
// library or one of its functions is not there.
Result<RuntimeApi> LoadRuntimeApi(const std::string& library = "libcudart.so.13");

// What a CUDA call says when it fails; it reaches the user with rank and op.
std::string Describe(const RuntimeApi& api, const char* call, Code code);

// What Check() throws.
class RuntimeError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// cudaEventQuery. "Not yet" is no error, but the runtime keeps it as the thread's last one, and
// a check after the next launch would take it for that launch's: it is cleared here.
Code QueryEvent(const RuntimeApi& api, Event event);

// Throws RuntimeError with that text unless `code` is success. Inside engine/cuda only.
void Check(const RuntimeApi& api, const char* call, Code code);

}  // namespace shardscope::cuda
