// Which steps a run leaves out to measure what recording costs, and when it leaves none out.
#include "engine/runtime/overhead.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace shardscope::runtime {
namespace {

using Role = OverheadSteps::Role;

config::Config OverheadConfigOf(const std::map<std::string, std::string>& values) {
  config::Config config;
  const Status status = config.SetAll(values);
  EXPECT_TRUE(status.ok()) << status.message();
  return config;
}

std::vector<int64_t> Unrecorded(const config::Config& config) {
  const OverheadSteps steps(config);
  std::vector<int64_t> out;
  for (int64_t step = 0; step < 300; ++step) {
    if (steps.IsUnrecorded(step)) out.push_back(step);
  }
  return out;
}

TEST(OverheadSteps, AreFewAndOnlyInLongRunsOnAGpu) {
  using ::testing::ElementsAre;
  using ::testing::IsEmpty;
  const std::string device = "run.device";
  EXPECT_THAT(Unrecorded(OverheadConfigOf({{device, "cuda"}, {"train.steps", "100"}})),
              ElementsAre(4, 12, 20, 28, 36));
  EXPECT_THAT(Unrecorded(OverheadConfigOf({{device, "cuda"}, {"train.steps", "45"}})),
              ElementsAre(4, 12, 20));
  EXPECT_THAT(Unrecorded(OverheadConfigOf({{device, "cuda"}, {"train.steps", "44"}})), IsEmpty());
  EXPECT_THAT(Unrecorded(OverheadConfigOf({{device, "cpu"}, {"train.steps", "100"}})), IsEmpty());
  // Who asked for certain steps gets them.
  EXPECT_THAT(Unrecorded(OverheadConfigOf({{device, "cuda"}, {"record.steps", "10:30"}})),
              IsEmpty());
  EXPECT_THAT(Unrecorded(OverheadConfigOf({{device, "cuda"}, {"record.measure_overhead", "0"}})),
              IsEmpty());
}

TEST(OverheadSteps, StandBetweenTwoThatAreRecordedAndMeasured) {
  for (const char* wanted : {"1", "3", "7", "20"}) {
    for (const char* window : {"all", "10:95"}) {
      const config::Config config =
          OverheadConfigOf({{"record.measure_overhead", wanted}, {"record.steps", window}});
      ASSERT_TRUE(CheckOverheadSteps(config).ok()) << wanted;
      const OverheadSteps steps(config);
      EXPECT_EQ(Unrecorded(config).size(), std::stoull(wanted));
      for (const int64_t out : Unrecorded(config)) {
        const int64_t round = steps.Of(out).round;
        for (const int64_t with : {out - 1, out + 2}) {
          EXPECT_EQ(steps.Of(with).role, Role::kWith) << with;
          EXPECT_EQ(steps.Of(with).round, round) << with;
        }
        EXPECT_EQ(steps.Of(out + 1).role, Role::kNone);
        EXPECT_GE(out, (std::string(window) == "all" ? 0 : 10) + 4);
        EXPECT_LT(out + 2, (std::string(window) == "all" ? 100 : 95) - 1);
      }
    }
  }
}

TEST(OverheadSteps, MoreThanThereIsRoomForIsAnError) {
  EXPECT_TRUE(CheckOverheadSteps(OverheadConfigOf({{"train.steps", "3"}})).ok());
  EXPECT_TRUE(CheckOverheadSteps(
                  OverheadConfigOf({{"train.steps", "12"}, {"record.measure_overhead", "2"}}))
                  .ok());
  const Status status = CheckOverheadSteps(
      OverheadConfigOf({{"train.steps", "11"}, {"record.measure_overhead", "2"}}));
  EXPECT_EQ(status.message(),
            "record.measure_overhead=2 takes 12 recorded steps, and train.steps=11 with "
            "record.steps=all has 11: train longer, or measure fewer times");
}

}  // namespace
}  // namespace shardscope::runtime
