// analysis::CheckEdges and view v_edge_check say the same of the golden scenario, whole and with
// waits lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/golden/gpu_scenario.h"
#include "trace/analysis/gpu/edge_check.h"
#include "trace/base/check.h"
#include "trace/query/live_trace.h"
#include "trace/store/database.h"
#include "trace/store/run_source.h"

namespace shardscope::golden {
namespace {

using Rows = std::vector<std::string>;

class EdgeCheckGolden : public ::testing::Test {
 protected:
  EdgeCheckGolden() {
    std::string pattern = (std::filesystem::temp_directory_path() / "shardscope-XXXXXX").string();
    SHARDSCOPE_CHECK(mkdtemp(pattern.data()) != nullptr);
    folder_ = pattern;
  }
  ~EdgeCheckGolden() override { std::filesystem::remove_all(folder_); }

  void Write(plan::Preset preset, const Delivery& delivery) {
    const Result<cupti::CuptiFunctions> functions = cupti::LoadCupti(SHARDSCOPE_CUPTI_LIBRARY);
    SHARDSCOPE_CHECK(functions.ok());
    ScenarioOptions options;
    options.policy.mesh = plan::MeshOf(plan::MeshDimension::kShard, 2);
    options.policy.preset = preset;
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    const Status written = WriteTrace(MakeScenario(options), *functions, folder_, delivery);
    ASSERT_TRUE(written.ok()) << written.message();
  }

  Rows OfView() {
    const Result<store::RunFiles> run = store::FindRun(folder_);
    SHARDSCOPE_CHECK(run.ok());
    Result<store::Database> database = store::OpenRunDatabase(run.value());
    SHARDSCOPE_CHECK(database.ok());
    Result<store::Statement> select = database->Prepare(
        "SELECT rank || ' ' || step || ' ' || from_op || ' -> ' || to_op || ' ' || verdict FROM "
        "v_edge_check ORDER BY 1");
    SHARDSCOPE_CHECK(select.ok());
    Rows rows;
    while (*select->Step()) rows.emplace_back(select->Text(0));
    return rows;
  }

  Rows OfAnalysis() {
    const Result<query::SnapshotPtr> snapshot = query::ReadSnapshot(folder_);
    SHARDSCOPE_CHECK(snapshot.ok());
    const analysis::EdgeCheck check = analysis::CheckEdges(**snapshot);
    EXPECT_GT(check.seen, 50);
    EXPECT_GT(check.planned, 50);
    Rows rows;
    for (const analysis::EdgeDifference& row : check.differences) {
      rows.push_back(std::to_string(row.rank) + " " + std::to_string(row.step) + " " +
                     (*snapshot)->FindPlanOp(row.from_plan_op)->name + " -> " +
                     (*snapshot)->FindPlanOp(row.to_plan_op)->name +
                     (row.missing ? " missing" : " extra"));
    }
    std::sort(rows.begin(), rows.end());
    return rows;
  }

 private:
  std::string folder_;
};

TEST_F(EdgeCheckGolden, NothingDiffersInEitherPreset) {
  for (const plan::Preset preset : {plan::Preset::kFsdp2, plan::Preset::kFsdp1}) {
    Write(preset, {});
    EXPECT_EQ(OfAnalysis(), Rows());
    EXPECT_EQ(OfView(), Rows());
  }
}

// Every third wait is lost, and every seventh is for the recording before its own.
TEST_F(EdgeCheckGolden, LostAndWrongWaitsAreTheSameRows) {
  Delivery delivery;
  delivery.damage = [](std::vector<std::vector<uint64_t>>& records) {
    int64_t seen = 0;
    std::erase_if(records, [&](std::vector<uint64_t>& words) {
      auto* wait = reinterpret_cast<CUpti_ActivitySynchronization2*>(words.data());
      if (wait->kind != CUPTI_ACTIVITY_KIND_SYNCHRONIZATION ||
          wait->type != CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT) {
        return false;
      }
      ++seen;
      if (seen % 7 == 0) --wait->cudaEventSyncId;
      return seen % 3 == 0;
    });
    EXPECT_GT(seen, 100);
  };
  Write(plan::Preset::kFsdp2, delivery);
  const Rows rows = OfAnalysis();
  EXPECT_EQ(rows, OfView());
  const auto has = [&rows](const char* verdict) {
    return std::any_of(rows.begin(), rows.end(),
                       [&](const std::string& row) { return row.ends_with(verdict); });
  };
  EXPECT_TRUE(has("missing"));
  EXPECT_TRUE(has("extra"));
}

}  // namespace
}  // namespace shardscope::golden
