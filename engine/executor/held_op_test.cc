// What the knobs do to the overlap, without a clock: one compute op of rank 0 is held in its body
// until nothing else in the process can move. The all-gathers that have started by then are those
// that the knobs let run under it; the others cannot. The model has a root and blocks 1 to 7; block
// 2 is held in forward and block 6 in backward, so that one block came before and five follow.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>

#include "engine/executor/stillness_test_util.h"
#include "engine/executor/toy_bodies_test_util.h"
#include "engine/plan/policy.h"
#include "engine/plan/uniform_model.h"
#include "trace/base/mutex.h"

namespace shardscope::executor {
namespace {

using plan::BackwardPrefetch;
using plan::Policy;
using plan::Preset;

// Each block has two segments, so two ops of the same unit.
constexpr const char* kFirstForward = "F m0 block1.attention forward";
constexpr const char* kLastForward = "F m0 block1.mlp forward";
constexpr const char* kFirstBackward = "B m0 block5.mlp backward";
constexpr const char* kLastBackward = "B m0 block5.attention backward";
constexpr int32_t kForwardUnit = 2;
constexpr int32_t kBackwardUnit = 6;

// Units beyond the held one whose all-gather has started, in that order: "34". In the end the step
// has to come out right.
std::string GathersUnder(const Policy& policy, const std::string& held) {
  const auto schedule = plan::BuildSchedule(plan::UniformModel(7, true), policy);
  EXPECT_TRUE(schedule.ok()) << schedule.message();
  if (!schedule.ok()) return "";
  const bool forward = held.front() == 'F';
  Mutex mutex;
  std::string started;               // guarded by mutex
  std::optional<std::string> under;  // guarded by mutex
  const auto on_run = [&](const OpContext& context) {
    if (context.rank != 0) return;
    const plan::Op& op = context.op();
    if (op.kind == plan::OpKind::kAllGather &&
        op.phase == (forward ? plan::Phase::kForward : plan::Phase::kBackward) &&
        (forward ? op.unit > kForwardUnit : op.unit < kBackwardUnit)) {
      const MutexLock lock(mutex);
      started += std::to_string(op.unit);
    }
    if (plan::OpName(*context.schedule, op) == held) {
      WaitUntilNothingMoves();
      const MutexLock lock(mutex);
      under = started;
    }
  };
  const ToyRun run = RunToy(
      *schedule, {.slots = 2 * schedule->num_ranks(), .delay_hook = nullptr, .on_run = on_run});
  for (const Status& status : run.statuses) EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(run.persistent, RunToy(*schedule, {}).persistent);
  EXPECT_TRUE(under.has_value()) << schedule->name << " has no op " << held;
  return under.value_or("nothing was held");
}

// What GathersUnder() gives if `count` units beyond the held one have started.
std::string Next(const std::string& held, int count) {
  std::string units;
  for (int ahead = 1; ahead <= count; ++ahead) {
    units += std::to_string(held.front() == 'F' ? kForwardUnit + ahead : kBackwardUnit - ahead);
  }
  return units;
}

class HeldOpTest : public testing::TestWithParam<Preset> {
 protected:
  HeldOpTest() {
    policy_.preset = GetParam();
    policy_.mesh = plan::MeshOf(plan::MeshDimension::kShard, 2);
  }

  void ExpectUnder(const std::string& held, int count) const {
    EXPECT_EQ(GathersUnder(policy_, held), Next(held, count))
        << "under " << held << " with backward prefetch "
        << static_cast<int>(policy_.backward_prefetch) << " of depth " << policy_.backward_depth
        << ", forward prefetch " << policy_.forward_prefetch << ", limit " << policy_.prefetch_limit
        << ", run-ahead " << policy_.run_ahead;
  }

  Policy policy_;
};
INSTANTIATE_TEST_SUITE_P(Presets, HeldOpTest, testing::Values(Preset::kFsdp1, Preset::kFsdp2),
                         [](const auto& preset) {
                           return preset.param == Preset::kFsdp1 ? "fsdp1" : "fsdp2";
                         });

// The gathers stand before the backward in the host's order, so it does not matter whether the host
// waits.
TEST_P(HeldOpTest, PreGathersAsManyUnitsAsItIsDeep) {
  policy_.backward_prefetch = BackwardPrefetch::kPre;
  for (policy_.backward_depth = 1; policy_.backward_depth <= 3; ++policy_.backward_depth) {
    for (policy_.run_ahead = -1; policy_.run_ahead <= 1; ++policy_.run_ahead) {
      ExpectUnder(kFirstBackward, policy_.backward_depth);
      ExpectUnder(kLastBackward, policy_.backward_depth);
    }
  }
}

// The gather queues behind the reduce-scatter, which waits for the backward, however far the host
// is.
TEST_P(HeldOpTest, NoneGathersNothing) {
  policy_.backward_prefetch = BackwardPrefetch::kNone;
  for (policy_.run_ahead = -1; policy_.run_ahead <= 1; ++policy_.run_ahead) {
    ExpectUnder(kFirstBackward, 0);
    ExpectUnder(kLastBackward, 0);
  }
}

// The gather of the deepest unit stands after the backward in the host's order: only a host that
// runs ahead gets there. The others were issued by the units before.
TEST_P(HeldOpTest, PostGathersItsDeepestUnitOnlyWithRunAhead) {
  policy_.backward_prefetch = BackwardPrefetch::kPost;
  for (policy_.backward_depth = 1; policy_.backward_depth <= 3; ++policy_.backward_depth) {
    policy_.run_ahead = -1;
    ExpectUnder(kFirstBackward, policy_.backward_depth);
    ExpectUnder(kLastBackward, policy_.backward_depth);
    policy_.run_ahead = 0;
    ExpectUnder(kFirstBackward, policy_.backward_depth - 1);
    ExpectUnder(kLastBackward, policy_.backward_depth - 1);
  }
}

// One op ahead is enough behind the unit's last backward, two behind the one before.
TEST_P(HeldOpTest, RunAheadCountsComputeOps) {
  policy_.backward_prefetch = BackwardPrefetch::kPost;
  policy_.run_ahead = 1;
  ExpectUnder(kFirstBackward, 0);
  ExpectUnder(kLastBackward, 1);
  policy_.run_ahead = 2;
  ExpectUnder(kFirstBackward, 1);
  ExpectUnder(kLastBackward, 1);
  // Forward without prefetch: two ops are a unit, and each unit further takes two more.
  for (policy_.run_ahead = 0; policy_.run_ahead <= 4; ++policy_.run_ahead) {
    ExpectUnder(kFirstForward, policy_.run_ahead / 2);
    ExpectUnder(kLastForward, (policy_.run_ahead + 1) / 2);
  }
}

TEST_P(HeldOpTest, ForwardPrefetchGathersItsUnitsWhileTheHostWaits) {
  policy_.run_ahead = 0;
  for (policy_.forward_prefetch = 0; policy_.forward_prefetch <= 3; ++policy_.forward_prefetch) {
    ExpectUnder(kFirstForward, policy_.forward_prefetch);
    ExpectUnder(kLastForward, policy_.forward_prefetch);
  }
}

// The all-gather streams of FSDP2 wait for the copy-out of the unit before, so a gather gets at
// most two units ahead by itself and one further than an explicit prefetch. Nothing stops FSDP1's.
TEST_P(HeldOpTest, AHostThatRunsAheadGathersByItself) {
  for (policy_.forward_prefetch = 0; policy_.forward_prefetch <= 3; ++policy_.forward_prefetch) {
    const int fsdp2 = std::max(2, policy_.forward_prefetch + 1);
    ExpectUnder(kFirstForward, GetParam() == Preset::kFsdp1 ? 5 : fsdp2);
  }
}

// Without forward prefetch at most `limit` units are unsharded or on their way, the held one among
// them. A prefetch is issued that many units earlier and comes on top, as in FSDP1.
TEST_P(HeldOpTest, LimitBoundsTheGathersOfAHostThatRunsAhead) {
  for (policy_.prefetch_limit = 1; policy_.prefetch_limit <= 4; ++policy_.prefetch_limit) {
    for (policy_.forward_prefetch = 0; policy_.forward_prefetch <= 2; ++policy_.forward_prefetch) {
      const int limited = policy_.prefetch_limit - 1 + policy_.forward_prefetch;
      const int fsdp2 = std::max(2, policy_.forward_prefetch + 1);
      ExpectUnder(kFirstForward,
                  GetParam() == Preset::kFsdp1 ? std::min(5, limited) : std::min(fsdp2, limited));
    }
  }
}

// PRE's gather comes after the reshard that it would have to wait for; POST's waits, with a limit
// of 1, for the reshard of the held unit itself.
TEST_P(HeldOpTest, LimitInBackwardTakesOneUnitFromPostAndNoneFromPre) {
  for (policy_.prefetch_limit = 1; policy_.prefetch_limit <= 3; ++policy_.prefetch_limit) {
    for (policy_.backward_depth = 1; policy_.backward_depth <= 3; ++policy_.backward_depth) {
      policy_.backward_prefetch = BackwardPrefetch::kPre;
      ExpectUnder(kFirstBackward, policy_.backward_depth);
      policy_.backward_prefetch = BackwardPrefetch::kPost;
      ExpectUnder(kFirstBackward, policy_.backward_depth - (policy_.prefetch_limit == 1 ? 1 : 0));
    }
  }
}

}  // namespace
}  // namespace shardscope::executor
