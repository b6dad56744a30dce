// Training of some parameters only, and of LoRA's adapters, against the unsharded reference; what
// is frozen keeps its bits and takes no memory but its own.
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/runtime/cpu_device.h"
#include "engine/runtime/ranks/frozen_test_util.h"
#include "trace/base/mutex.h"
#include "trace/base/time.h"

namespace shardscope::runtime {
namespace {

using plan::BufferKind;
using plan::FindStrategy;
using plan::OpKind;
using plan::Preset;

class FrozenTest : public testing::TestWithParam<FrozenCase> {};

const FrozenCase kFrozenCases[] = {{"full", 1},
                                   {"full", 3},
                                   {"full", 2, Preset::kFsdp1},
                                   {"full", 3, Preset::kDoubleBuffer},
                                   {"grad_op", 2},
                                   {"grad_op", 2, Preset::kFsdp1},
                                   {"no_shard", 2},
                                   {"no_shard", 2, Preset::kFsdp1},
                                   {"hybrid", 4},
                                   {"ddp", 3},
                                   {"zero1", 2},
                                   {"zero2", 3},
                                   {"zero3", 2},
                                   {"single", 1},
                                   {"data_parallel", 2},
                                   {"pipeline", 2},
                                   {"pipeline", 3},
                                   {"model_parallel", 2},
                                   {"full", 4, Preset::kFsdp2, 2, 2},
                                   {"full", 4, Preset::kFsdp1, 2, 2},
                                   {"ddp", 4, Preset::kFsdp2, 2, 2},
                                   {"tensor", 2},
                                   {"tensor", 3},
                                   {"full", 4, Preset::kFsdp2, 1, 0, 2},
                                   {"full", 4, Preset::kFsdp2, 2, 0, 0, 2},
                                   {"hybrid", 8, Preset::kFsdp2, 1, 0, 0, 2}};

INSTANTIATE_TEST_SUITE_P(Strategies, FrozenTest, testing::ValuesIn(kFrozenCases), FrozenName);

TEST_P(FrozenTest, TrainsAsTheReference) {
  for (const Trains trains : kAllTrains) {
    const TestRun run = FrozenRun(GetParam(), trains);
    if (run.model.tied && !CanBeTied(run)) continue;
    SCOPED_TRACE("trains " + std::to_string(static_cast<int>(trains)));
    ExpectFrozen(run, Train(run));
  }
}

// Keeps which units had memory of these categories.
class UnitSink final : public NullSink {
 public:
  void OnMemory(const executor::OpContext& context, plan::BufferId buffer, int64_t bytes, int64_t,
                int64_t) override {
    const plan::Buffer& of = context.buffer(buffer);
    if (of.unit == plan::kNone || bytes <= 0) return;
    const MutexLock lock(mutex_);
    units_[plan::MemoryCategoryOf(of.kind)].insert(of.unit);
  }
  std::set<int32_t> UnitsWith(plan::MemoryCategory category) {
    const MutexLock lock(mutex_);
    return units_[category];
  }

 private:
  Mutex mutex_;
  std::map<plan::MemoryCategory, std::set<int32_t>> units_;
};

bool IsTaken(plan::MemoryCategory category) {
  return category == plan::MemoryCategory::kGradient ||
         category == plan::MemoryCategory::kOptimizer;
}

// Rows as ranks have them, times columns.
int64_t Elements(const plan::Unit& unit, int64_t ranks, bool is_trained) {
  int64_t elements = 0;
  for (const plan::Parameter& parameter : unit.parameters) {
    if (is_trained && parameter.is_frozen) continue;
    const int64_t rows = (parameter.shape[0] + ranks - 1) / ranks * ranks;
    elements += rows * (parameter.shape.size() > 1 ? parameter.shape[1] : 1);
  }
  return elements;
}

TEST(Frozen, HasNoGradientNoReductionAndNoState) {
  for (const char* strategy : {"full", "grad_op", "ddp", "zero2", "no_shard"}) {
    for (const Trains trains : {Trains::kAdapters, Trains::kHead, Trains::kSome}) {
      const TestRun run = FrozenRun({strategy, 2}, trains);
      const plan::Schedule schedule = FrozenSchedule(run);
      SCOPED_TRACE(schedule.name + " trains " + std::to_string(static_cast<int>(trains)));
      const int64_t ranks = run.policy.strategy->shards_optimizer ? 2 : 1;
      std::set<int32_t> trained;
      for (int32_t unit = 0; unit < std::ssize(schedule.units); ++unit) {
        if (Elements(schedule.units[static_cast<size_t>(unit)], 1, true) > 0) trained.insert(unit);
      }
      if (run.policy.strategy->wraps) {
        EXPECT_LT(trained.size(), schedule.units.size());
      }
      const plan::Program& program = schedule.programs.front();
      for (const plan::Buffer& buffer : program.buffers) {
        if (!IsTaken(plan::MemoryCategoryOf(buffer.kind)) || buffer.unit == plan::kNone) continue;
        EXPECT_TRUE(trained.contains(buffer.unit)) << plan::BufferName(schedule, buffer);
      }
      std::set<int32_t> reduced;
      for (const plan::Op& op : program.ops) {
        if (op.unit == plan::kNone || op.communicator == plan::kNone) continue;
        const plan::Unit& unit = schedule.units[static_cast<size_t>(op.unit)];
        const bool is_update = op.phase == plan::Phase::kOptimizer;
        const bool is_reduced = plan::TraitsOf(op.kind).reduces;
        EXPECT_EQ(op.payload_bytes, 8 * Elements(unit, ranks, is_reduced || is_update));
        if (is_reduced) reduced.insert(op.unit);
      }
      EXPECT_EQ(reduced, trained);

      UnitSink sink;
      CpuDevice device{CpuOptions()};
      auto made = Ranks::Make(
          JobOf(run), transport::MakeSharedMemoryTransport(2, kNsPerSecond * 60), &sink, &device);
      ASSERT_TRUE(made.ok()) << made.message();
      const Status status = (*made)->OnAll([&](int rank) {
        SHARDSCOPE_RETURN_IF_ERROR((*made)->SetSchedule(rank, schedule));
        (*made)->work(rank).BeginStep(0, 1e-3);
        return (*made)->runner(rank).RunStep(0);
      });
      ASSERT_TRUE(status.ok()) << status.message();
      for (const int32_t unit : sink.UnitsWith(plan::MemoryCategory::kGradient)) {
        EXPECT_TRUE(trained.contains(unit));
      }
      for (int32_t unit = 0; unit < std::ssize(schedule.units); ++unit) {
        ShardedUnit& kept = (*made)->work(0).units()[static_cast<size_t>(unit)];
        const bool has_gradient = kept.gradient().defined() || kept.whole_gradient().defined();
        EXPECT_EQ(has_gradient, trained.contains(unit));
        EXPECT_EQ(kept.Slices().empty(), !trained.contains(unit));
      }
    }
  }
}

// As autograd does: what comes before the first parameter that is trained has no backward.
TEST(Frozen, BackwardEndsWhereNothingBeforeIsTrained) {
  const TestRun run = FrozenRun({"full", 2}, Trains::kLastAdapters);
  const plan::Schedule schedule = FrozenSchedule(run);
  std::set<int32_t> backward;
  std::set<int32_t> gathered;
  int64_t kept_bytes = 0;
  for (const plan::Op& op : schedule.programs.front().ops) {
    if (op.kind == OpKind::kBackward) backward.insert(op.segment);
    if (op.kind == OpKind::kAllGather && op.phase == plan::Phase::kBackward) {
      gathered.insert(op.unit);
    }
  }
  for (const plan::Buffer& buffer : schedule.programs.front().buffers) {
    if (buffer.kind == BufferKind::kActivation && buffer.segment == 1) kept_bytes = buffer.bytes;
  }
  EXPECT_EQ(backward, (std::set<int32_t>{2, 3, 4, 5}));
  EXPECT_FALSE(gathered.contains(schedule.segments.front().units.front()));
  EXPECT_EQ(kept_bytes, schedule.segments[1].output_bytes);
}

// Checkpointing, offload, accumulation, other dtypes and states change what ops there are.
TEST(Frozen, GoesWithOtherOptions) {
  for (const Trains trains : {Trains::kAdapters, Trains::kLastAdapters}) {
    for (const char* strategy : {"zero1", "zero2"}) {
      TestRun zero = FrozenRun({strategy, 2}, trains);
      zero.policy.offload = plan::Offload::kOptimizer;
      ExpectFrozen(zero, Train(zero));
    }
    TestRun run = FrozenRun({"full", 2}, trains);
    run.policy.checkpointing.mode = plan::Checkpointing::kEvery;
    ExpectFrozen(run, Train(run));
    run.policy.checkpointing.mode = plan::Checkpointing::kProducts;
    run.policy.offload = plan::Offload::kAll;
    ExpectFrozen(run, Train(run));
    run.policy.offload = plan::Offload::kOptimizer;
    ExpectFrozen(run, Train(run));
    run.policy.offload = plan::Offload::kNone;
    run.policy.accumulation.sync = plan::GradientSync::kNoSync;
    run.policy.accumulation.reshards = false;
    ExpectFrozen(run, Train(run));
    run = FrozenRun({"full", 2}, trains);
    run.model.dtype = plan::DType::kBf16;
    run.state_form = plan::StateForm::kBlocks;
    const TestResult sharded = Train(run);
    const TestResult reference = TrainReference(run);
    EXPECT_NEAR(sharded.losses.back(), reference.losses.back(), 2e-2 * reference.losses.back());
  }
}

// Ranks that share layers add up what each has of an adapter's gradient before it goes to the host.
TEST(Frozen, AdaptersOfRanksThatShareLayersGoWithOffload) {
  for (const Trains trains : {Trains::kAdapters, Trains::kGptAdapters, Trains::kSome}) {
    for (const char* strategy : {"full", "hybrid"}) {
      const int ranks = strategy[0] == 'h' ? 8 : 4;
      const TestRun on_device = FrozenRun({strategy, ranks, Preset::kFsdp2, 2, 0, 2}, trains);
      const TestResult plain = Train(on_device);
      for (const plan::Offload offload : {plan::Offload::kOptimizer, plan::Offload::kAll}) {
        TestRun run = on_device;
        run.policy.offload = offload;
        const TestResult offloaded = Train(run);
        ExpectFrozen(run, offloaded);
        EXPECT_TRUE(SameBits(offloaded, plain));
        run.policy.preset = Preset::kFsdp1;
        run.training.clip = 0;
        run.policy.update.clips = offload != plan::Offload::kAll;
        ExpectFrozen(run, Train(run));
      }
    }
  }
}

// Gradients of adapters are added up in the type of the weights, whatever the ranks reduce in. Each
// accumulation with each type; the presets take turns in these.
TEST(Frozen, OffloadOfAdaptersOfRanksThatShareLayersChangesNoBits) {
  for (const char* strategy : {"full", "hybrid"}) {
    int count = 0;
    for (const auto sync : {plan::GradientSync::kReduce, plan::GradientSync::kReduceScatterOnly}) {
      const bool has_replicas = strategy[0] == 'h';
      if (sync == plan::GradientSync::kReduceScatterOnly && !has_replicas) continue;
      for (const plan::DType reduce : {plan::DType::kFp32, plan::DType::kBf16}) {
        const Preset preset = count++ % 3 == 0 ? Preset::kFsdp1 : Preset::kFsdp2;
        TestRun run =
            FrozenRun({strategy, has_replicas ? 8 : 4, preset, 3, 0, 2}, Trains::kAdapters);
        run.model.dtype = plan::DType::kFp32;
        run.policy.reduce_dtype = reduce;
        run.policy.accumulation.sync = sync;
        SCOPED_TRACE(FrozenSchedule(run).name);
        const TestResult plain = Train(run);
        for (const plan::Offload offload : {plan::Offload::kOptimizer, plan::Offload::kAll}) {
          run.policy.offload = offload;
          EXPECT_TRUE(SameBits(Train(run), plain)) << Name(reduce);
        }
      }
    }
  }
}

// The norm too, wherever gradients lie.
TEST(Frozen, OffloadChangesNoBits) {
  for (const char* strategy : {"full", "hybrid", "zero1", "zero2", "zero3"}) {
    for (const plan::DType dtype : {plan::DType::kFp32, plan::DType::kBf16}) {
      TestRun run = FrozenRun({strategy, strategy[0] == 'h' ? 4 : 2}, Trains::kAdapters);
      run.model.dtype = dtype;
      SCOPED_TRACE(FrozenSchedule(run).name);
      const TestResult plain = Train(run);
      for (const plan::Offload offload : {plan::Offload::kOptimizer, plan::Offload::kAll}) {
        const bool has_shards = run.policy.strategy->shards_parameters;
        if (offload == plan::Offload::kAll && !has_shards) continue;
        run.policy.offload = offload;
        EXPECT_TRUE(SameBits(Train(run), plain));
      }
    }
  }
}

// The state of what is trained moves with the weights, and nothing else has any.
TEST(Frozen, MovesToOtherLayouts) {
  TestRun run = FrozenRun({"full", 2}, Trains::kAdapters);
  TestRun other = run;
  other.policy.strategy = FindStrategy("zero2");
  other.policy.reshard_after_forward = false;
  const plan::Schedule schedules[] = {FrozenSchedule(run), FrozenSchedule(other)};
  NullSink sink;
  CpuDevice device{CpuOptions()};
  auto made = Ranks::Make(JobOf(run), transport::MakeSharedMemoryTransport(2, kNsPerSecond * 60),
                          &sink, &device);
  ASSERT_TRUE(made.ok()) << made.message();
  for (int64_t step = 0; step < run.training.steps; ++step) {
    const Status status = (*made)->OnAll([&](int rank) {
      SHARDSCOPE_RETURN_IF_ERROR((*made)->SetSchedule(rank, schedules[step % 2]));
      (*made)->work(rank).BeginStep(step, run.training.learning_rate);
      SHARDSCOPE_RETURN_IF_ERROR((*made)->runner(rank).RunStep(step));
      (*made)->work(rank).EndStep();
      return Status::Ok();
    });
    ASSERT_TRUE(status.ok()) << status.message();
  }
  const TestResult reference = TrainReference(run);
  for (const auto& [name, expected] : reference.parameters) {
    const double difference = ((*made)->FullParameter(name) - expected).abs().max().item<double>();
    EXPECT_LE(difference, 1e-10 * expected.abs().max().item<double>()) << name;
  }
}

}  // namespace
}  // namespace shardscope::runtime
