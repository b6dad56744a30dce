#include "trace/record/cupti/functions.h"

#include <dlfcn.h>

#include <fmt/format.h>

namespace shardscope::cupti {
namespace {

constexpr const char* kLibrary = "libcupti.so.13";

class Resolver {
 public:
  explicit Resolver(void* library) : library_(library) {}

  template <typename Function>
  void operator()(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library_, name));
    if (function == nullptr && missing_.empty()) missing_ = name;
  }
  const std::string& missing() const { return missing_; }

 private:
  void* library_;
  std::string missing_;
};

void* OpenLibrary(const std::string& path) {
  // LibTorch links its own copy: two copies in one process would fight for the one subscriber.
  if (void* loaded = dlopen(kLibrary, RTLD_NOW | RTLD_NOLOAD)) return loaded;
  if (!path.empty()) return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  return dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
}

}  // namespace

Result<CuptiFunctions> LoadCupti(const std::string& path) {
  void* library = OpenLibrary(path);
  if (library == nullptr) {
    const char* reason = dlerror();
    return Status::Error(fmt::format("CUPTI is not there ({}); install it (PyPI nvidia-cuda-cupti)",
                                     reason == nullptr ? kLibrary : reason));
  }
  CuptiFunctions table;
  Resolver resolve(library);
  resolve(table.GetVersion, "cuptiGetVersion");
  resolve(table.GetResultString, "cuptiGetResultString");
  resolve(table.Subscribe, "cuptiSubscribe_v2");
  resolve(table.Unsubscribe, "cuptiUnsubscribe");
  resolve(table.EnableDomain, "cuptiEnableDomain");
  resolve(table.EnableCallback, "cuptiEnableCallback");
  resolve(table.SetThreadIdType, "cuptiSetThreadIdType");
  resolve(table.ActivityRegisterTimestampCallback, "cuptiActivityRegisterTimestampCallback");
  resolve(table.ActivityRegisterCallbacks, "cuptiActivityRegisterCallbacks");
  resolve(table.ActivitySetAttribute, "cuptiActivitySetAttribute");
  resolve(table.ActivityGetAttribute, "cuptiActivityGetAttribute");
  resolve(table.ActivityEnable, "cuptiActivityEnable");
  resolve(table.ActivityDisable, "cuptiActivityDisable");
  resolve(table.ActivityEnableAndDump, "cuptiActivityEnableAndDump");
  resolve(table.ActivityEnableRuntimeApi, "cuptiActivityEnableRuntimeApi");
  resolve(table.ActivityEnableDriverApi, "cuptiActivityEnableDriverApi");
  resolve(table.ActivityEnableAllSyncRecords, "cuptiActivityEnableAllSyncRecords");
  resolve(table.ActivityEnableEventTimestamps, "cuptiActivityEnableCudaEventDeviceTimestamps");
  resolve(table.ActivityFlushAll, "cuptiActivityFlushAll");
  resolve(table.ActivityGetNextRecord, "cuptiActivityGetNextRecord");
  resolve(table.GetCallbackName, "cuptiGetCallbackName");
  resolve(table.ActivityGetNumDroppedRecords, "cuptiActivityGetNumDroppedRecords");
  resolve(table.GetStreamIdEx, "cuptiGetStreamIdEx");
  resolve(table.GetContextId, "cuptiGetContextId");
  if (!resolve.missing().empty()) {
    return Status::Error(
        fmt::format("this CUPTI lacks {}: version {} is needed", resolve.missing(), kCuptiMajor));
  }
  uint32_t version = 0;
  if (table.GetVersion(&version) != CUPTI_SUCCESS || version / 10000 != kCuptiMajor) {
    return Status::Error(
        fmt::format("this CUPTI has API version {}; only {}.x is known", version, kCuptiMajor));
  }
  return table;
}

}  // namespace shardscope::cupti
