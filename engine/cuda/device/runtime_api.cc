#include "engine/cuda/device/runtime_api.h"

#include <dlfcn.h>

namespace shardscope::cuda {
namespace {

// Looks functions up one by one; keeps the first that is missing.
class Resolver {
 public:
  explicit Resolver(void* library) : library_(library) {}

  template <typename Function>
  void Find(const char* symbol, Function* function) {
    *function = reinterpret_cast<Function>(dlsym(library_, symbol));
    if (*function == nullptr && missing_.empty()) missing_ = symbol;
  }
  const std::string& missing() const { return missing_; }

 private:
  void* const library_;
  std::string missing_;
};

void FindDeviceAndMemory(Resolver* resolver, RuntimeApi* api) {
  resolver->Find("cudaDriverGetVersion", &api->DriverGetVersion);
  resolver->Find("cudaGetDeviceCount", &api->GetDeviceCount);
  resolver->Find("cudaSetDevice", &api->SetDevice);
  resolver->Find("cudaMemGetInfo", &api->MemGetInfo);
  resolver->Find("cudaMalloc", &api->Malloc);
  resolver->Find("cudaFree", &api->Free);
  resolver->Find("cudaMemcpyAsync", &api->MemcpyAsync);
  resolver->Find("cudaMemsetAsync", &api->MemsetAsync);
  resolver->Find("cudaGetLastError", &api->GetLastError);
  resolver->Find("cudaGetErrorString", &api->GetErrorString);
  resolver->Find("cudaProfilerStart", &api->ProfilerStart);
  resolver->Find("cudaProfilerStop", &api->ProfilerStop);
}

void FindStreamsAndEvents(Resolver* resolver, RuntimeApi* api) {
  resolver->Find("cudaDeviceGetStreamPriorityRange", &api->DeviceGetStreamPriorityRange);
  resolver->Find("cudaStreamCreateWithPriority", &api->StreamCreateWithPriority);
  resolver->Find("cudaStreamDestroy", &api->StreamDestroy);
  resolver->Find("cudaStreamSynchronize", &api->StreamSynchronize);
  resolver->Find("cudaStreamWaitEvent", &api->StreamWaitEvent);
  resolver->Find("cudaLaunchHostFunc", &api->LaunchHostFunc);
  resolver->Find("cudaEventCreateWithFlags", &api->EventCreateWithFlags);
  resolver->Find("cudaEventDestroy", &api->EventDestroy);
  resolver->Find("cudaEventRecord", &api->EventRecord);
  resolver->Find("cudaEventQuery", &api->EventQuery);
  resolver->Find("cudaEventSynchronize", &api->EventSynchronize);
  resolver->Find("cudaEventElapsedTime", &api->EventElapsedTime);
}

}  // namespace

Result<RuntimeApi> LoadRuntimeApi(const std::string& library) {
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return Status::Error("the CUDA runtime cannot be loaded: " + std::string(dlerror()));
  }
  RuntimeApi api;
  Resolver resolver(handle);
  FindDeviceAndMemory(&resolver, &api);
  FindStreamsAndEvents(&resolver, &api);
  if (!resolver.missing().empty()) {
    return Status::Error(library + " has no function " + resolver.missing() +
                         ": CUDA 13 is needed");
  }
  return api;
}

std::string Describe(const RuntimeApi& api, const char* call, Code code) {
  return std::string(call) + ": " + api.GetErrorString(code) + " (CUDA error " +
         std::to_string(code) + ")";
}

Code QueryEvent(const RuntimeApi& api, Event event) {
  const Code code = api.EventQuery(event);
  if (code == kErrorNotReady) static_cast<void>(api.GetLastError());
  return code;
}

void Check(const RuntimeApi& api, const char* call, Code code) {
  if (code != kSuccess) throw RuntimeError(Describe(api, call, code));
}

}  // namespace shardscope::cuda
