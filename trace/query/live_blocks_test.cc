// Blocks that are live at a moment: who allocated them, who frees them, what came and went.
#include "trace/query/live_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "trace/query/trace_test_util.h"

namespace shardscope::query {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Facts = std::tuple<int64_t, std::string, std::string, int64_t, std::string, int64_t>;

// Of a block: bytes, unit, who allocated it and when, who frees it and when.
Facts FactsOf(const LiveBlock& block) {
  return {block.bytes,        block.unit,     block.allocated_by,
          block.allocated_ns, block.freed_by, block.freed_ns};
}

std::vector<Facts> FactsOf(const std::vector<LiveBlock>& blocks) {
  std::vector<Facts> facts;
  for (const LiveBlock& block : blocks) facts.push_back(FactsOf(block));
  return facts;
}

class LiveBlocksTest : public ::testing::Test {
 protected:
  LiveBlocksTest() : recorder_(OpenRecorder(folder_.path())) {
    gather_ = AddPlanOp(recorder_.get(), "F all_gather", "all_gather", "all_gather");
    reshard_ = AddPlanOp(recorder_.get(), "F reshard", "reshard", "forward");
    recorder_->Record(OpAt(gather_, 0, 0, 1, 1'000));
  }

  void Change(int64_t time_ns, int64_t bytes, const std::string& category, const std::string& unit,
              PlanOpId op = PlanOpId::None(), int64_t rank = 0) {
    schema::MemoryEventRow row;
    row.rank = rank;
    row.device = "cpu";
    row.issued_ns = row.executed_ns = time_ns;
    row.bytes = bytes;
    row.category = category;
    row.unit = unit;
    row.plan_op = op;
    row.step = op.is_none() ? -1 : 0;
    recorder_->Record(row);
  }

  LiveBlocks Ask(int64_t at_ns, std::optional<int64_t> since_ns = {}, int32_t rank = 0) {
    if (recorder_ != nullptr) SHARDSCOPE_CHECK(recorder_->Finish().ok());
    recorder_.reset();
    auto found = ReadLiveBlocks(folder_.path(), {rank, at_ns, since_ns});
    EXPECT_TRUE(found.ok()) << found.message();
    return found.ok() ? *found : LiveBlocks{};
  }

  const TestFolder folder_;
  std::unique_ptr<record::Recorder> recorder_;
  PlanOpId gather_;
  PlanOpId reshard_;
};

TEST_F(LiveBlocksTest, OfAMomentAreThoseThatCameBeforeAndGoAfter) {
  Change(10, 100, "parameter_shard", "block0");
  Change(20, 400, "unsharded_parameter", "block0", gather_);
  Change(30, 300, "unsharded_parameter", "block1", gather_);
  Change(40, -400, "unsharded_parameter", "block0", reshard_);
  Change(50, -300, "unsharded_parameter", "block1", reshard_);
  const LiveBlocks found = Ask(35);
  EXPECT_EQ(found.live_bytes, 800);
  EXPECT_THAT(FactsOf(found.live),
              ElementsAre(Facts{400, "block0", "F all_gather", 20, "F reshard", 40},
                          Facts{300, "block1", "F all_gather", 30, "F reshard", 50},
                          Facts{100, "block0", "", 10, "", -1}));
  EXPECT_EQ(found.live[0].step, 0);
  EXPECT_EQ(found.live[2].step, -1);
  // What is freed at a moment is no longer live then, what is allocated is.
  EXPECT_EQ(Ask(40).live_bytes, 400);
  EXPECT_EQ(Ask(20).live_bytes, 500);
  EXPECT_THAT(Ask(5).live, IsEmpty());
}

TEST_F(LiveBlocksTest, OfOneSizeGoInTheOrderInWhichTheyCame) {
  for (const int64_t time_ns : {10, 20, 30}) Change(time_ns, 64, "activation", "block0", gather_);
  for (const int64_t time_ns : {40, 50}) Change(time_ns, -64, "activation", "block0", reshard_);
  EXPECT_THAT(FactsOf(Ask(35).live),
              ElementsAre(Facts{64, "block0", "F all_gather", 10, "F reshard", 40},
                          Facts{64, "block0", "F all_gather", 20, "F reshard", 50},
                          Facts{64, "block0", "F all_gather", 30, "", -1}));
}

TEST_F(LiveBlocksTest, AFreeOfAnotherSizeMakesTheOldestSmaller) {
  Change(10, 100, "activation", "block0", gather_);
  Change(20, 50, "activation", "block0", gather_);
  Change(30, -120, "activation", "block0", reshard_);
  EXPECT_EQ(Ask(25).live_bytes, 150);
  const LiveBlocks after = Ask(30);
  EXPECT_EQ(after.live_bytes, 30);
  EXPECT_THAT(FactsOf(after.live), ElementsAre(Facts{30, "block0", "F all_gather", 20, "", -1}));
}

TEST_F(LiveBlocksTest, BetweenTwoMomentsSomeComeAndSomeGo) {
  Change(10, 100, "parameter_shard", "block0");
  Change(20, 400, "unsharded_parameter", "block0", gather_);
  Change(40, -400, "unsharded_parameter", "block0", reshard_);
  Change(50, 300, "unsharded_parameter", "block1", gather_);
  const LiveBlocks found = Ask(60, 30);
  EXPECT_EQ(found.live_bytes, 400);
  EXPECT_EQ(found.came_bytes, 300);
  EXPECT_TRUE(found.live[0].came);
  EXPECT_FALSE(found.live[1].came);
  EXPECT_EQ(found.gone_bytes, 400);
  EXPECT_THAT(FactsOf(found.gone),
              ElementsAre(Facts{400, "block0", "F all_gather", 20, "F reshard", 40}));
}

TEST_F(LiveBlocksTest, TheHostsBlocksAreListedAndInNoSum) {
  Change(10, 100, "host", "block0");
  Change(10, 60, "optimizer", "block0");
  const LiveBlocks found = Ask(20);
  EXPECT_EQ(found.live_bytes, 60);
  EXPECT_EQ(found.live.size(), 2u);
}

TEST(LiveBlockTest, IsThereFromTheStartIfNothingSaysWhoAllocatedItOrInWhichStep) {
  EXPECT_TRUE(IsThereFromTheStart({}));
  LiveBlock of_op;
  of_op.allocated_by = "F all_gather";
  EXPECT_FALSE(IsThereFromTheStart(of_op));
  LiveBlock of_step;
  of_step.step = 0;
  EXPECT_FALSE(IsThereFromTheStart(of_step));
  LiveBlock of_program;
  of_program.stack = "model.py:12 forward";
  EXPECT_FALSE(IsThereFromTheStart(of_program));
}

TEST_F(LiveBlocksTest, EveryRankHasItsOwnAndOneWithoutRowsIsAnError) {
  Change(10, 100, "activation", "block0", gather_, 0);
  Change(10, 70, "activation", "block0", gather_, 1);
  EXPECT_EQ(Ask(20, {}, 0).live_bytes, 100);
  EXPECT_EQ(Ask(20, {}, 1).live_bytes, 70);
  const auto none = ReadLiveBlocks(folder_.path(), {2, 20, {}});
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.message(), HasSubstr("rank 2 has no rows of memory"));
}

TEST_F(LiveBlocksTest, EndsWhenItIsStopped) {
  for (int64_t i = 0; i < 5'000; ++i) Change(10 + i, 100, "activation", "block0", gather_);
  EXPECT_EQ(Ask(10'000).live_bytes, 500'000);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_FALSE(ReadLiveBlocks(folder_.path(), {0, 20, {}}, stop.get_token()).ok());
}

}  // namespace
}  // namespace shardscope::query
