// Optimizers, learning rates, accumulation and precision of sharded training against the unsharded
// reference.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "engine/plan/strategy_test_util.h"
#include "engine/runtime/cpu_device.h"
#include "engine/runtime/ranks/job_test_util.h"
#include "trace/base/time.h"

namespace shardscope::runtime {
namespace {

using model::RateSchedule;
using plan::DType;
using plan::GradientSync;
using plan::OptimizerKind;
using plan::Preset;

TestRun NumericsRun(const char* strategy, int ranks, DType dtype = DType::kFp64) {
  TestRun run;
  run.model.dtype = dtype;
  run.training.num_ranks = ranks;
  run.training.micro_batches = 3;
  SetStrategy(strategy, &run.policy);
  return run;
}

std::string ScheduleNameOf(const TestRun& run) {
  return plan::BuildSchedule(DescriptionOf(run), PolicyOf(run))->name;
}

void ExpectReference(const TestRun& run, const TestResult& reference) {
  SCOPED_TRACE(ScheduleNameOf(run));
  const TestResult sharded = Train(run);
  ASSERT_EQ(sharded.losses.size(), reference.losses.size());
  EXPECT_LE(LargestDifference(sharded.parameters, reference.parameters), 1e-10);
  for (size_t step = 0; step < reference.losses.size(); ++step) {
    EXPECT_NEAR(sharded.losses[step], reference.losses[step], 1e-10 * reference.losses[step]);
    EXPECT_NEAR(sharded.norms[step], reference.norms[step], 1e-10 * reference.norms[step]);
  }
}

void ExpectReference(const TestRun& run) { ExpectReference(run, TrainReference(run)); }

struct Composition {
  const char* strategy;
  int ranks;
};
constexpr Composition kCompositions[] = {{"full", 3},   {"ddp", 2},      {"zero2", 2},
                                         {"hybrid", 4}, {"pipeline", 2}, {"tensor", 3}};

TEST(Numerics, TrainAsTheReferenceWhateverIsSharded) {
  for (const auto& [strategy, ranks] : kCompositions) {
    for (const auto& [kind, momentum] :
         {std::pair{OptimizerKind::kAdam, 0.0}, std::pair{OptimizerKind::kSgd, 0.9},
          std::pair{OptimizerKind::kSgd, 0.0}}) {
      TestRun run = NumericsRun(strategy, ranks);
      run.training.optimizer = {.kind = kind, .weight_decay = 0.1, .momentum = momentum};
      if (kind == OptimizerKind::kSgd) run.training.learning_rate = 0.1;
      ExpectReference(run);
    }
  }
}

TEST(Numerics, RatesFallAsTheReferences) {
  for (const RateSchedule schedule : {RateSchedule::kLinear, RateSchedule::kCosine}) {
    TestRun run;
    for (const auto& [strategy, ranks] : kCompositions) {
      run = NumericsRun(strategy, ranks);
      run.training.schedule = schedule;
      run.training.min_learning_rate = 1e-4;
      run.training.steps = 6;
      ExpectReference(run);
    }
    TestRun constant = run;
    constant.training.schedule = RateSchedule::kConstant;
    EXPECT_GT(
        LargestDifference(TrainReference(run).parameters, TrainReference(constant).parameters),
        1e-4);
  }
}

// torch: SequentialLR of LinearLR(1/4, total_iters=3) and, from step 4 on, LinearLR(1, 0.1, 6) or
// CosineAnnealingLR(T_max=6, eta_min=0.1); transformers' formulas after the warm-up.
TEST(Numerics, RatesAreTorchs) {
  model::TrainingSettings training{.steps = 10, .warmup_steps = 4, .min_learning_rate = 0.1};
  const auto rates = [&](RateSchedule schedule) {
    training.schedule = schedule;
    std::vector<double> all;
    for (int64_t step = 0; step < 12; ++step) {
      all.push_back(model::LearningRateAt(training, 1.0, step));
    }
    return all;
  };
  const std::vector<double> constant = rates(RateSchedule::kConstant);
  const std::vector<double> linear = rates(RateSchedule::kLinear);
  const std::vector<double> cosine = rates(RateSchedule::kCosine);
  for (size_t step = 0; step < 4; ++step) {
    for (const auto& of : {constant, linear, cosine}) {
      EXPECT_DOUBLE_EQ(of[step], 0.25 * static_cast<double>(step + 1));
    }
  }
  for (size_t step = 4; step < 12; ++step) {
    const double done = std::min(1.0, static_cast<double>(step - 4) / 6);
    EXPECT_EQ(constant[step], 1);
    EXPECT_DOUBLE_EQ(linear[step], 1 - 0.9 * done);
    EXPECT_DOUBLE_EQ(cosine[step], 0.1 + 0.45 * (1 + std::cos(M_PI * done)));
  }
}

TEST(Numerics, StateInBlocksTrainsNearAndHasAQuarterOfTheBytes) {
  std::vector<double> last;
  std::vector<int64_t> bytes;
  for (const plan::StateForm form : {plan::StateForm::kMaster, plan::StateForm::kBlocks}) {
    TestRun run = NumericsRun("full", 2, DType::kFp32);
    run.training.micro_batches = 1;
    run.training.steps = 40;
    run.state_form = form;
    const TestResult result = Train(run);
    EXPECT_LT(result.losses.back(), result.losses.front() - 0.5);
    last.push_back(result.losses.back());
    int64_t sum = 0;
    for (const plan::Buffer& buffer : JobOf(run).initial_layout.buffers) {
      if (buffer.kind == plan::BufferKind::kOptimizerState) sum += buffer.bytes;
    }
    bytes.push_back(sum);
  }
  EXPECT_NEAR(last[1], last[0], 0.02 * last[0]);
  EXPECT_LT(bytes[1], bytes[0] * 0.3);
}

// What stays between steps may lie in the whole unit, in parts of two: blocks are of a parameter.
TEST(Numerics, StateInBlocksDoesNotDependOnWhereItLies) {
  std::vector<TestResult> results;
  for (const char* strategy : {"full", "zero1", "zero2"}) {
    TestRun run = NumericsRun(strategy, 2, DType::kFp32);
    run.training.micro_batches = 1;
    run.state_form = plan::StateForm::kBlocks;
    results.push_back(Train(run));
  }
  EXPECT_LE(LargestDifference(results[1].parameters, results[0].parameters), 1e-5);
  EXPECT_LE(LargestDifference(results[2].parameters, results[0].parameters), 1e-5);
}

TEST(Accumulation, TrainsAsTheReference) {
  TestRun any = NumericsRun("full", 4);
  any.training.steps = 3;
  const TestResult reference = TrainReference(any);
  for (const char* strategy : {"full", "grad_op", "hybrid", "hybrid_grad_op"}) {
    for (const Preset preset : {Preset::kFsdp1, Preset::kFsdp2}) {
      for (const GradientSync accumulation :
           {GradientSync::kReduce, GradientSync::kNoSync, GradientSync::kReduceScatterOnly}) {
        for (const bool frees : {true, false}) {
          TestRun run = NumericsRun(strategy, 4);
          run.training = any.training;
          if (accumulation == GradientSync::kReduceScatterOnly &&
              !run.policy.strategy->replicates_shards()) {
            continue;
          }
          run.policy.preset = preset;
          run.policy.accumulation.sync = accumulation;
          run.policy.accumulation.reshards = frees;
          run.policy.accumulation.waits = frees;
          run.jitter = frees;
          ExpectReference(run, reference);
        }
      }
    }
  }
}

TEST(Accumulation, GoesWithStagesAndTensorRanks) {
  for (const GradientSync accumulation : {GradientSync::kReduce, GradientSync::kNoSync}) {
    TestRun run = NumericsRun("full", 4);
    run.policy.accumulation.sync = accumulation;
    run.policy.accumulation.reshards = false;
    run.policy.accumulation.waits = false;
    run.stages = 2;
    ExpectReference(run);
    run.stages = 0;
    run.tensor = 2;
    run.model.heads = 4;
    ExpectReference(run);
  }
}

// Gradients that are added up in a narrow type are rounded in between.
TEST(Accumulation, InBf16StaysNear) {
  for (const Preset preset : {Preset::kFsdp1, Preset::kFsdp2}) {
    for (const GradientSync accumulation :
         {GradientSync::kNoSync, GradientSync::kReduceScatterOnly}) {
      for (const auto& [reduce, keeps] : {std::pair{DType::kFp32, false}, {DType::kBf16, true}}) {
        TestRun run = NumericsRun("hybrid", 4, DType::kBf16);
        run.training.steps = 8;
        run.policy.preset = preset;
        run.policy.reduce_dtype = reduce;
        run.policy.accumulation.sync = accumulation;
        run.policy.accumulation.keeps_dtype = keeps;
        SCOPED_TRACE(ScheduleNameOf(run));
        const TestResult reference = TrainReference(run);
        const TestResult sharded = Train(run);
        ASSERT_EQ(sharded.losses.size(), reference.losses.size());
        EXPECT_NEAR(sharded.losses.back(), reference.losses.back(), 0.02 * reference.losses.back());
      }
    }
  }
}

// A power of two that neither gradient nor norm can overflow changes no bit.
TEST(Scaler, ChangesNothingWhereNothingOverflows) {
  for (const auto& [strategy, ranks] : kCompositions) {
    TestRun run = NumericsRun(strategy, ranks);
    SCOPED_TRACE(strategy);
    const TestResult without = Train(run);
    run.training.scaler = {.is_on = true, .interval = 2};
    EXPECT_TRUE(SameBits(Train(run), without));
    ExpectReference(run);
  }
}

TEST(Scaler, IsTorchs) {
  const model::ScalerSettings settings{.is_on = true, .init = 8, .interval = 2};
  model::GradientScaler scaler = model::MakeScaler(settings);
  const bool found[] = {false, true, false, false, false, true, true, false, false};
  const double scales[] = {8, 4, 4, 8, 8, 4, 2, 2, 4};
  for (size_t step = 0; step < std::size(found); ++step) {
    scaler.Update(settings, found[step]);
    EXPECT_EQ(scaler.scale, scales[step]) << "step " << step;
  }
  EXPECT_EQ(scaler.num_skipped, 3);
  EXPECT_EQ(model::MakeScaler({}).scale, 1);
}

// A scale that is too large makes a gradient infinite: all ranks skip, until it is small enough.
TEST(Scaler, SkipsAStepOnAllRanks) {
  for (const auto& [strategy, num_ranks] : kCompositions) {
    TestRun run = NumericsRun(strategy, num_ranks, DType::kFp16);
    run.training.micro_batches = 1;
    run.training.steps = 24;
    run.training.scaler = {.is_on = true, .init = std::exp2(30)};
    SCOPED_TRACE(strategy);
    NullSink sink;
    CpuDevice device{CpuOptions()};
    auto made =
        Ranks::Make(JobOf(run), transport::MakeSharedMemoryTransport(num_ranks, 60 * kNsPerSecond),
                    &sink, &device);
    ASSERT_TRUE(made.ok()) << made.message();
    Ranks& ranks = **made;
    const plan::Schedule schedule = *plan::BuildSchedule(DescriptionOf(run), PolicyOf(run));
    ASSERT_TRUE(ranks.OnAll([&](int rank) { return ranks.SetSchedule(rank, schedule); }).ok());
    int num_skipped = 0;
    std::vector<double> losses;
    for (int64_t step = 0; step < run.training.steps; ++step) {
      const Status status = ranks.OnAll([&](int rank) {
        ranks.work(rank).BeginStep(step, 3e-3);
        const Status ran = ranks.runner(rank).RunStep(step);
        if (ran.ok()) {
          EXPECT_EQ(ranks.work(rank).EndStep(), 0);
        }
        return ran;
      });
      ASSERT_TRUE(status.ok()) << status.message();
      const StepOutcome& first = ranks.work(0).outcome();
      double loss = 0;  // of stages the last one has it, of tensor ranks the first
      for (int rank = 0; rank < num_ranks; ++rank) loss += ranks.work(rank).outcome().loss;
      losses.push_back(loss);
      num_skipped += first.found_inf ? 1 : 0;
      EXPECT_EQ(first.loss_scale, std::exp2(30 - num_skipped + (first.found_inf ? 1 : 0)));
      for (int rank = 1; rank < num_ranks; ++rank) {
        EXPECT_EQ(ranks.work(rank).outcome().found_inf, first.found_inf);
        EXPECT_EQ(ranks.work(rank).scaler(), ranks.work(0).scaler());
      }
      if (!first.found_inf) {
        EXPECT_TRUE(std::isfinite(first.grad_norm));
        EXPECT_LT(first.grad_norm, 100) << "without the scale";
      }
    }
    EXPECT_GT(num_skipped, 5);
    EXPECT_LT(num_skipped, 24);
    EXPECT_EQ(ranks.work(0).scaler().num_skipped, num_skipped);
    // What is skipped changes no weight: the same loss again, on other samples only.
    EXPECT_LT(losses.back(), losses.front());
  }
}

TEST(Precision, NarrowTypesStayNearTheReferenceWhateverIsSharded) {
  for (const DType dtype : {DType::kBf16, DType::kFp16}) {
    for (const auto& [strategy, num_ranks] : kCompositions) {
      TestRun run = NumericsRun(strategy, num_ranks, dtype);
      run.training.steps = 12;
      if (dtype == DType::kFp16) run.training.scaler = {.is_on = true, .init = 1024};
      SCOPED_TRACE(ScheduleNameOf(run) + ", " + std::string(plan::Name(dtype)));
      const TestResult reference = TrainReference(run);
      const TestResult sharded = Train(run);
      ASSERT_EQ(sharded.losses.size(), reference.losses.size());
      EXPECT_LT(sharded.losses.back(), sharded.losses.front());
      EXPECT_NEAR(sharded.losses.back(), reference.losses.back(), 0.02 * reference.losses.back());
    }
  }
}

TEST(Precision, Fp16StaysNearTheReference) {
  for (const Preset preset : {Preset::kFsdp1, Preset::kFsdp2}) {
    for (const DType reduce : {DType::kFp32, DType::kFp16}) {
      TestRun run = NumericsRun("full", 2, DType::kFp16);
      run.training.micro_batches = 1;
      run.training.steps = 30;
      run.training.scaler = {.is_on = true, .init = 1024};
      run.policy.preset = preset;
      run.policy.reduce_dtype = reduce;
      run.policy.accumulation.keeps_dtype = reduce == DType::kFp16;
      SCOPED_TRACE(ScheduleNameOf(run));
      const TestResult reference = TrainReference(run);
      const TestResult sharded = Train(run);
      ASSERT_EQ(sharded.losses.size(), reference.losses.size());
      EXPECT_NEAR(sharded.losses.back(), reference.losses.back(), 0.02 * reference.losses.back());
      EXPECT_NEAR(sharded.norms.front(), reference.norms.front(), 0.02 * reference.norms.front());
    }
  }
}

}  // namespace
}  // namespace shardscope::runtime
