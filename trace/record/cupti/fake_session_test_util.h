// A CUPTI made of counters, and sessions over it, each in a process of its own.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "trace/base/mutex.h"
#include "trace/record/cupti/session.h"
#include "trace/record/cupti/synthetic_test_util.h"

namespace shardscope::cupti {

// Each test runs in a process of its own (a session is one a process), so
// plain globals do.
struct Fake {
  std::vector<std::string> calls;
  CUptiResult subscribe = CUPTI_SUCCESS;
  std::map<CUpti_ActivityKind, CUptiResult> refused_kinds;
  std::set<CUpti_CallbackId> refused_runtime, refused_driver;
  uint32_t version = 130001;
  std::string holder;
  std::map<CUpti_ActivityAttribute, std::string> attributes;  // their bytes; others are refused
  CUpti_BuffersCallbackRequestFunc request = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
  CUpti_CallbackFunc callback = nullptr;
  void* userdata = nullptr;
  std::atomic<size_t> dropped = 0;
  std::atomic<int> flushes = 0;
  std::atomic<int> forced = 0;
  std::set<CUpti_ActivityKind> kinds;
  std::set<CUpti_CallbackId> runtime, driver;
  Mutex mutex;
  std::set<CUpti_CallbackId> callbacks GUARDED_BY(mutex);  // of the driver's calls
};
inline Fake fake;

inline CuptiFunctions FakeFunctions() {
  const Result<CuptiFunctions> real = LoadCupti(SHARDSCOPE_CUPTI_LIBRARY);
  CuptiFunctions table = *real;  // the walker and the texts are real
  table.GetVersion = [](uint32_t* version) {
    *version = fake.version;
    return CUPTI_SUCCESS;
  };
  table.Subscribe = [](CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback,
                       void* userdata, CUpti_SubscriberParams* params) {
    fake.callback = callback;
    fake.userdata = userdata;
    std::snprintf(params->oldSubscriberName, params->oldSubscriberSize, "%s", fake.holder.c_str());
    if (fake.subscribe == CUPTI_SUCCESS) *subscriber = reinterpret_cast<CUpti_SubscriberHandle>(1);
    return fake.subscribe;
  };
  table.Unsubscribe = [](CUpti_SubscriberHandle) {
    fake.calls.emplace_back("unsubscribe");
    return CUPTI_SUCCESS;
  };
  table.EnableDomain = [](uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain) {
    return CUPTI_SUCCESS;
  };
  table.EnableCallback = [](uint32_t on, CUpti_SubscriberHandle, CUpti_CallbackDomain domain,
                            CUpti_CallbackId id) {
    const MutexLock lock(fake.mutex);
    if (domain == CUPTI_CB_DOMAIN_DRIVER_API && on != 0) fake.callbacks.insert(id);
    if (domain == CUPTI_CB_DOMAIN_DRIVER_API && on == 0) fake.callbacks.erase(id);
    return CUPTI_SUCCESS;
  };
  table.SetThreadIdType = [](CUpti_ActivityThreadIdType) { return CUPTI_SUCCESS; };
  table.ActivityRegisterTimestampCallback = [](CUpti_TimestampCallbackFunc) {
    return CUPTI_SUCCESS;
  };
  table.ActivitySetAttribute = [](CUpti_ActivityAttribute, size_t*, void*) {
    return CUPTI_SUCCESS;
  };
  table.ActivityGetAttribute = [](CUpti_ActivityAttribute attribute, size_t* size, void* value) {
    const auto found = fake.attributes.find(attribute);
    if (found == fake.attributes.end()) return CUPTI_ERROR_INVALID_PARAMETER;
    if (*size != found->second.size()) return CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT;
    std::memcpy(value, found->second.data(), *size);
    return CUPTI_SUCCESS;
  };
  table.ActivityRegisterCallbacks = [](CUpti_BuffersCallbackRequestFunc request,
                                       CUpti_BuffersCallbackCompleteFunc complete) {
    fake.request = request;
    fake.complete = complete;
    fake.calls.emplace_back("register callbacks");
    return CUPTI_SUCCESS;
  };
  table.ActivityEnable = [](CUpti_ActivityKind kind) {
    fake.calls.emplace_back("enable");
    const auto refused = fake.refused_kinds.find(kind);
    if (refused != fake.refused_kinds.end()) return refused->second;
    fake.kinds.insert(kind);
    return CUPTI_SUCCESS;
  };
  table.ActivityEnableAndDump = [](CUpti_ActivityKind) { return CUPTI_SUCCESS; };
  table.ActivityDisable = [](CUpti_ActivityKind kind) {
    fake.kinds.erase(kind);
    fake.calls.emplace_back("disable");
    return CUPTI_SUCCESS;
  };
  table.ActivityEnableRuntimeApi = [](CUpti_CallbackId id, uint8_t on) {
    if (on != 0 && fake.refused_runtime.contains(id)) return CUPTI_ERROR_INVALID_PARAMETER;
    on != 0 ? void(fake.runtime.insert(id)) : void(fake.runtime.erase(id));
    return CUPTI_SUCCESS;
  };
  table.ActivityEnableDriverApi = [](CUpti_CallbackId id, uint8_t on) {
    if (on != 0 && fake.refused_driver.contains(id)) return CUPTI_ERROR_INVALID_PARAMETER;
    on != 0 ? void(fake.driver.insert(id)) : void(fake.driver.erase(id));
    return CUPTI_SUCCESS;
  };
  table.ActivityEnableAllSyncRecords = [](uint8_t) { return CUPTI_SUCCESS; };
  table.ActivityEnableEventTimestamps = [](uint8_t) { return CUPTI_SUCCESS; };
  table.ActivityFlushAll = [](uint32_t flag) {
    ++fake.flushes;
    if (flag == CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) {
      ++fake.forced;
      fake.calls.emplace_back("forced flush");
    }
    return CUPTI_SUCCESS;
  };
  table.ActivityGetNumDroppedRecords = [](CUcontext, uint32_t, size_t* dropped) {
    *dropped = fake.dropped.exchange(0);
    return CUPTI_SUCCESS;
  };
  return table;
}

struct Seen {
  Mutex mutex;
  std::vector<Batch> batches;
  size_t num_kernels = 0;
};

inline Result<std::unique_ptr<Session>> StartSession(Seen* seen, SessionOptions options = {}) {
  return Session::Start(FakeFunctions(), options, [seen](Batch batch, const Names&) {
    const MutexLock lock(seen->mutex);
    seen->num_kernels += batch.kernels.size();
    seen->batches.push_back(std::move(batch));
  });
}

// What a thread of the traced program does in CUPTI: takes a buffer, fills it, hands it back.
inline bool FillOneBuffer(int kernels) {
  uint8_t* buffer = nullptr;
  size_t size = 0, max_records = 1;
  fake.request(&buffer, &size, &max_records);
  if (buffer == nullptr) return false;
  for (int i = 0; i < kernels; ++i) {
    const CUpti_ActivityKernel10 record = KernelRecord(100, 200, 7, 1, "gemm");
    std::memcpy(buffer + static_cast<size_t>(i) * sizeof record, &record, sizeof record);
  }
  fake.complete(nullptr, 0, buffer, size,
                static_cast<size_t>(kernels) * sizeof(CUpti_ActivityKernel10));
  return true;
}

// A session is one a process: every case runs in a child that reports by its exit code.
template <typename Body>
void InChild(Body body) {
  testing::FLAGS_gtest_death_test_style = "fast";
  EXPECT_EXIT(
      {
        body();
        std::_Exit(testing::Test::HasFailure() ? 1 : 0);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace shardscope::cupti
