// NcclApi: the functions of NCCL that the transport needs, opened at run time: training on one GPU
// does not need the library, and tests have one of their own.
#pragma once

#include <nccl.h>

#include <string>

#include "trace/base/status.h"

namespace shardscope::cuda {

// Each member is the function nccl<Name>.
struct NcclApi {
  decltype(&ncclGetVersion) GetVersion = nullptr;
  decltype(&ncclGetErrorString) GetErrorString = nullptr;
  decltype(&ncclGetLastError) GetLastError = nullptr;
  decltype(&ncclGetUniqueId) GetUniqueId = nullptr;
  decltype(&ncclCommInitRankConfig) CommInitRankConfig = nullptr;
  decltype(&ncclCommGetAsyncError) CommGetAsyncError = nullptr;
  decltype(&ncclCommAbort) CommAbort = nullptr;
  decltype(&ncclGroupStart) GroupStart = nullptr;
  decltype(&ncclGroupEnd) GroupEnd = nullptr;
  decltype(&ncclAllGather) AllGather = nullptr;
  decltype(&ncclReduceScatter) ReduceScatter = nullptr;
  decltype(&ncclAllReduce) AllReduce = nullptr;
  decltype(&ncclBroadcast) Broadcast = nullptr;
};

// `library` is a path or a plain name; the default finds the copy that LibTorch has loaded, if it
// has. It stays loaded until the process ends. Error: it is not there, is older than what this was
// written for (the configuration's layout), or lacks a function.
Result<NcclApi> LoadNcclApi(const std::string& library = "libnccl.so.2");

// "2.28.9".
std::string NcclVersionText(int version);

}  // namespace shardscope::cuda
