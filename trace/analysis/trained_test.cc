#include "trace/analysis/trained.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "trace/analysis/report/report.h"
#include "trace/analysis/snapshot_test_util.h"

namespace shardscope::analysis {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Trained, IsALineAndAnObjectOfTheReport) {
  TestSnapshot test(1);
  test.Step(0, 0, 0, 100);
  EXPECT_TRUE(
      nlohmann::json::parse(PrintReportJson(MakeReport(*test.Build())))["trained"].is_null());
  test.snapshot().meta["parameters"] = "1000";
  EXPECT_THAT(PrintReportText(MakeReport(*test.Build())), Not(HasSubstr("trained:")));
  test.snapshot().meta["trained_parameters"] = "25";
  test.snapshot().meta["spared_gradient_bytes"] = "3900";
  test.snapshot().meta["spared_optimizer_bytes"] = "7800";
  const Report report = MakeReport(*test.Build());
  EXPECT_THAT(PrintReportText(report),
              HasSubstr("trained: 25 of 1000 parameters (2.5%), which spares a rank 3.90 kB of "
                        "gradients and 7.80 kB of optimizer state\n"));
  EXPECT_EQ(nlohmann::json::parse(PrintReportJson(report))["trained"],
            nlohmann::json::parse(R"({"parameters": 1000, "trained_parameters": 25,
                "spared_gradient_bytes": 3900, "spared_optimizer_bytes": 7800})"));
  for (const char* damaged : {"", "x", "-5", "12x"}) {
    test.snapshot().meta["trained_parameters"] = damaged;
    EXPECT_FALSE(TrainedOf(*test.Build()).has_value()) << damaged;
  }
}

// Its Schedule has no step: what a rank sends in a batch of it stands beside that of steps.
TEST(Report, SaysWhatAnEvaluationSends) {
  TestSnapshot test(1);
  test.Step(0, 0, 0, 100);
  test.NextSchedule("full evaluation");
  const query::ScheduleId schedule = test.snapshot().schedules.rbegin()->first;
  test.op(test.Plan("all_gather", "evaluation", "block0")).wire_bytes = 600;
  query::Snapshot snapshot = *test.Build();
  EXPECT_TRUE(MakeReport(snapshot).evaluation_schedules.empty()) << "none ran";
  for (const int32_t step : {0, 1}) {
    snapshot.ranks.front().evaluations.push_back(
        {.step = step, .schedule = schedule, .first_batch = -2 - step, .batches = 1, .tokens = 8});
  }
  const Report report = MakeReport(snapshot);
  ASSERT_EQ(report.evaluation_schedules.size(), 1u);
  EXPECT_THAT(PrintReportText(report), HasSubstr("full evaluation  shard"));
  const auto json = nlohmann::json::parse(PrintReportJson(report))["evaluation_schedules"];
  ASSERT_EQ(json.size(), 1u);
  EXPECT_EQ(json[0]["name"], "full evaluation");
  EXPECT_EQ(json[0]["traffic"][0]["wire_bytes"], 600);
}

}  // namespace
}  // namespace shardscope::analysis
