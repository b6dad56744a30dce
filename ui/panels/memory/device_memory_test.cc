#include "ui/panels/memory/memory_stack.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace shardscope::panels {
namespace {

using Kind = DeviceBand::Kind;

// 100 columns of 10 ns.
timeline::Axis TestAxis() { return {{0, 1000}, 50, 100}; }

MemoryStack Stack(std::vector<StackBox> boxes) {
  MemoryStack stack;
  stack.boxes = std::move(boxes);
  return stack;
}

std::vector<DeviceBand> Of(const DeviceMemory& device, Kind kind) {
  std::vector<DeviceBand> bands;
  std::copy_if(device.bands.begin(), device.bands.end(), std::back_inserter(bands),
               [kind](const DeviceBand& band) { return band.kind == kind; });
  return bands;
}

TEST(DeviceMemoryTest, BandsTileFromTheStackToWhatTheDriverHandedOut) {
  query::RankRows rows;
  rows.segments.Append({0, 1000, 0});
  rows.segments.Append({500, 400, 0});
  rows.segments.Append({700, -400, 0});
  rows.reserved.Append({0, 800});
  const MemoryStack live = Stack({{50, 150, 0, 300, query::MemoryCategory::kOther},
                                  {70, 90, 300, 700, query::MemoryCategory::kActivation}});
  const DeviceMemory device = MakeDeviceMemory(rows, {{}}, {live, {}}, TestAxis(), 1000);
  EXPECT_EQ(device.driver_bytes, 1400);
  EXPECT_EQ(device.reserved_bytes, 800);
  EXPECT_EQ(device.max_bytes, 1400);
  EXPECT_EQ(device.gap_bytes, 0);
  const std::vector<DeviceBand> reserved = Of(device, Kind::kReserved);
  ASSERT_EQ(reserved.size(), 3U);
  EXPECT_EQ(reserved[0].low_bytes, 300);
  EXPECT_EQ(reserved[0].high_bytes, 800);
  EXPECT_FLOAT_EQ(reserved[1].x0, 70);
  EXPECT_FLOAT_EQ(reserved[1].x1, 90);
  EXPECT_EQ(reserved[1].low_bytes, 700);
  const std::vector<DeviceBand> others = Of(device, Kind::kOthers);
  ASSERT_EQ(others.size(), 3U);
  for (const DeviceBand& band : others) EXPECT_EQ(band.low_bytes, 800);
  EXPECT_EQ(others[0].high_bytes, 1000);
  EXPECT_EQ(others[1].high_bytes, 1400);
  EXPECT_FLOAT_EQ(others[1].x0, 100);
  EXPECT_EQ(others[2].high_bytes, 1000);
  EXPECT_FLOAT_EQ(others[2].x1, 150);
}

TEST(DeviceMemoryTest, WhatIsFreedButInUseIsTheGapBetweenTheLedgers) {
  const MemoryStack live = Stack({{50, 150, 0, 500, query::MemoryCategory::kOther}});
  const MemoryStack issued = Stack({{50, 110, 0, 500, query::MemoryCategory::kOther},
                                    {110, 150, 0, 200, query::MemoryCategory::kOther}});
  const DeviceMemory device = MakeDeviceMemory({}, {{}}, {live, issued}, TestAxis(), 800);
  EXPECT_EQ(device.gap_bytes, 300);
  ASSERT_EQ(device.bands.size(), 1U);
  EXPECT_EQ(device.bands[0].kind, Kind::kFreeGap);
  EXPECT_FLOAT_EQ(device.bands[0].x0, 110);
  EXPECT_FLOAT_EQ(device.bands[0].x1, 130);  // where what is known ends
  EXPECT_EQ(device.bands[0].low_bytes, 200);
  EXPECT_EQ(device.bands[0].high_bytes, 500);
  EXPECT_EQ(device.driver_bytes, 0);
}

TEST(DeviceMemoryTest, WithoutRowsOfADeviceThereIsNothing) {
  const MemoryStack live = Stack({{50, 150, 0, 500, query::MemoryCategory::kOther}});
  query::RankRows rows;
  rows.reserved.Append({0, 800});  // runs on a CPU have these too
  EXPECT_TRUE(MakeDeviceMemory(rows, {{}}, {live, {}}, TestAxis(), 1000).bands.empty());
}

TEST(DeviceMemoryTest, WhatIsInUseBeyondTheDriversSegmentsIsContext) {
  query::RankRows rows;
  rows.segments.Append({0, 1000, 0, 16});
  rows.segments.Append({100, 300, 0, 32});
  rows.reserved.Append({0, 800});
  rows.device_used.Append({0, 1500});
  rows.device_used.Append({500, 2000});
  const MemoryStack live = Stack({{50, 150, 0, 300, query::MemoryCategory::kOther}});
  const DeviceMemory device = MakeDeviceMemory(rows, {{false, true}}, {live, {}}, TestAxis(), 1000);
  EXPECT_EQ(device.used_bytes, 2000);
  EXPECT_EQ(device.nccl_bytes, 300);
  EXPECT_EQ(device.max_bytes, 2000);
  const std::vector<DeviceBand> nccl = Of(device, Kind::kNccl);
  ASSERT_EQ(nccl.size(), 1U);
  EXPECT_FLOAT_EQ(nccl[0].x0, 60);
  EXPECT_EQ(nccl[0].low_bytes, 800);
  EXPECT_EQ(nccl[0].high_bytes, 1100);
  const std::vector<DeviceBand> others = Of(device, Kind::kOthers);
  ASSERT_EQ(others.size(), 2U);  // before NCCL took its part, and above that
  EXPECT_EQ(others[1].low_bytes, 1100);
  EXPECT_EQ(others[1].high_bytes, 1300);
  const std::vector<DeviceBand> context = Of(device, Kind::kContext);
  ASSERT_EQ(context.size(), 3U);
  EXPECT_EQ(context[0].low_bytes, 1000);
  EXPECT_EQ(context[0].high_bytes, 1500);
  EXPECT_EQ(context[2].low_bytes, 1300);
  EXPECT_EQ(context[2].high_bytes, 2000);
}

TEST(DeviceMemoryTest, BeforeItsFirstReadingAnAllocatorHeldWhatItDidThen) {
  query::RankRows rows;
  rows.segments.Append({100, 500, 0, 16});
  rows.segments.Append({300, 600, 0, 32});
  rows.reserved.Append({600, 900});
  const DeviceMemory device = MakeDeviceMemory(rows, {{}}, {{}, {}}, TestAxis(), 1000);
  const std::vector<DeviceBand> reserved = Of(device, Kind::kReserved);
  ASSERT_EQ(reserved.size(), 2U);
  EXPECT_FLOAT_EQ(reserved[0].x0, 60);
  EXPECT_EQ(reserved[0].high_bytes, 500);
  EXPECT_FLOAT_EQ(reserved[1].x0, 80);
  EXPECT_EQ(reserved[1].high_bytes, 900);
  const std::vector<DeviceBand> others = Of(device, Kind::kOthers);
  ASSERT_EQ(others.size(), 1U);
  EXPECT_FLOAT_EQ(others[0].x0, 80);
  EXPECT_EQ(others[0].low_bytes, 900);
  EXPECT_EQ(others[0].high_bytes, 1100);
}

TEST(DeviceMemoryTest, TheCounterAloneIsEnoughForContext) {
  query::RankRows rows;
  rows.device_used.Append({0, 500});
  const DeviceMemory device = MakeDeviceMemory(rows, {{}}, {{}, {}}, TestAxis(), 1000);
  ASSERT_EQ(device.bands.size(), 1U);
  EXPECT_EQ(device.bands[0].kind, Kind::kContext);
  EXPECT_EQ(device.bands[0].high_bytes, 500);
}

TEST(DeviceMemoryTest, TheTracersPartIsWhatItSaysAsFarAsThatIsInUse) {
  query::RankRows rows;
  rows.segments.Append({0, 1000, 0, 16});
  rows.device_used.Append({0, 1500});
  const DeviceMemory device = MakeDeviceMemory(rows, {{}, 200}, {{}, {}}, TestAxis(), 1000);
  EXPECT_EQ(device.tracer_bytes, 200);
  const std::vector<DeviceBand> tracer = Of(device, Kind::kTracer);
  ASSERT_EQ(tracer.size(), 1U);
  EXPECT_EQ(tracer[0].low_bytes, 1000);
  EXPECT_EQ(tracer[0].high_bytes, 1200);
  const std::vector<DeviceBand> context = Of(device, Kind::kContext);
  ASSERT_EQ(context.size(), 1U);
  EXPECT_EQ(context[0].low_bytes, 1200);
  EXPECT_EQ(context[0].high_bytes, 1500);
  const DeviceMemory little = MakeDeviceMemory(rows, {{}, 9000}, {{}, {}}, TestAxis(), 1000);
  EXPECT_EQ(little.tracer_bytes, 500);
  EXPECT_TRUE(Of(little, Kind::kContext).empty());
}

TEST(DeviceMemoryTest, WhatTheTracerTakesIsInTheTrace) {
  query::Snapshot snapshot;
  EXPECT_EQ(TracerBytes(snapshot), 0);
  snapshot.meta["cupti_device_bytes"] = "9600000";
  EXPECT_EQ(TracerBytes(snapshot), 9'600'000);
  for (const char* const foreign : {"", "-5", "many", "12abc", "99999999999999999999"}) {
    snapshot.meta["cupti_device_bytes"] = foreign;
    EXPECT_EQ(TracerBytes(snapshot), 0) << foreign;
  }
}

}  // namespace
}  // namespace shardscope::panels
