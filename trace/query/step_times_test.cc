#include "trace/query/step_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace shardscope::query {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Steps 3, 4 and 5 at 100, 200 and 320 ns, each of 100 ns: between the last two lies a pause.
RankRows ThreeSteps() {
  RankRows rows;
  int32_t number = 3;
  for (const int64_t start_ns : {100, 200, 320}) {
    Step step;
    step.step = number++;
    step.start_ns = start_ns;
    step.end_ns = start_ns + 100;
    rows.steps.Append(step);
  }
  return rows;
}

std::vector<int32_t> Touching(const RankRows& rows, Interval range) {
  std::vector<int32_t> numbers;
  const TouchedSteps steps = StepsThatTouch(rows, range);
  for (const Step& step : steps) numbers.push_back(step.step);
  EXPECT_EQ(std::ssize(numbers), steps.size());
  EXPECT_EQ(numbers.empty(), steps.empty());
  return numbers;
}

TEST(StepTimes, StepsTouchARangeOfWhichTheyHaveAPart) {
  const RankRows rows = ThreeSteps();
  EXPECT_THAT(Touching(rows, {0, 1000}), ElementsAre(3, 4, 5));
  EXPECT_THAT(Touching(rows, {199, 201}), ElementsAre(3, 4));
  EXPECT_THAT(Touching(rows, {200, 300}), ElementsAre(4));  // neither end is within
  EXPECT_THAT(Touching(rows, {300, 320}), IsEmpty());
  EXPECT_THAT(Touching(rows, {0, 100}), IsEmpty());
  EXPECT_THAT(Touching(rows, {420, 500}), IsEmpty());
  EXPECT_THAT(Touching(RankRows(), {0, 1000}), IsEmpty());
}

TEST(StepTimes, AStepHasItsStartAndNotItsEnd) {
  const RankRows rows = ThreeSteps();
  const auto at = [&rows](int64_t time_ns) {
    const Step* const step = StepAt(rows, time_ns);
    return step == nullptr ? -1 : step->step;
  };
  EXPECT_EQ(at(99), -1);
  EXPECT_EQ(at(100), 3);
  EXPECT_EQ(at(199), 3);
  EXPECT_EQ(at(200), 4);
  EXPECT_EQ(at(310), -1);
  EXPECT_EQ(at(420), -1);
  EXPECT_EQ(StepAt(RankRows(), 0), nullptr);
}

TEST(StepTimes, TheNewestStepOfAllIsThatOfTheRankFurthestBehind) {
  Snapshot snapshot;
  EXPECT_EQ(NewestStepOfAll(snapshot), -1);
  snapshot.ranks = {ThreeSteps(), ThreeSteps()};
  Step step;
  step.step = 6;
  snapshot.ranks[0].steps.Append(step);
  EXPECT_EQ(NewestStepOfAll(snapshot), 5);
  snapshot.ranks.emplace_back();
  EXPECT_EQ(NewestStepOfAll(snapshot), -1);
}

}  // namespace
}  // namespace shardscope::query
