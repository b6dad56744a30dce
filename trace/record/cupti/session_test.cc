#include "trace/record/cupti/session.h"

#include <cupti_driver_cbid.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "trace/base/mutex.h"
#include "trace/record/cupti/fake_session_test_util.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
extern "C" int __sanitizer_get_ownership(
    const volatile void* block);  // GCC comes without its header
#endif

namespace shardscope::cupti {
namespace {

using ::testing::HasSubstr;

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
    const MutexLock lock(fake.mutex);
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
      const MutexLock lock(fake.mutex);
      return !fake.callbacks.empty();
    };
    while (is_counting()) std::this_thread::yield();
  });
}

TEST(SessionDeathTest, APauseIsNoSilence) {
  InChild([] {
    Seen seen;
    SessionOptions options;
    options.flush_period_ns = 3'600'000'000'000;  // nothing is looked at before the pause
    options.silence_ns = 1;
    auto session = StartSession(&seen, options);
    ASSERT_TRUE(session.ok());
    (*session)->SetRecording(false);
    for (int i = 0; i < 5; ++i) {
      const int before = fake.flushes;
      (*session)->FlushSoon();
      while (fake.flushes == before) std::this_thread::yield();
    }
    const MutexLock lock(fake.mutex);
    EXPECT_TRUE(fake.callbacks.empty());  // launches are not counted
  });
}

// Whether `block` is on the heap. Without a sanitizer by how many bytes the C library has mapped
// with it; a sanitizer's heap is not in the C library's books, but lists each of its blocks.
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

template <typename T>
std::string BytesOf(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

TEST(SessionDeathTest, WhatCuptiTakesOfTheGpuIsItsFirstBuffers) {
  const auto bytes_with = [](auto change) {
    InChild([change] {
      fake.attributes = {
          {CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE, BytesOf<size_t>(3'200'000)},
          {CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_PRE_ALLOCATE_VALUE, BytesOf<size_t>(3)},
          {CUPTI_ACTIVITY_ATTR_MEM_ALLOCATION_TYPE_HOST_PINNED, BytesOf<uint8_t>(0)}};
      const int64_t expected = change();
      Seen seen;
      auto session = StartSession(&seen);
      ASSERT_TRUE(session.ok());
      EXPECT_EQ((*session)->device_bytes(), expected);
    });
  };
  bytes_with([] { return 9'600'000; });
  bytes_with([] {  // its buffers are in the host's memory
    fake.attributes[CUPTI_ACTIVITY_ATTR_MEM_ALLOCATION_TYPE_HOST_PINNED] = BytesOf<uint8_t>(1);
    return 0;
  });
  bytes_with([] {  // it does not tell
    fake.attributes.clear();
    return 0;
  });
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
