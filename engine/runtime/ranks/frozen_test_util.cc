#include "engine/runtime/ranks/frozen_test_util.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>

#include "engine/model/reference_model.h"
#include "engine/plan/strategy_test_util.h"

namespace shardscope::runtime {

TestRun FrozenRun(const FrozenCase& tested, Trains trains) {
  TestRun run;
  run.model.dtype = plan::DType::kFp64;
  run.training.num_ranks = tested.ranks;
  run.training.micro_batches = tested.micro_batches;
  run.training.steps = 3;
  SetStrategy(tested.strategy, &run.policy);
  run.policy.preset = tested.preset;
  run.policy.post_forward_ranks = tested.post_forward_ranks;
  run.stages = tested.stages;
  run.tensor = tested.tensor;
  if (trains != Trains::kGptAdapters) MakeLlama(&run, trains == Trains::kTied);
  const int stages = PolicyOf(run).units.stages;
  if (stages > 1) run.model.layers = stages + 1;
  if (PolicyOf(run).units.tensor_ranks == 2) run.model.heads = run.model.heads == 3 ? 4 : 24;
  model::Lora& lora = run.model.lora;
  switch (trains) {
    case Trains::kAdapters:
      lora = {.rank = 3, .alpha = 6, .targets = {"q", "k", "v", "o", "gate", "up", "down"}};
      break;
    case Trains::kGptAdapters:
      lora = {.rank = 2, .alpha = 6, .targets = {"qkv", "projection", "up", "down"}};
      break;
    case Trains::kLastAdapters:
      lora = {.rank = 2, .alpha = 3, .targets = {"down"}};
      break;
    case Trains::kTied:
      lora = {.rank = 3, .alpha = 6, .targets = {"q", "v"}};
      break;
    case Trains::kHead:
      run.model.frozen = {"embedding", "blocks"};
      break;
    case Trains::kSome:
      run.model.frozen = {"embedding", "block0", "block1.attention"};
      break;
  }
  return run;
}

plan::Schedule FrozenSchedule(const TestRun& run) {
  Result<plan::Schedule> schedule = plan::BuildSchedule(DescriptionOf(run), PolicyOf(run));
  EXPECT_TRUE(schedule.ok()) << schedule.message();
  return schedule.ok() ? *std::move(schedule) : plan::Schedule();
}

bool CanBeTied(const TestRun& run) {
  return PolicyOf(run).units.stages == 1 && run.policy.preset != plan::Preset::kDoubleBuffer;
}

void ExpectFrozen(const TestRun& run, const TestResult& trained, const FrozenTolerance& tolerance) {
  SCOPED_TRACE(FrozenSchedule(run).name);
  const TestResult reference = TrainReference(run);
  ASSERT_EQ(trained.losses.size(), reference.losses.size());
  EXPECT_LE(LargestDifference(trained.parameters, reference.parameters), tolerance.parameters);
  for (size_t step = 0; step < reference.losses.size(); ++step) {
    EXPECT_NEAR(trained.losses[step], reference.losses[step],
                tolerance.scalars * reference.losses[step]);
    EXPECT_NEAR(trained.norms[step], reference.norms[step],
                tolerance.scalars * reference.norms[step]);
  }
  const model::ParameterMap before =
      model::InitialParameters(run.model, PolicyOf(run).master_dtype, run.training.seed);
  for (const plan::Parameter& parameter : model::AllParameters(run.model)) {
    const at::Tensor& was = before.at(parameter.name);
    const at::Tensor now = trained.parameters.at(parameter.name).contiguous();
    const bool is_same = std::memcmp(was.const_data_ptr(), now.const_data_ptr(), was.nbytes()) == 0;
    EXPECT_EQ(is_same, parameter.is_frozen) << parameter.name;
  }
}

}  // namespace shardscope::runtime
