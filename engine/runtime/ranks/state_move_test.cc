// The state of a run moves from layout to layout without losing a bit.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "engine/plan/strategy_test_util.h"
#include "engine/runtime/cpu_device.h"
#include "engine/runtime/ranks/job_test_util.h"
#include "trace/base/time.h"

namespace shardscope::runtime {
namespace {

TestRun RunOf(const char* strategy, int ranks) {
  TestRun run;
  run.training.num_ranks = ranks;
  run.training.micro_batches = 2;
  run.model.layers = 4;  // a stage for each rank
  run.model.heads = 12;  // some for each
  SetStrategy(strategy, &run.policy);
  return run;
}

plan::Schedule ScheduleOf(const TestRun& run) {
  Result<plan::Schedule> schedule = plan::BuildSchedule(DescriptionOf(run), PolicyOf(run));
  EXPECT_TRUE(schedule.ok()) << schedule.message();
  return *std::move(schedule);
}

// Ranks that train one step after another, each by any Schedule.
class Training {
 public:
  explicit Training(const TestRun& run) {
    device_ = std::make_unique<CpuDevice>(CpuOptions());
    Result<std::unique_ptr<Ranks>> ranks = Ranks::Make(
        JobOf(run), transport::MakeSharedMemoryTransport(run.training.num_ranks, 60 * kNsPerSecond),
        &sink_, device_.get());
    EXPECT_TRUE(ranks.ok()) << ranks.message();
    ranks_ = std::move(ranks).value();
  }

  void Enter(const TestRun& run) {
    schedule_ = ScheduleOf(run);
    const Status status =
        ranks_->OnAll([&](int rank) { return ranks_->SetSchedule(rank, schedule_); });
    EXPECT_TRUE(status.ok()) << status.message();
    for (int rank = 0; rank < ranks_->size(); ++rank) {
      EXPECT_EQ(ranks_->work(rank).EndStep(), 0) << schedule_.name << ": memory unaccounted for";
    }
  }

  // The mean loss.
  double Step() {
    const Status status = ranks_->OnAll([&](int rank) {
      ranks_->work(rank).BeginStep(step_, 1e-2);
      return ranks_->runner(rank).RunStep(step_);
    });
    EXPECT_TRUE(status.ok()) << status.message();
    ++step_;
    double loss = 0;
    int num_losses = 0;
    for (int rank = 0; rank < ranks_->size(); ++rank) {
      const StepOutcome& outcome = ranks_->work(rank).outcome();
      loss += outcome.loss;
      num_losses += outcome.tokens > 0 ? 1 : 0;
    }
    return loss / num_losses;
  }

  // Every tensor that ranks keep, as bytes.
  std::vector<std::string> State() {
    std::vector<std::string> state;
    for (int rank = 0; rank < ranks_->size(); ++rank) {
      for (const ShardedUnit& unit : ranks_->work(rank).units()) {
        if (!unit.is_here()) continue;
        for (size_t index = 0; index < unit.layout().parameters().size(); ++index) {
          const ShardedUnit::Slice slice = unit.SliceOf(index);
          std::vector<at::Tensor> tensors = {slice.parameters};
          for (size_t kept = 0; kept < unit.state_tensors().size(); ++kept) {
            tensors.push_back(unit.StateValues(kept, index));
          }
          for (const at::Tensor& tensor : tensors) {
            state.emplace_back(static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes());
          }
        }
      }
    }
    return state;
  }

 private:
  NullSink sink_;
  std::unique_ptr<CpuDevice> device_;
  std::unique_ptr<Ranks> ranks_;
  plan::Schedule schedule_;
  int64_t step_ = 0;
};

class StateMoveTest : public testing::TestWithParam<plan::DType> {};

TEST_P(StateMoveTest, RoundTripThroughEveryStrategyKeepsEveryBit) {
  for (const int ranks : {2, 3, 4}) {
    TestRun run = RunOf("full", ranks);
    run.model.dtype = GetParam();
    Training training(run);
    training.Enter(run);
    training.Step();
    training.Step();
    const std::vector<std::string> before = training.State();
    for (const char* strategy :
         {"ddp", "data_parallel", "pipeline", "data_parallel", "zero2", "tensor", "model_parallel",
          "hybrid", "zero3", "pipeline", "tensor", "zero1", "no_shard", "zero3", "grad_op", "zero1",
          "ddp", "tensor", "full"}) {
      TestRun next = RunOf(strategy, ranks);
      next.model.dtype = GetParam();
      next.replicas = 2;
      training.Enter(next);
    }
    EXPECT_EQ(training.State(), before) << ranks << " ranks";
  }
}

INSTANTIATE_TEST_SUITE_P(All, StateMoveTest,
                         testing::Values(plan::DType::kFp32, plan::DType::kBf16,
                                         plan::DType::kFp64));

// With a change in the middle a run goes on as it would have: shards of the same ranks, reduced in
// the same order.
TEST(StateMove, TrainingGoesOnAfterIt) {
  std::map<bool, std::vector<double>> losses;
  for (const bool changes : {false, true}) {
    TestRun run = RunOf("full", 3);
    run.model.dtype = plan::DType::kFp64;
    Training training(run);
    training.Enter(run);
    for (int step = 0; step < 8; ++step) {
      const char* const strategies[] = {"zero2", "ddp", "zero1", "full"};
      TestRun next = RunOf(strategies[step / 2], 3);
      next.model.dtype = plan::DType::kFp64;
      if (changes && step % 2 == 0) training.Enter(next);
      losses[changes].push_back(training.Step());
    }
  }
  for (size_t step = 0; step < losses[true].size(); ++step) {
    EXPECT_NEAR(losses[true][step], losses[false][step], 1e-11) << "step " << step;
  }
  EXPECT_LT(losses[true].back(), losses[true].front());
}

// Several dimensions at once: shards of what tensor ranks have, inside stages.
TEST_P(StateMoveTest, RoundTripThroughComposedMeshesKeepsEveryBit) {
  TestRun run = RunOf("full", 8);
  run.model.dtype = GetParam();
  Training training(run);
  training.Enter(run);
  training.Step();
  const std::vector<std::string> before = training.State();
  struct Composed {
    const char* strategy;
    int stages;
    int tensor;
  };
  for (const Composed& one : {Composed{"full", 0, 2}, Composed{"full", 2, 2}, Composed{"ddp", 0, 4},
                              Composed{"hybrid", 0, 2}, Composed{"pipeline", 2, 4},
                              Composed{"grad_op", 4, 2}, Composed{"full", 0, 0}}) {
    TestRun next = RunOf(one.strategy, 8);
    next.model.dtype = GetParam();
    next.stages = one.stages;
    next.tensor = one.tensor;
    training.Enter(next);
  }
  EXPECT_EQ(training.State(), before);
}

// The sequence may be shared from one step to the next: the state stays where it is.
TEST(StateMove, SharingTheSequenceMovesNothing) {
  TestRun run = RunOf("tensor", 2);
  run.model.dtype = plan::DType::kFp64;
  run.model.heads = 2;
  const auto layout_of = [](const TestRun& of) {
    return StateLayoutOf(*plan::BuildSchedule(DescriptionOf(of), PolicyOf(of)));
  };
  TestRun of_parts = run;
  of_parts.policy.units.sequence_parallel = true;
  EXPECT_TRUE(layout_of(run) == layout_of(of_parts));
  std::map<bool, std::vector<double>> losses;
  for (const bool changes : {false, true}) {
    Training training(run);
    for (int step = 0; step < 6; ++step) {
      training.Enter(changes && step / 2 == 1 ? of_parts : run);
      losses[changes].push_back(training.Step());
    }
  }
  for (size_t step = 0; step < losses[true].size(); ++step) {
    EXPECT_NEAR(losses[true][step], losses[false][step], 1e-11) << "step " << step;
  }
}

// Other units, the same strategy.
TEST(StateMove, UnitsMayChange) {
  TestRun run = RunOf("full", 3);
  Training training(run);
  training.Enter(run);
  training.Step();
  const std::vector<std::string> before = training.State();
  TestRun root = run;
  root.units = {.blocks = 2, .root = true};
  training.Enter(root);
  training.Enter(run);
  EXPECT_EQ(training.State(), before);
}

}  // namespace
}  // namespace shardscope::runtime
