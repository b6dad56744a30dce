// CuptiFunctions: the CUPTI calls that the recorder makes, as a table that is filled at run time.
//
// CUPTI is never linked: a machine without it, or without a driver, must run the same program. The
// table has three fillings: the real library, none (LoadCupti gives the reason), and a fake in
// tests.
#pragma once

#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_result.h>
#include <cupti_version.h>

#include <string>

#include "trace/base/status.h"

namespace shardscope::cupti {

// Named as in CUPTI's headers, without the prefix.
struct CuptiFunctions {
  decltype(&::cuptiGetVersion) GetVersion = nullptr;
  decltype(&::cuptiGetResultString) GetResultString = nullptr;
  decltype(&::cuptiSubscribe_v2) Subscribe = nullptr;
  decltype(&::cuptiUnsubscribe) Unsubscribe = nullptr;
  decltype(&::cuptiEnableDomain) EnableDomain = nullptr;
  decltype(&::cuptiEnableCallback) EnableCallback = nullptr;
  decltype(&::cuptiSetThreadIdType) SetThreadIdType = nullptr;
  decltype(&::cuptiActivityRegisterTimestampCallback) ActivityRegisterTimestampCallback = nullptr;
  decltype(&::cuptiActivityRegisterCallbacks) ActivityRegisterCallbacks = nullptr;
  decltype(&::cuptiActivitySetAttribute) ActivitySetAttribute = nullptr;
  decltype(&::cuptiActivityGetAttribute) ActivityGetAttribute = nullptr;
  decltype(&::cuptiActivityEnable) ActivityEnable = nullptr;
  decltype(&::cuptiActivityDisable) ActivityDisable = nullptr;
  decltype(&::cuptiActivityEnableAndDump) ActivityEnableAndDump = nullptr;
  decltype(&::cuptiActivityEnableRuntimeApi) ActivityEnableRuntimeApi = nullptr;
  decltype(&::cuptiActivityEnableDriverApi) ActivityEnableDriverApi = nullptr;
  decltype(&::cuptiActivityEnableAllSyncRecords) ActivityEnableAllSyncRecords = nullptr;
  decltype(&::cuptiActivityEnableCudaEventDeviceTimestamps) ActivityEnableEventTimestamps = nullptr;
  decltype(&::cuptiActivityFlushAll) ActivityFlushAll = nullptr;
  decltype(&::cuptiActivityGetNextRecord) ActivityGetNextRecord = nullptr;
  decltype(&::cuptiGetCallbackName) GetCallbackName = nullptr;
  decltype(&::cuptiActivityGetNumDroppedRecords) ActivityGetNumDroppedRecords = nullptr;
  decltype(&::cuptiGetStreamIdEx) GetStreamIdEx = nullptr;
  decltype(&::cuptiGetContextId) GetContextId = nullptr;
};

// The major version of CUPTI whose record layouts decode.cc reads (CUPTI_API_VERSION / 10000).
inline constexpr uint32_t kCuptiMajor = 13;

// The copy that this process has loaded already (LibTorch brings one), else `path` if it is not
// empty, else the plain name. Error: no library, a function is missing, or another major version;
// the message names it. The library stays loaded. Any thread.
Result<CuptiFunctions> LoadCupti(const std::string& path = "");

}  // namespace shardscope::cupti
