// Training with state in the host's memory: against training without, and the unsharded reference.
#include <gtest/gtest.h>

#include <vector>

#include "engine/plan/conflicts.h"
#include "engine/plan/strategy_test_util.h"
#include "engine/runtime/ranks/job_test_util.h"

namespace shardscope::runtime {
namespace {

using plan::FindStrategy;
using plan::Preset;

void SetPolicy(const char* strategy, Preset preset, TestRun* run) {
  run->training.num_ranks = strategy[0] == 'h' ? 4 : 3;
  run->policy = {};
  run->policy.preset = preset;
  SetStrategy(strategy, &run->policy);
}

// Shards in the host's memory: the same values, wherever they lie and whenever they are updated.
// The second step begins with what the first one leaves.
TEST(BitsTest, OffloadedStateAgrees) {
  TestRun run;
  run.model = {.layers = 3, .dim = 24, .heads = 4, .seq = 16};
  run.training.micro_batches = 2;
  run.training.steps = 2;
  for (const Preset preset : {Preset::kFsdp1, Preset::kFsdp2}) {
    for (const char* strategy : {"full", "grad_op", "hybrid", "hybrid_grad_op", "zero3"}) {
      for (const plan::DType type : {plan::DType::kFp32, plan::DType::kBf16}) {
        for (const double clip : {1.0, 0.0}) {
          SetPolicy(strategy, preset, &run);
          run.training.clip = clip;
          run.model.dtype = type;
          run.policy.units.persistence_threshold = 100;  // some of zero3's stay whole
          run.jitter = false;
          const TestResult expected = Train(run);
          run.jitter = true;
          run.policy.offload = plan::Offload::kAll;
          run.policy.update.clips = clip > 0;
          EXPECT_TRUE(SameBits(Train(run), expected)) << strategy << " " << clip;
        }
      }
    }
  }
}

// The optimizer's state alone, wherever it is sharded.
TEST(BitsTest, OffloadedOptimizerAgrees) {
  TestRun run;
  run.model = {.layers = 3, .dim = 24, .heads = 4, .seq = 16};
  run.training.micro_batches = 2;
  run.training.steps = 2;
  for (const char* strategy :
       {"full", "grad_op", "hybrid", "hybrid_grad_op", "zero1", "zero2", "zero3"}) {
    for (const plan::DType type : {plan::DType::kFp32, plan::DType::kBf16}) {
      for (const Preset preset : {Preset::kFsdp1, Preset::kFsdp2}) {
        SCOPED_TRACE(strategy);
        SetPolicy(strategy, preset, &run);
        run.model.dtype = type;
        run.policy.units.persistence_threshold = 500;  // some of zero3's stay whole
        run.jitter = false;
        const TestResult expected = Train(run);
        run.jitter = true;
        run.policy.offload = plan::Offload::kOptimizer;
        EXPECT_TRUE(SameBits(Train(run), expected)) << Name(type);
      }
    }
  }
}

// Whatever becomes of gradients and parameters between micro-batches.
TEST(BitsTest, OffloadOfEveryAccumulationAgrees) {
  TestRun run;
  run.model = {.layers = 2, .dim = 24, .heads = 4, .seq = 16};
  run.training.micro_batches = 3;
  run.training.steps = 2;
  const plan::Accumulation accumulations[] = {
      {.sync = plan::GradientSync::kNoSync},
      {.sync = plan::GradientSync::kNoSync, .reshards = false, .waits = false},
      {.sync = plan::GradientSync::kReduceScatterOnly},
      {.reshards = false},
      {.waits = false}};
  for (const char* strategy : {"full", "grad_op", "hybrid"}) {
    for (const Preset preset : {Preset::kFsdp1, Preset::kFsdp2}) {
      SetPolicy(strategy, preset, &run);
      for (const plan::Accumulation& accumulation : accumulations) {
        run.policy.accumulation = accumulation;
        if (plan::ConflictOfReduceScatterOnly(run.policy) != plan::Conflict::kNone) continue;
        for (const plan::DType type : {plan::DType::kFp32, plan::DType::kBf16}) {
          run.model.dtype = type;
          run.policy.reduce_dtype = type;
          run.policy.offload = plan::Offload::kNone;
          run.jitter = false;
          SCOPED_TRACE(plan::BuildSchedule(DescriptionOf(run), PolicyOf(run))->name);
          const TestResult expected = Train(run);
          run.jitter = true;
          for (const plan::Offload offload : {plan::Offload::kOptimizer, plan::Offload::kAll}) {
            run.policy.offload = offload;
            EXPECT_TRUE(SameBits(Train(run), expected));
          }
        }
      }
    }
  }
}

TEST(OffloadTest, Fp64WeightsAreThoseOfTheReference) {
  for (const int stages : {0, 2}) {
    TestRun run;
    run.model = {.layers = 3, .dim = 24, .heads = 4, .seq = 16, .dtype = plan::DType::kFp64};
    run.training.num_ranks = 4;
    run.training.micro_batches = 2;
    run.training.clip = 0;
    run.stages = stages;
    run.policy.offload = plan::Offload::kAll;
    run.policy.update.clips = false;
    run.policy.checkpointing.mode = plan::Checkpointing::kEvery;
    EXPECT_LE(LargestDifference(Train(run).parameters, TrainReference(run).parameters), 1e-10);
  }
}

// Of ranks that have a part of attention and MLP, and of replicas; where parameters are whole.
TEST(OffloadTest, Fp64WeightsOfComposedRanksAreThoseOfTheReference) {
  struct Tried {
    const char* strategy;
    int ranks;
    int tensor;
    plan::Offload offload;
  };
  constexpr Tried kTried[] = {
      {"full", 4, 2, plan::Offload::kAll},         {"full", 4, 2, plan::Offload::kOptimizer},
      {"grad_op", 4, 2, plan::Offload::kAll},      {"hybrid", 8, 2, plan::Offload::kAll},
      {"hybrid", 8, 2, plan::Offload::kOptimizer}, {"hybrid", 4, 0, plan::Offload::kAll},
      {"hybrid", 4, 0, plan::Offload::kOptimizer}, {"zero2", 2, 0, plan::Offload::kOptimizer},
      {"full", 2, 2, plan::Offload::kOptimizer}};
  for (const Tried& tried : kTried) {
    for (const bool shares_sequence : {false, true}) {
      if (shares_sequence && tried.tensor == 0) continue;
      for (const double clip : {1.0, 0.0}) {
        TestRun run;
        run.model = {.layers = 2, .dim = 24, .heads = 4, .seq = 16, .dtype = plan::DType::kFp64};
        run.training.num_ranks = tried.ranks;
        run.training.micro_batches = 2;
        run.training.steps = 3;
        run.training.clip = clip;
        run.tensor = tried.tensor;
        SetStrategy(tried.strategy, &run.policy);
        run.policy.offload = tried.offload;
        run.policy.update.clips = clip > 0 || tried.offload != plan::Offload::kAll;
        run.policy.units.sequence_parallel = shares_sequence;
        SCOPED_TRACE(plan::BuildSchedule(DescriptionOf(run), PolicyOf(run))->name);
        const TestResult expected = TrainReference(run);
        const TestResult result = Train(run);
        EXPECT_LE(LargestDifference(result.parameters, expected.parameters), 1e-10);
        ASSERT_EQ(result.norms.size(), expected.norms.size());
        for (size_t step = 0; run.policy.update.clips && step < expected.norms.size(); ++step) {
          EXPECT_NEAR(result.norms[step], expected.norms[step], 1e-10 * expected.norms[step]);
        }
      }
    }
  }
}

// As ranks of a pipeline alone and of DDP have what they update: a shard is all of a unit.
TEST(OffloadTest, Fp64WeightsOfShardsOfOneRankAreThoseOfTheReference) {
  for (const bool is_pipeline : {false, true}) {
    for (const plan::Offload offload : {plan::Offload::kOptimizer, plan::Offload::kAll}) {
      TestRun run;
      run.model = {.layers = 3, .dim = 24, .heads = 4, .seq = 16, .dtype = plan::DType::kFp64};
      run.training.num_ranks = 2;
      run.training.micro_batches = 2;
      run.training.steps = 3;
      run.stages = is_pipeline ? 2 : 0;
      run.policy.strategy = FindStrategy(is_pipeline ? "full" : "hybrid");
      run.policy.offload = offload;
      SCOPED_TRACE(plan::BuildSchedule(DescriptionOf(run), PolicyOf(run))->name);
      const TestResult expected = TrainReference(run);
      const TestResult result = Train(run);
      EXPECT_LE(LargestDifference(result.parameters, expected.parameters), 1e-10);
      run.policy.offload = plan::Offload::kNone;
      EXPECT_TRUE(SameBits(Train(run), result));
    }
  }
}

// In whatever type they reduce, gradients are added up in that of the weights that are updated.
// Each accumulation of each strategy with each type; the presets take turns in these, as both of
// them meet every accumulation of every strategy in OffloadOfEveryAccumulationAgrees.
TEST(BitsTest, OffloadOfRanksThatShareTheSequenceAgrees) {
  struct Types {
    plan::DType param;
    plan::DType reduce;
  };
  constexpr Types kTypes[] = {{plan::DType::kFp32, plan::DType::kFp32},
                              {plan::DType::kBf16, plan::DType::kFp32},
                              {plan::DType::kBf16, plan::DType::kBf16}};
  TestRun run;
  run.model = {.layers = 2, .dim = 24, .heads = 4, .seq = 16};
  run.training.micro_batches = 2;
  run.training.steps = 2;
  run.tensor = 2;
  int count = 0;
  for (const char* strategy : {"full", "grad_op", "hybrid"}) {
    run.training.num_ranks = strategy[0] == 'h' ? 8 : 4;
    for (const auto sync : {plan::GradientSync::kReduce, plan::GradientSync::kNoSync,
                            plan::GradientSync::kReduceScatterOnly}) {
      for (const Types& types : kTypes) {
        run.model.dtype = types.param;
        run.policy = {};
        run.policy.reduce_dtype = types.reduce;
        SetStrategy(strategy, &run.policy);
        run.policy.accumulation.sync = sync;
        run.policy.units.sequence_parallel = true;
        if (plan::ConflictOfReduceScatterOnly(run.policy) != plan::Conflict::kNone) continue;
        run.policy.preset = count++ % 2 == 0 ? Preset::kFsdp2 : Preset::kFsdp1;
        SCOPED_TRACE(plan::BuildSchedule(DescriptionOf(run), PolicyOf(run))->name);
        run.jitter = false;
        const TestResult expected = Train(run);
        run.jitter = true;
        for (const plan::Offload offload : {plan::Offload::kOptimizer, plan::Offload::kAll}) {
          run.policy.offload = offload;
          EXPECT_TRUE(SameBits(Train(run), expected));
        }
      }
    }
  }
}

}  // namespace
}  // namespace shardscope::runtime
