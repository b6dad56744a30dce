#include "trace/record/cupti/sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trace/record/cupti/fake_session_test_util.h"

namespace shardscope::cupti {
namespace {

using ::testing::HasSubstr;

TEST(SourcesDeathTest, EnablesLaunchesOfEveryCompilerAndNeverTheSerialisingKind) {
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

TEST(SourcesDeathTest, WithoutKernelsCopiesOrLaunchesThereIsNone) {
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

TEST(SourcesDeathTest, WhatElseIsRefusedIsNamedAndTheRestRecorded) {
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

TEST(SourcesDeathTest, APauseEndsWorkAndCallsButNotTheLedgerOfMemory) {
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

}  // namespace
}  // namespace shardscope::cupti
