#include "engine/cuda/transport/nccl/nccl_api.h"

#include <dlfcn.h>

namespace shardscope::cuda {
namespace {

// blocking=0 with ncclCommGetAsyncError for initialisation and group calls.
constexpr int kOldestVersion = NCCL_VERSION(2, 18, 1);

}  // namespace

std::string NcclVersionText(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

Result<NcclApi> LoadNcclApi(const std::string& library) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = dlerror();
    return Status::Error("transport nccl: " + library + " cannot be opened (" +
                         (reason == nullptr ? "no reason given" : reason) +
                         "); install nvidia-nccl-cu13, or use transport=local on one GPU");
  }
  NcclApi api;
  std::string missing;
  const auto find = [&](const char* name, auto* function) {
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(dlsym(handle, name));
    if (*function == nullptr && missing.empty()) missing = name;
  };
  find("ncclGetVersion", &api.GetVersion);
  find("ncclGetErrorString", &api.GetErrorString);
  find("ncclGetLastError", &api.GetLastError);
  find("ncclGetUniqueId", &api.GetUniqueId);
  find("ncclCommInitRankConfig", &api.CommInitRankConfig);
  find("ncclCommGetAsyncError", &api.CommGetAsyncError);
  find("ncclCommAbort", &api.CommAbort);
  find("ncclGroupStart", &api.GroupStart);
  find("ncclGroupEnd", &api.GroupEnd);
  find("ncclAllGather", &api.AllGather);
  find("ncclReduceScatter", &api.ReduceScatter);
  find("ncclAllReduce", &api.AllReduce);
  find("ncclBroadcast", &api.Broadcast);
  if (!missing.empty()) {
    return Status::Error("transport nccl: " + library + " has no function " + missing +
                         "; version 2.28 is wanted");
  }
  int version = 0;
  if (api.GetVersion(&version) != ncclSuccess || version < kOldestVersion) {
    return Status::Error("transport nccl: " + library + " is version " + NcclVersionText(version) +
                         ", at least " + NcclVersionText(kOldestVersion) + " is needed");
  }
  return api;
}

}  // namespace shardscope::cuda
