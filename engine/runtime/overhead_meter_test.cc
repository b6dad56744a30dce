// Which steps get a time, and which are passed over.
#include "engine/runtime/overhead.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace shardscope::runtime {
namespace {

class OverheadMeterTest : public testing::Test {
 protected:
  OverheadMeterTest() : meter_(Steps(), 2) {}

  static OverheadSteps Steps() {
    config::Config config;
    EXPECT_TRUE(config.SetAll({{"record.measure_overhead", "2"}, {"train.steps", "20"}}).ok());
    return OverheadSteps(config);
  }

  // Steps of 1 us, of which the first 900 ns pass before all ranks have begun.
  void Run(int rank, int64_t num_steps, int64_t changed_at = -1) {
    for (int64_t step = 0; step < num_steps; ++step) {
      const int64_t regime = changed_at >= 0 && step >= changed_at ? 1 : 0;
      if (const auto row = meter_.End(rank, {step, regime, 1000 * step})) rows_.push_back(*row);
      const bool is_recorded = !meter_.steps().IsUnrecorded(step) && step != forced_off_;
      meter_.Begin(rank, {step, regime, 1000 * step + 900}, is_recorded);
    }
  }

  std::string Text() const {
    std::string text;
    for (const schema::OverheadStepRow& row : rows_) {
      EXPECT_EQ(row.duration_ns, 100);
      EXPECT_EQ(row.start_ns, 1000 * row.step + 900);
      text += std::to_string(row.rank) + ":" + std::to_string(row.round) + ":" +
              std::to_string(row.step) + (row.recorded == 1 ? "+ " : "- ");
    }
    return text;
  }

  OverheadMeter meter_;
  std::vector<schema::OverheadStepRow> rows_;
  int64_t forced_off_ = -1;
};

TEST_F(OverheadMeterTest, EveryRoundHasOneWithoutBetweenTwoWith) {
  Run(1, 20);
  EXPECT_EQ(Text(), "1:0:3+ 1:0:4- 1:0:6+ 1:1:11+ 1:1:12- 1:1:14+ ");
}

TEST_F(OverheadMeterTest, AStepBeforeAChangeIsNotTimed) {
  Run(0, 20, /*changed_at=*/5);
  EXPECT_EQ(Text(), "0:0:3+ 0:0:6+ 0:1:11+ 0:1:12- 0:1:14+ ");
}

TEST_F(OverheadMeterTest, AStepThatWasNotRecordedForAnotherReasonIsNotTimed) {
  forced_off_ = 6;
  Run(0, 20);
  EXPECT_EQ(Text(), "0:0:3+ 0:0:4- 0:1:11+ 0:1:12- 0:1:14+ ");
}

TEST_F(OverheadMeterTest, TheLastStepHasNoEnd) {
  Run(0, 15);
  EXPECT_EQ(Text(), "0:0:3+ 0:0:4- 0:0:6+ 0:1:11+ 0:1:12- ");
}

}  // namespace
}  // namespace shardscope::runtime
