// Memory of the golden scenario against the Schedule's own figures.
#include <gtest/gtest.h>

#include "engine/plan/memory.h"
#include "tests/golden/gpu_scenario.h"
#include "trace/analysis/memory/memory.h"
#include "trace/query/live_trace.h"
#include "trace/query/trace_test_util.h"

namespace shardscope::golden {
namespace {

TEST(DeviceMemoryGolden, LedgersAreThoseOfTheScheduleAndBandsAddUp) {
  const Result<cupti::CuptiFunctions> functions = cupti::LoadCupti(SHARDSCOPE_CUPTI_LIBRARY);
  SHARDSCOPE_CHECK(functions.ok());
  ScenarioOptions options;
  options.policy.mesh = plan::MeshOf(plan::MeshDimension::kShard, 2);
  const Scenario scenario = MakeScenario(options);
  const query::TestFolder folder;
  ASSERT_TRUE(WriteTrace(scenario, *functions, folder.path()).ok());
  const Result<query::SnapshotPtr> snapshot = query::ReadSnapshot(folder.path());
  ASSERT_TRUE(snapshot.ok());
  const DeviceBytes device = DeviceBytesOf(*scenario.schedule);
  const auto issue = analysis::MemoryPeaks(**snapshot, analysis::Ledger::kIssue);
  const auto execution = analysis::MemoryPeaks(**snapshot);
  ASSERT_EQ(issue.size(), 2u);
  for (size_t rank = 0; rank < issue.size(); ++rank) {
    EXPECT_EQ(issue[rank].peak_bytes,
              plan::PredictPeak(*scenario.schedule, static_cast<int>(rank)).total);
    EXPECT_EQ(issue[rank].driver_peak_bytes, device.allocator + device.others);
    EXPECT_EQ(issue[rank].device_peak_bytes, device.allocator + device.others + device.context);
    EXPECT_LE(execution[rank].peak_bytes, device.allocator);
    // A step gives back what it took, so all that is left is what it began with.
    const query::RankRows& rows = (*snapshot)->ranks[rank];
    int64_t left = 0;
    int64_t began = 0;
    int64_t later_frees = 0;
    for (const query::MemoryEvent& event : rows.memory) {
      left += event.bytes;
      if (!event.is_of_step) began += event.bytes;
      later_frees += event.bytes < 0 && event.executed_ns > event.issued_ns ? 1 : 0;
    }
    EXPECT_EQ(left, began);
    EXPECT_GT(began, 0);
    EXPECT_GT(later_frees, 10);  // asked for before the GPU was done
    EXPECT_EQ(rows.reserved.size(), static_cast<size_t>(options.steps));
    EXPECT_EQ(rows.device_used.size(), static_cast<size_t>(options.steps));
  }
}

}  // namespace
}  // namespace shardscope::golden
