#include "trace/record/cupti/session.h"

#include <cupti_driver_cbid.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "trace/record/cupti/synthetic_test_util.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
extern "C" int __sanitizer_get_ownership(
    const volatile void* block);  // GCC comes without its header
#endif

namespace shardscope::cupti {
namespace {

using ::testing::HasSubstr;

// A CUPTI made of counters: each test runs in a process of its own (a session is one a process), so
// plain globals do.
struct Fake {
  std::vector<std::string> calls;
  CUptiResult subscribe = CUPTI_SUCCESS;
  std::map<CUpti_ActivityKind, CUptiResult> refused_kinds;
  std::set<CUpti_CallbackId> refused_runtime, refused_driver;
  uint32_t version = 130001;
  std::string holder;
  CUpti_BuffersCallbackRequestFunc request = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
  CUpti_CallbackFunc callback = nullptr;
  void* userdata = nullptr;
  std::atomic<size_t> dropped = 0;
  std::atomic<int> flushes = 0;
  std::atomic<int> forced = 0;
  std::set<CUpti_ActivityKind> kinds;
  std::set<CUpti_CallbackId> runtime, driver;
  std::mutex mutex;                      // guards the next
  std::set<CUpti_CallbackId> callbacks;  // of the driver's calls
};
Fake fake;

CuptiFunctions FakeFunctions() {
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
    const std::lock_guard lock(fake.mutex);
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
  std::mutex mutex;
  std::vector<Batch> batches;
  size_t num_kernels = 0;
};

Result<std::unique_ptr<Session>> StartSession(Seen* seen, SessionOptions options = {}) {
  return Session::Start(FakeFunctions(), options, [seen](Batch batch, const Names&) {
    const std::lock_guard lock(seen->mutex);
    seen->num_kernels += batch.kernels.size();
    seen->batches.push_back(std::move(batch));
  });
}

// What a thread of the traced program does in CUPTI: takes a buffer, fills it, hands it back.
bool FillOneBuffer(int kernels) {
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

TEST(SessionDeathTest, EnablesLaunchesOfEveryCompilerAndNeverTheSerialisingKind) {
  InChild([] {
    Seen seen;
    auto session = StartSession(&seen);
    ASSERT_TRUE(session.ok());
    for (const CUpti_CallbackId launch : {211, 214, 505, 506, 430})
      EXPECT_TRUE(fake.runtime.count(launch)) << launch;
    for (const CUpti_CallbackId call : {307, 442, 652, 653, 306, 277, 279, 281})
      EXPECT_TRUE(fake.driver.count(call)) << call;
    EXPECT_TRUE((*session)->missing().empty());
    for (const CUpti_CallbackId noise : {10, 17, 138, 151, 317})
      EXPECT_FALSE(fake.runtime.count(noise)) << noise;
    EXPECT_TRUE(fake.kinds.count(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
    EXPECT_FALSE(fake.kinds.count(CUPTI_ACTIVITY_KIND_KERNEL));
    EXPECT_FALSE(
        fake.kinds.count(CUPTI_ACTIVITY_KIND_GRAPH_TRACE));  // it would hide the graph's kernels
    EXPECT_EQ(fake.calls.front(), "register callbacks");     // before anything is enabled
  });
}

TEST(SessionDeathTest, WhatIsHandedBackIsDecodedOnceAndForcedOutOnlyAtTheEnd) {
  InChild([] {
    Seen seen;
    SessionOptions options;
    options.flush_period_ns = 1'000'000;
    auto session = StartSession(&seen, options);
    ASSERT_TRUE(session.ok());
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([] {
        for (int i = 0; i < 50; ++i) {
          while (!FillOneBuffer(5)) std::this_thread::yield();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(fake.forced, 0);
    (*session)->Stop();
    EXPECT_EQ(seen.num_kernels, 4u * 50 * 5);
    EXPECT_EQ((*session)->counts().decoded, 4 * 50 * 5);
    EXPECT_EQ(fake.forced, 1);
    EXPECT_EQ(fake.calls.back(), "unsubscribe");
    EXPECT_TRUE(fake.kinds.empty());
  });
}

TEST(SessionDeathTest, ABoundedPoolRefusesAndCounts) {
  InChild([] {
    Seen seen;
    SessionOptions options;
    options.max_buffers = 3;
    options.flush_period_ns = 3'600'000'000'000;
    auto session = StartSession(&seen, options);
    ASSERT_TRUE(session.ok());
    EXPECT_TRUE(FillOneBuffer(1) && FillOneBuffer(1) && FillOneBuffer(1));
    EXPECT_FALSE(FillOneBuffer(1));
    fake.dropped = 17;
    (*session)->Stop();
    EXPECT_EQ((*session)->counts().buffers_refused, 1);
    EXPECT_EQ((*session)->counts().dropped, 17);
    EXPECT_EQ(seen.num_kernels, 3u);
  });
}

TEST(SessionDeathTest, SaysWhoHoldsCupti) {
  InChild([] {
    fake.subscribe = CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    fake.holder = "CUPTI for Kineto";
    Seen seen;
    auto session = StartSession(&seen);
    ASSERT_FALSE(session.ok());
    EXPECT_THAT(session.status().message(), HasSubstr("CUPTI for Kineto"));
  });
}

TEST(SessionDeathTest, WithoutADriverEveryFailureMeansNotToBeHad) {
  InChild([] {
    fake.subscribe = CUPTI_ERROR_UNKNOWN;  // what the real one answers without a driver
    Seen seen;
    auto session = StartSession(&seen);
    ASSERT_FALSE(session.ok());
    EXPECT_THAT(session.status().message(), HasSubstr("cuptiSubscribe gave 999"));
  });
}

TEST(SessionDeathTest, WithoutKernelsCopiesOrLaunchesThereIsNone) {
  const auto expect_refused = [](const std::string& what) {
    Seen seen;
    auto session = StartSession(&seen);
    ASSERT_FALSE(session.ok());
    EXPECT_THAT(session.status().message(), HasSubstr(what));
    EXPECT_EQ(fake.calls.back(), "unsubscribe");  // taken back
    EXPECT_TRUE(fake.kinds.empty());
  };
  InChild([&] {
    fake.refused_kinds[CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL] = CUPTI_ERROR_UNKNOWN;
    expect_refused(
        "no kernels: cuptiActivityEnable(CONCURRENT_KERNEL) gave 999 (CUPTI_ERROR_UNKNOWN)");
  });
  InChild([&] {
    fake.refused_kinds[CUPTI_ACTIVITY_KIND_MEMCPY] = CUPTI_ERROR_NOT_COMPATIBLE;
    expect_refused("no copies: cuptiActivityEnable(MEMCPY) gave");
  });
  InChild([&] {
    fake.refused_runtime = {211, 214, 505, 506, 430, 431};
    fake.refused_driver = {307, 442, 652, 653};
    expect_refused(
        "no launches of kernels: cuptiActivityEnableRuntimeApi(cudaLaunchKernel_v7000, cbid 211)");
  });
}

TEST(SessionDeathTest, WhatElseIsRefusedIsNamedAndTheRestRecorded) {
  InChild([] {
    fake.refused_kinds[CUPTI_ACTIVITY_KIND_MEMORY2] = CUPTI_ERROR_NOT_SUPPORTED;
    fake.refused_kinds[CUPTI_ACTIVITY_KIND_CUDA_EVENT] = CUPTI_ERROR_INVALID_KIND;
    fake.refused_driver = {551, 652};
    Seen seen;
    auto session = StartSession(&seen);
    ASSERT_TRUE(session.ok()) << session.message();
    EXPECT_TRUE(FillOneBuffer(2));
    const std::vector<std::string>& missing = (*session)->missing();
    ASSERT_EQ(missing.size(), 3u);
    EXPECT_THAT(missing[0], HasSubstr("2 calls are not recorded"));
    EXPECT_THAT(missing[0], HasSubstr("cuLaunchKernelEx, cbid 652"));
    EXPECT_THAT(missing[0], HasSubstr("cuMemMap, cbid 551"));
    EXPECT_THAT(missing[0], HasSubstr("CUPTI_ERROR_INVALID_PARAMETER"));
    EXPECT_THAT(missing[1], HasSubstr("cuptiActivityEnable(CUDA_EVENT) gave"));
    EXPECT_THAT(missing[1], HasSubstr("CUPTI_ERROR_INVALID_KIND"));
    EXPECT_THAT(missing[2], HasSubstr("no memory that the driver hands out"));
    EXPECT_TRUE(fake.kinds.contains(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION));
    EXPECT_TRUE(fake.runtime.contains(505));
    (*session)->Stop();
    EXPECT_EQ(seen.num_kernels, 2u);
    EXPECT_TRUE(fake.kinds.empty());
  });
}

TEST(SessionDeathTest, TheRealLibraryWithoutADriverGivesAnErrorAndNoCrash) {
  InChild([] {
    const Result<CuptiFunctions> real = LoadCupti(SHARDSCOPE_CUPTI_LIBRARY);
    ASSERT_TRUE(real.ok());
    auto session = Session::Start(*real, {}, [](Batch, const Names&) {});
    // With a driver there is a session, which stops again.
    if (session.ok()) return;
    EXPECT_THAT(session.status().message(), HasSubstr("CUPTI is not to be had"));
  });
}

TEST(SessionDeathTest, ItCanBeSwitchedOff) {
  InChild([] {
    setenv(kSwitchVariable, "off", 1);
    Seen seen;
    auto session = StartSession(&seen);
    ASSERT_FALSE(session.ok());
    EXPECT_THAT(session.status().message(), HasSubstr("SHARDSCOPE_CUPTI=off"));
    EXPECT_TRUE(fake.calls.empty());
  });
}

TEST(SessionDeathTest, AnOlderCuptiIsRefused) {
  InChild([] {
    fake.version = 130000;
    Seen seen;
    auto session = StartSession(&seen);
    ASSERT_FALSE(session.ok());
    EXPECT_THAT(session.status().message(), HasSubstr("130000"));
  });
}

// A call of the driver as CUPTI tells of it, if it was asked to.
void CallDriver(CUpti_CallbackId id) {
  {
    const std::lock_guard lock(fake.mutex);
    if (fake.callbacks.count(id) == 0) return;
  }
  CUpti_CallbackData data = {};
  data.callbackSite = CUPTI_API_ENTER;
  fake.callback(fake.userdata, CUPTI_CB_DOMAIN_DRIVER_API, id, &data);
  data.callbackSite = CUPTI_API_EXIT;
  fake.callback(fake.userdata, CUPTI_CB_DOMAIN_DRIVER_API, id, &data);
}

TEST(SessionDeathTest, TheProgramsProfilerCallsAreTold) {
  InChild([] {
    std::vector<bool> switches;
    Seen seen;
    SessionOptions options;
    options.on_profiler = [&](bool on, int64_t time_ns) {
      switches.push_back(on);
      EXPECT_GT(time_ns, 0);
    };
    auto session = StartSession(&seen, options);
    ASSERT_TRUE(session.ok());
    CallDriver(CUPTI_DRIVER_TRACE_CBID_cuProfilerStart);
    CallDriver(CUPTI_DRIVER_TRACE_CBID_cuProfilerStop);
    EXPECT_EQ(switches, (std::vector<bool>{true, false}));
  });
}

TEST(SessionDeathTest, LaunchesWithoutBuffersAreNoticed) {
  InChild([] {
    Seen seen;
    SessionOptions options;
    options.flush_period_ns = 1'000'000;
    options.silence_ns = 20'000'000;
    auto session = StartSession(&seen, options);
    ASSERT_TRUE(session.ok());
    EXPECT_TRUE(FillOneBuffer(1));
    EXPECT_FALSE((*session)->counts().silent);
    // Another tool has registered its callbacks: none of ours is called any more.
    while (!(*session)->counts().silent) {
      CallDriver(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel);
      std::this_thread::yield();
    }
    // Launches are not counted for ever: this ends.
    const auto is_counting = [] {
      const std::lock_guard lock(fake.mutex);
      return !fake.callbacks.empty();
    };
    while (is_counting()) std::this_thread::yield();
  });
}

TEST(SessionDeathTest, APauseEndsWorkAndCallsButNotTheLedgerOfMemory) {
  InChild([] {
    fake.refused_kinds[CUPTI_ACTIVITY_KIND_MEMSET] = CUPTI_ERROR_NOT_COMPATIBLE;
    Seen seen;
    auto session = StartSession(&seen);
    ASSERT_TRUE(session.ok());
    const auto kinds = fake.kinds;
    const auto runtime = fake.runtime, driver = fake.driver;
    (*session)->SetRecording(false);
    EXPECT_TRUE(fake.runtime.empty());
    EXPECT_TRUE(fake.driver.empty());
    EXPECT_EQ(fake.kinds, (std::set<CUpti_ActivityKind>{CUPTI_ACTIVITY_KIND_MEMORY2,
                                                        CUPTI_ACTIVITY_KIND_OVERHEAD}));
    (*session)->SetRecording(true);
    EXPECT_EQ(fake.kinds, kinds);  // what was refused is not asked for again
    EXPECT_EQ(fake.runtime, runtime);
    EXPECT_EQ(fake.driver, driver);
    EXPECT_EQ(fake.forced, 0);
    const size_t num_calls = fake.calls.size();
    (*session)->SetRecording(true);  // it is on
    EXPECT_EQ(fake.calls.size(), num_calls);
    (*session)->SetRecording(false);
    (*session)->Stop();
    EXPECT_TRUE(fake.kinds.empty());
  });
}

TEST(SessionDeathTest, APauseIsNoSilence) {
  InChild([] {
    Seen seen;
    SessionOptions options;
    options.flush_period_ns = 1'000'000;
    options.silence_ns = 1;
    auto session = StartSession(&seen, options);
    ASSERT_TRUE(session.ok());
    (*session)->SetRecording(false);
    const int before = fake.flushes;
    while (fake.flushes < before + 5) std::this_thread::yield();
    const std::lock_guard lock(fake.mutex);
    EXPECT_TRUE(fake.callbacks.empty());  // launches are not counted
  });
}

// Whether `block` is on the heap. Without a sanitizer by how many bytes the C library has mapped
// with it; a sanitizer's heap is not in the C library's books, but knows each of its blocks.
bool IsAllocated([[maybe_unused]] const void* block, [[maybe_unused]] size_t mapped_with_it) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return __sanitizer_get_ownership(block) != 0;
#else
  return mallinfo2().hblkhd >= mapped_with_it;
#endif
}

TEST(SessionDeathTest, WhatRecordsOfOverheadPointToIsFreed) {
  InChild([] {
    Seen seen;
    auto session = StartSession(&seen);
    ASSERT_TRUE(session.ok());
    uint8_t* buffer = nullptr;
    size_t size = 0, max_records = 0;
    fake.request(&buffer, &size, &max_records);
    CUpti_ActivityOverhead3 record = {};
    record.kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
    record.overheadKind = CUPTI_ACTIVITY_OVERHEAD_COMMAND_BUFFER_FULL;
    record.start = record.end = 7;
    // More than the C library keeps on its own list of free blocks, so that a leak shows.
    constexpr size_t kBytes = 8 << 20;
    const size_t mapped_with_it = mallinfo2().hblkhd + kBytes;
    record.overheadData = std::malloc(kBytes);
    ASSERT_TRUE(IsAllocated(record.overheadData, mapped_with_it));
    std::memcpy(buffer, &record, sizeof record);
    fake.complete(nullptr, 0, buffer, size, sizeof record);
    (*session)->Stop();
    EXPECT_EQ((*session)->counts().decoded, 1);
    EXPECT_FALSE(IsAllocated(record.overheadData, mapped_with_it));
  });
}

TEST(SilenceWatch, AnIdleProgramIsNotSilentAndABusyOneWithBuffersIsNotAsked) {
  SilenceWatch watch(100);
  int64_t now_ns = 1000, buffers = 0;
  watch.Look(now_ns, buffers, 0);
  for (int i = 0; i < 50; ++i) {
    watch.Look(now_ns += 10, ++buffers, 0);
    EXPECT_FALSE(watch.counts_launches());
  }
  for (int i = 0; i < 50; ++i) watch.Look(now_ns += 10, buffers, 0);
  EXPECT_TRUE(watch.counts_launches());  // without launches that costs nothing
  EXPECT_FALSE(watch.is_silent());
  watch.Look(now_ns += 10, buffers, 1);  // it works again, and its buffer comes with the next flush
  watch.Look(now_ns += 10, ++buffers, 1);
  EXPECT_FALSE(watch.counts_launches() || watch.is_silent());
  int64_t launches = 1;
  for (int i = 0; i < 25; ++i) watch.Look(now_ns += 10, buffers, ++launches);
  EXPECT_TRUE(watch.is_silent());
  watch.Look(now_ns += 10, ++buffers, launches);
  EXPECT_FALSE(watch.is_silent());
}

TEST(SessionDeathTest, AProcessHasOneSession) {
  InChild([] {
    Seen seen;
    auto first = StartSession(&seen);
    ASSERT_TRUE(first.ok());
    (*first)->Stop();
    auto second = StartSession(&seen);
    ASSERT_FALSE(second.ok());
    EXPECT_THAT(second.status().message(), HasSubstr("one session"));
  });
}

TEST(SessionDeathTest, RawBuffersAreDumpedWhereTheEnvironmentSays) {
  const std::string folder = testing::TempDir();
  const std::string path = folder + "/cupti-" + std::to_string(getpid()) + ".buffers";
  InChild([&] {
    setenv(kDumpVariable, folder.c_str(), 1);
    Seen seen;
    SessionOptions options;
    EXPECT_EQ(options.dump_path, DumpPathFromEnvironment());
    options.dump_path = path;  // this child's id is not known outside
    auto session = StartSession(&seen, options);
    ASSERT_TRUE(session.ok());
    EXPECT_TRUE(FillOneBuffer(3) && FillOneBuffer(2));
    (*session)->Stop();
    EXPECT_EQ(seen.num_kernels, 5u);
  });
  const Result<LoadedDump> dump = ReadBufferDump(path);
  ASSERT_TRUE(dump.ok()) << dump.message();
  ASSERT_EQ(dump->buffers.size(), 2u);
  EXPECT_EQ(dump->buffers[0].size + dump->buffers[1].size, 5 * sizeof(CUpti_ActivityKernel10));
  ASSERT_EQ(dump->names.size(), 1u);
  EXPECT_EQ(dump->names.begin()->second, "gemm");
  std::filesystem::remove(path);
}

TEST(SessionDeathTest, ADumpThatCannotBeWrittenIsAnError) {
  InChild([] {
    Seen seen;
    SessionOptions options;
    options.dump_path = "/nowhere/x.buffers";
    auto session = StartSession(&seen, options);
    ASSERT_FALSE(session.ok());
    EXPECT_THAT(session.status().message(), HasSubstr("/nowhere/x.buffers"));
  });
}

TEST(SessionDeathTest, AFatalErrorIsSeen) {
  InChild([] {
    Seen seen;
    SessionOptions options;
    options.flush_period_ns = 3'600'000'000'000;
    auto session = StartSession(&seen, options);
    ASSERT_TRUE(session.ok());
    fake.callback(fake.userdata, CUPTI_CB_DOMAIN_STATE, CUPTI_CBID_STATE_FATAL_ERROR, nullptr);
    EXPECT_TRUE((*session)->counts().fatal);
    EXPECT_TRUE(FillOneBuffer(1));
    const int flushes = fake.flushes;
    (*session)->Stop();
    EXPECT_EQ(seen.num_kernels, 1u);   // what it had handed out
    EXPECT_EQ(fake.flushes, flushes);  // CUPTI, which has finalised itself, is left alone
    EXPECT_THAT(fake.calls, testing::Not(testing::Contains("unsubscribe")));
    EXPECT_FALSE(fake.kinds.empty());
  });
}

}  // namespace
}  // namespace shardscope::cupti
