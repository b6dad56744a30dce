// Memory of whole steps: the issue ledger against what the Schedule predicts, the ops' ledger
// against what is really allocated, resident memory, and freed units that may not be touched.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <map>
#include <vector>

#include "engine/model/initialize.h"
#include "engine/model/matmul_scratch.h"
#include "engine/plan/memory.h"
#include "engine/plan/strategy_test_util.h"
#include "engine/runtime/cpu_device.h"
#include "engine/runtime/memory/memory_pool.h"
#include "engine/runtime/memory/tensor_memory.h"
#include "engine/runtime/memory/tensor_memory_test_util.h"
#include "engine/runtime/ranks/cpu_work_test_util.h"
#include "engine/runtime/ranks/job_test_util.h"
#include "engine/transport/gloo/gloo_transport.h"
#include "trace/base/mutex.h"
#include "trace/base/time.h"

namespace shardscope::runtime {
namespace {

using executor::MemoryChange;
using executor::OpContext;
using plan::FindStrategy;
using plan::MemoryCategory;
using plan::Preset;
using plan::Strategy;

constexpr int64_t kTimeoutNs = 60 * kNsPerSecond;

// Keeps what is reported of rank 0.
class MemorySink : public NullSink {
 public:
  struct Event {
    int64_t issued_ns;
    int64_t executed_ns;
    int64_t bytes;
    MemoryCategory category;
    bool planned;  // a buffer of the Schedule
  };

  void OnMemory(const OpContext& context, plan::BufferId buffer, int64_t bytes, int64_t issued_ns,
                int64_t executed_ns) override {
    const MemoryCategory category = plan::MemoryCategoryOf(context.buffer(buffer).kind);
    Add(context, {issued_ns, executed_ns, bytes, category, true});
  }
  void OnOtherMemory(const OpContext& context, const MemoryChange& change) override {
    Add(context, {context.issued_ns, change.executed_ns, change.bytes, change.category, false});
  }
  std::vector<Event> Take() {
    const MutexLock lock(mutex_);
    return std::exchange(events_, {});
  }

 private:
  void Add(const OpContext& context, const Event& event) {
    if (context.rank != 0) return;
    const MutexLock lock(mutex_);
    events_.push_back(event);
  }

  Mutex mutex_;
  std::vector<Event> events_;
};

// Ranks of one job with their Schedule.
struct Running {
  Running(const TestRun& run, executor::ExecutionSink* sink,
          std::unique_ptr<transport::Transport> transport = nullptr)
      : job(JobOf(run)) {
    Result<plan::Schedule> built = plan::BuildSchedule(DescriptionOf(run), PolicyOf(run));
    EXPECT_TRUE(built.ok()) << built.message();
    schedule = *std::move(built);
    const int num_ranks = run.training.num_ranks;
    if (transport == nullptr) {
      transport = transport::MakeSharedMemoryTransport(num_ranks, kTimeoutNs);
    }
    auto made = Ranks::Make(job, std::move(transport), sink, &device);
    EXPECT_TRUE(made.ok()) << made.message();
    ranks = std::move(made).value();
  }
  Status Step(const plan::Schedule& of, int64_t step) {
    if (&of != set) {
      const Status status = ranks->OnAll([&](int rank) { return ranks->SetSchedule(rank, of); });
      EXPECT_TRUE(status.ok()) << status.message();
      set = &of;
    }
    return ranks->OnAll([&](int rank) {
      ranks->work(rank).BeginStep(step, 1e-3);
      const Status status = ranks->runner(rank).RunStep(step);
      if (status.ok()) {
        EXPECT_EQ(ranks->work(rank).EndStep(), 0);
      }
      return status;
    });
  }

  Job job;
  plan::Schedule schedule;
  CpuDevice device{CpuOptions()};
  std::unique_ptr<Ranks> ranks;
  const plan::Schedule* set = nullptr;
};

// The largest of each category and of the transient ones together, in issue order.
plan::MemoryPeak IssuePeak(std::vector<MemorySink::Event> events,
                           const std::array<int64_t, plan::kNumMemoryCategories>& before) {
  std::stable_sort(events.begin(), events.end(),
                   [](const auto& a, const auto& b) { return a.issued_ns < b.issued_ns; });
  auto live = before;
  plan::MemoryPeak peak;
  const auto take = [&] {
    int64_t total = 0;
    for (size_t i = 0; i < live.size(); ++i) {
      peak.by_category[i] = std::max(peak.by_category[i], live[i]);
      if (i != static_cast<size_t>(MemoryCategory::kTemporary)) total += live[i];
    }
    peak.total = std::max(peak.total, total);
    peak.transient = std::max(peak.transient,
                              live[static_cast<size_t>(MemoryCategory::kUnshardedParameter)] +
                                  live[static_cast<size_t>(MemoryCategory::kCommunicationBuffer)]);
  };
  take();
  for (const MemorySink::Event& event : events) {
    // Gaps between parameters: what no Schedule lists.
    if (!event.planned && event.category == MemoryCategory::kOther) continue;
    live[static_cast<size_t>(event.category)] += event.bytes;
    take();
  }
  EXPECT_EQ(live, before);  // a step gives back what it takes
  return peak;
}

constexpr plan::Checkpointing kCheckpointings[] = {
    plan::Checkpointing::kNone, plan::Checkpointing::kEvery, plan::Checkpointing::kProducts};

std::vector<plan::Policy> ManyPolicies() {
  struct Knobs {
    int depth, forward, limit, run_ahead;
  };
  std::vector<plan::Policy> policies;
  for (const Preset preset : {Preset::kFsdp1, Preset::kFsdp2}) {
    for (const Strategy* strategy :
         {FindStrategy("full"), FindStrategy("grad_op"), FindStrategy("no_shard"),
          FindStrategy("hybrid"), FindStrategy("ddp"), FindStrategy("zero1"), FindStrategy("zero2"),
          FindStrategy("zero3"), FindStrategy("pipeline"), FindStrategy("tensor"),
          FindStrategy("data_parallel")}) {
      for (const auto backward : {plan::BackwardPrefetch::kPre, plan::BackwardPrefetch::kPost,
                                  plan::BackwardPrefetch::kNone}) {
        for (const Knobs& knobs : {Knobs{1, 0, 0, -1}, {3, 2, 0, -1}, {2, 1, 2, 0}, {1, 3, 1, 2}}) {
          plan::Policy& policy = policies.emplace_back();
          policy.preset = preset;
          SetStrategy(*strategy, &policy);
          policy.backward_prefetch = backward;
          policy.backward_depth = knobs.depth;
          policy.forward_prefetch = knobs.forward;
          policy.prefetch_limit = knobs.limit;
          policy.run_ahead = knobs.run_ahead;
          if (!strategy->has_presets || !strategy->shards_parameters) continue;
          const size_t number = policies.size();
          if (number % 3 == 1) policy.accumulation.sync = plan::GradientSync::kNoSync;
          if (number % 3 == 2 && strategy->replicates_shards()) {
            policy.accumulation.sync = plan::GradientSync::kReduceScatterOnly;
          }
          policy.accumulation.reshards = number % 4 != 2;
          policy.accumulation.waits = number % 5 != 3;
          policy.accumulation.keeps_dtype = number % 7 == 4;
        }
      }
    }
  }
  // Of ranks that share layers.
  for (const Strategy* strategy : {FindStrategy("tensor"), FindStrategy("full")}) {
    for (int count = 0; count < 6; ++count) {
      plan::Policy& policy = policies.emplace_back();
      SetStrategy(*strategy, &policy);
      policy.units.sequence_parallel = count % 3 != 0;
      policy.tensor_async = count % 2 == 0;
    }
  }
  for (size_t at = 0; at < policies.size(); ++at) {
    policies[at].checkpointing.mode = kCheckpointings[at % std::size(kCheckpointings)];
    policies[at].checkpointing.every = 1 + static_cast<int>(at / 5 % 2);
  }
  return policies;
}

// To the byte, in every category and in all, whatever the policy, with sizes that do not divide.
TEST(IssueLedgerTest, PeaksAreThoseThatTheSchedulePredicts) {
  int count = 0;
  for (const plan::Policy& policy : ManyPolicies()) {
    TestRun run;
    run.policy = policy;
    run.training.num_ranks = 1 + count % 3;
    run.training.micro_batches = 1 + count / 3 % 2;
    run.units.root = count % 5 == 0 && PolicyOf(run).units.stages == 1;
    run.model.layers = 3;
    run.model.heads = 6;  // some for each rank
    run.model.seq = 18;   // a part for each
    if (policy.units.sequence_parallel || policy.tensor_async) {
      run.tensor = run.training.num_ranks;
    }
    if (count % 4 == 1) MakeLlama(&run);
    if (count % 4 == 2) run.state_form = plan::StateForm::kBlocks;
    if (count % 3 == 2) run.model.logits_block = 100;
    run.training.scaler.is_on = count % 5 == 2 && !policy.strategy->is_rooted;
    if (count++ % 7 == 0) run.model.dtype = plan::DType::kBf16;
    MemorySink sink;
    Running running(run, &sink);
    std::array<int64_t, plan::kNumMemoryCategories> before{};
    for (size_t i = 0; i < before.size(); ++i) {
      before[i] = CpuWorkInside::Ledger(CpuWorkOf(*running.ranks, 0))
                      .live_bytes(static_cast<MemoryCategory>(i));
    }
    const StateLayout& state = running.ranks->job().initial_layout;
    for (const plan::Buffer& buffer : state.buffers) {
      if (!state.Has(0, buffer.unit)) continue;
      const UnitLayout& layout =
          running.ranks->work(0).units()[static_cast<size_t>(buffer.unit)].layout();
      before[static_cast<size_t>(MemoryCategory::kOther)] -= GapBytes(layout, buffer);
    }
    const Status status = running.Step(running.schedule, 0);
    ASSERT_TRUE(status.ok()) << status.message();
    const plan::MemoryPeak recorded = IssuePeak(sink.Take(), before);
    const plan::MemoryPeak predicted = plan::PredictPeak(running.schedule, 0);
    SCOPED_TRACE(running.schedule.name + ", ranks " + std::to_string(run.training.num_ranks));
    EXPECT_EQ(recorded.transient, predicted.transient);
    EXPECT_EQ(recorded.total, predicted.total);
    for (size_t i = 0; i < before.size(); ++i) {
      if (i == static_cast<size_t>(MemoryCategory::kTemporary)) continue;
      EXPECT_EQ(recorded.by_category[i], predicted.by_category[i])
          << plan::Name(static_cast<MemoryCategory>(i));
    }
    EXPECT_GT(recorded.by_category[static_cast<size_t>(MemoryCategory::kTemporary)], 0);
  }
}

// The largest total in the order of execution, temporaries and gaps included.
int64_t ExecutedPeak(std::vector<MemorySink::Event> events, int64_t before) {
  std::stable_sort(events.begin(), events.end(),
                   [](const auto& a, const auto& b) { return a.executed_ns < b.executed_ns; });
  int64_t live = before;
  int64_t peak = before;
  for (const MemorySink::Event& event : events) peak = std::max(peak, live += event.bytes);
  EXPECT_EQ(live, before);
  return peak;
}

// Whatever the policy, the transport and how long each op takes; and no limit stops what fits.
TEST(ExecutedBoundTest, HoldsForEveryOrderThatIsRun) {
  int count = 0;
  for (const plan::Policy& policy : ManyPolicies()) {
    TestRun run;
    run.policy = policy;
    run.training.num_ranks = 1 + count % 3;
    run.training.micro_batches = 1 + count / 3 % 2;
    run.units.root = count % 5 == 0 && PolicyOf(run).units.stages == 1;
    run.model.layers = 3;
    run.model.heads = 6;  // some for each rank
    run.model.seq = 18;   // a part for each
    if (policy.units.sequence_parallel || policy.tensor_async) {
      run.tensor = run.training.num_ranks;
    }
    if (count % 4 == 1) MakeLlama(&run);
    constexpr plan::DType kTypes[] = {plan::DType::kFp32, plan::DType::kBf16, plan::DType::kFp64};
    run.model.dtype = kTypes[count % 7 % 3];
    if (run.model.dtype == plan::DType::kBf16 && count % 2 == 1) {
      run.model.dtype = plan::DType::kFp16;
    }
    if (count % 4 == 1) run.state_form = plan::StateForm::kBlocks;
    if (count % 5 == 2 && !policy.tensor_async) {
      const bool is_llama = run.model.kind == model::ModelKind::kLlama;
      run.model.lora = {.rank = 3, .alpha = 6, .targets = {is_llama ? "gate" : "qkv", "down"}};
    }
    const int num_ranks = run.training.num_ranks;
    MemorySink sink;
    const bool is_gloo = count++ % 4 == 3 && !policy.strategy->is_rooted;
    Running running(run, &sink,
                    is_gloo ? transport::MakeGlooTransport(num_ranks, kTimeoutNs) : nullptr);
    Ranks& ranks = *running.ranks;
    // Streams overtake each other differently in each run.
    ranks.runner(0).set_delay_hook([count](const OpContext& context) {
      if (context.op().stream == 0) return;
      const uint64_t bits =
          model::MixedBits(static_cast<uint64_t>(count), static_cast<uint64_t>(context.index));
      const auto delay_us = static_cast<int64_t>(bits % 8 == 0 ? 1000 : bits / 8 % 100);
      if (bits % 8 < 4) SleepUntilNs(MonotonicNs() + delay_us * kNsPerUs);
    });
    const int64_t bound =
        plan::BoundPeaks(running.schedule, ranks.UnlistedMemory(running.schedule)).front();
    const int64_t before = CpuWorkInside::Ledger(CpuWorkOf(ranks, 0)).live_bytes();
    SCOPED_TRACE(running.schedule.name + ", ranks " + std::to_string(num_ranks));
    ranks.work(0).TakePeakBytes();
    const Status status = running.Step(running.schedule, 0);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_LE(ExecutedPeak(sink.Take(), before), bound);
    EXPECT_LE(ranks.work(0).TakePeakBytes(), bound);
    EXPECT_LE(bound, 2 * plan::PredictPeak(running.schedule, 0).total);
  }
}

// Runs a rank's ops one after the other in host order, and compares after each.
class OneByOne {
 public:
  OneByOne(Running* running, int rank, MemorySink* sink)
      : schedule_(running->schedule), bodies_(CpuWorkOf(*running->ranks, rank)), sink_(sink) {
    context_.schedule = &schedule_;
    context_.program = &schedule_.ProgramOf(rank);
    context_.rank = rank;
    bodies_.SetSchedule(schedule_);
  }

  void Step() {
    bodies_.BeginStep(context_.step, 1e-3);
    for (context_.index = 0; context_.index < static_cast<int32_t>(context_.program->ops.size());
         ++context_.index) {
      RunOp();
      ASSERT_EQ(bodies_.allocated_bytes(), CpuWorkInside::Ledger(bodies_).live_bytes())
          << "after " << plan::OpName(schedule_, context_.op());
      ASSERT_EQ(CpuWorkInside::HostBytes(bodies_),
                CpuWorkInside::Ledger(bodies_).live_bytes(MemoryCategory::kHost))
          << "after " << plan::OpName(schedule_, context_.op());
    }
    EXPECT_EQ(bodies_.EndStep(), 0);
  }
  int64_t num_with_temporary(plan::OpKind kind) const {
    const auto found = with_temporary_.find(kind);
    return found == with_temporary_.end() ? 0 : found->second;
  }

  const std::map<size_t, int64_t>& temporaries() const { return temporaries_; }

 private:
  void RunOp() {
    sink_->Take();
    bodies_.TakePeakBytes();
    for (const plan::BufferId id : context_.op().allocates) bodies_.Allocate(context_, id);
    const int64_t taken = CpuWorkInside::Ledger(bodies_).live_bytes();
    bodies_.Run(context_);
    int64_t temporary = 0;
    for (const MemorySink::Event& event : sink_->Take()) {
      if (event.category != MemoryCategory::kTemporary) continue;
      temporary = std::max(temporary, event.bytes);
    }
    if (temporary > 0) ++with_temporary_[context_.op().kind];
    temporaries_[static_cast<size_t>(context_.index)] = temporary;
    if (context_.rank == 0) {
      EXPECT_EQ(bodies_.TakePeakBytes(), taken + temporary)
          << "in " << plan::OpName(schedule_, context_.op());
    }
    for (const plan::BufferId id : context_.op().frees) bodies_.Free(context_, id);
  }

  const plan::Schedule& schedule_;
  CpuWork& bodies_;
  MemorySink* sink_;
  OpContext context_;
  std::map<plan::OpKind, int64_t> with_temporary_;  // ops
  std::map<size_t, int64_t> temporaries_;           // bytes by op
};

// What the largest products in fp32 may take, where they are oneDNN's.
int64_t BlocksBytes(int64_t tokens, int64_t dim) {
  return model::MatmulScratchBytes(model::MatmulScratchOf(plan::DType::kFp32), tokens, 3 * dim,
                                   dim);
}

// Over sizes at which attention changes its tiles. What matrix products of bf16 need depends on the
// CPU, all else is exact but for these; where they only add in fp32, it is known but for the edges
// of blocks. The last sizes have products in fp32 that are oneDNN's on some CPUs, which take some
// blocks.
TEST(ExecutedBoundTest, TemporariesOfSegmentsAreKnownBefore) {
  struct Size {
    int64_t seq, dim, heads;
  };
  const Size sizes[] = {{16, 24, 3},  {65, 64, 2},   {200, 32, 2},
                        {800, 16, 1}, {512, 256, 4}, {800, 128, 1}};
  for (size_t count = 0; count < 3 * std::size(sizes); ++count) {
    const Size& size = sizes[count / 3];
    for (const plan::DType dtype : {plan::DType::kFp32, plan::DType::kBf16, plan::DType::kFp64}) {
      TestRun run;
      run.model = {
          .layers = 1, .dim = size.dim, .heads = size.heads, .seq = size.seq, .dtype = dtype};
      const bool is_llama = count % 3 > 0;
      if (is_llama) {
        run.model.kind = model::ModelKind::kLlama;
        run.model.heads = 2 * size.heads;
        run.model.kv_heads = size.heads;
        run.model.ffn = 3 * size.dim;
        run.model.qkv_bias = true;
        run.model.tied = count == 1;
      }
      if (count % 3 == 2) run.model.logits_block = 100;
      run.training.num_ranks = 1;
      MemorySink sink;
      Running running(run, &sink);
      OneByOne one(&running, 0, &sink);
      one.Step();
      const plan::Unlisted unlisted = running.ranks->UnlistedMemory(running.schedule);
      for (const auto& [index, bytes] : one.temporaries()) {
        const plan::Op& op = running.schedule.ProgramOf(0).ops[index];
        SCOPED_TRACE(plan::OpName(running.schedule, op) + ", seq " + std::to_string(size.seq) +
                     ", " + std::string(plan::Name(dtype)) + (is_llama ? ", llama" : "") +
                     (run.model.logits_block > 0 ? ", logits in blocks" : ""));
        if (dtype == plan::DType::kBf16) {
          EXPECT_LE(bytes, unlisted.temporary_bytes(op));
          const bool is_head = is_llama && op.kind == plan::OpKind::kForward &&
                               op.segment == std::ssize(running.schedule.segments) - 1;
          if (is_head && model::MatmulScratchOf(dtype) == model::MatmulScratch::kSums) {
            EXPECT_LE(unlisted.temporary_bytes(op), bytes + 512);
          }
        } else {
          const int64_t blocks = dtype == plan::DType::kFp32 ? BlocksBytes(size.seq, size.dim) : 0;
          EXPECT_LE(bytes, unlisted.temporary_bytes(op));
          EXPECT_LE(unlisted.temporary_bytes(op), bytes + blocks);
        }
      }
    }
  }
}

// Every byte that the pool and LibTorch's allocator handed out stands in the ledger, after each op
// and at each op's highest point.
void ExpectEveryByteListed(const TestRun& run, int64_t unscoped) {
  MemorySink sink;
  Running running(run, &sink);
  SCOPED_TRACE(running.schedule.name);
  const plan::Unlisted unlisted = running.ranks->UnlistedMemory(running.schedule);
  const Status status = running.ranks->OnAll([&](int rank) {
    MemorySink of_others;
    OneByOne one(&running, rank, rank == 0 ? &sink : &of_others);
    one.Step();
    for (const auto& [index, bytes] : one.temporaries()) {
      const plan::Op& op = running.schedule.ProgramOf(rank).ops[index];
      EXPECT_LE(bytes, unlisted.temporary_bytes(op)) << plan::OpName(running.schedule, op);
    }
    return Status::Ok();
  });
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(UnscopedTensorBytes() - unscoped, running.ranks->shared_tensor_bytes());
}

// The run with a llama, whose head is tied where it can be.
TestRun AsLlama(TestRun run) {
  MakeLlama(&run, /*tied=*/PolicyOf(run).units.stages == 1);
  return run;
}

TEST(AllocatorTest, AgreesWithTheLedgerToTheByte) {
  const int64_t unscoped = UnscopedTensorBytes();
  for (const Preset preset : {Preset::kFsdp1, Preset::kFsdp2}) {
    for (const Strategy* strategy :
         {FindStrategy("full"), FindStrategy("grad_op"), FindStrategy("no_shard"),
          FindStrategy("hybrid"), FindStrategy("ddp"), FindStrategy("zero1"), FindStrategy("zero2"),
          FindStrategy("zero3"), FindStrategy("pipeline"), FindStrategy("tensor"),
          FindStrategy("data_parallel")}) {
      for (const plan::DType dtype : {plan::DType::kFp32, plan::DType::kBf16}) {
        TestRun run;
        run.model.dtype = dtype;
        run.model.layers = 3;  // a stage for each rank
        run.training.num_ranks = 3;
        run.training.micro_batches = 2;
        run.policy.preset = preset;
        SetStrategy(*strategy, &run.policy);
        for (const plan::Checkpointing mode : kCheckpointings) {
          run.policy.checkpointing.mode = mode;
          ExpectEveryByteListed(run, unscoped);
          ExpectEveryByteListed(AsLlama(run), unscoped);
        }
      }
    }
  }
}

// A rank's own memory is without what is offloaded, and that is counted apart.
TEST(AllocatorTest, CountsTheMemoryOfTheHostApart) {
  const int64_t unscoped = UnscopedTensorBytes();
  for (const Preset preset : {Preset::kFsdp1, Preset::kFsdp2}) {
    for (const plan::DType dtype : {plan::DType::kFp32, plan::DType::kBf16}) {
      for (const bool clips : {true, false}) {
        TestRun run;
        run.model.dtype = dtype;
        run.training.num_ranks = 3;
        run.training.micro_batches = 2;
        run.policy.preset = preset;
        run.policy.offload = plan::Offload::kAll;
        run.policy.update.clips = clips;
        ExpectEveryByteListed(run, unscoped);
        MemorySink sink;
        const Running running(run, &sink);
        const CpuWork& work = CpuWorkOf(*running.ranks, 0);
        EXPECT_EQ(work.allocated_bytes(), 0);
        EXPECT_EQ(CpuWorkInside::HostBytes(work),
                  CpuWorkInside::Ledger(work).live_bytes(MemoryCategory::kHost));
        EXPECT_EQ(work.layout().BytesOf(0),
                  CpuWorkInside::Ledger(work).live_bytes(MemoryCategory::kHost));
      }
    }
  }
  // Of the optimizer alone: the rank keeps what it gathers from; and with zero3 what is whole.
  for (const auto& [strategy, offload] :
       {std::pair("full", plan::Offload::kOptimizer), std::pair("zero1", plan::Offload::kOptimizer),
        std::pair("zero2", plan::Offload::kOptimizer),
        std::pair("zero3", plan::Offload::kOptimizer), std::pair("zero3", plan::Offload::kAll)}) {
    for (const plan::DType dtype : {plan::DType::kFp32, plan::DType::kBf16}) {
      SCOPED_TRACE(strategy);
      TestRun run;
      run.model.dtype = dtype;
      run.training.num_ranks = 3;
      run.training.micro_batches = 2;
      SetStrategy(strategy, &run.policy);
      run.policy.offload = offload;
      run.policy.units.persistence_threshold = 100;
      ExpectEveryByteListed(run, unscoped);
      MemorySink sink;
      const Running running(run, &sink);
      const CpuWork& work = CpuWorkOf(*running.ranks, 0);
      EXPECT_EQ(work.allocated_bytes(), CpuWorkInside::Ledger(work).live_bytes());
      EXPECT_GT(work.allocated_bytes(), 0);
      EXPECT_EQ(CpuWorkInside::HostBytes(work),
                CpuWorkInside::Ledger(work).live_bytes(MemoryCategory::kHost));
      EXPECT_EQ(CpuWorkInside::Ledger(work).live_bytes(MemoryCategory::kOptimizer), 0);
    }
  }
}

TEST(AllocatorTest, AgreesWithTheLedgerWhereRanksShareLayers) {
  const int64_t unscoped = UnscopedTensorBytes();
  for (const plan::DType dtype : {plan::DType::kFp32, plan::DType::kBf16}) {
    for (const char* strategy : {"tensor", "full", "pipeline"}) {
      TestRun run;
      run.model = {.layers = 2, .dim = 24, .heads = 2, .seq = 18, .dtype = dtype};
      run.training.num_ranks = 4;
      run.training.micro_batches = 2;
      run.tensor = 2;
      SetStrategy(strategy, &run.policy);
      if (run.policy.strategy->name == "pipeline") run.stages = 2;
      if (run.policy.strategy->name == "tensor") run.training.num_ranks = 2;
      for (const bool has_parts : {false, true}) {
        for (const bool is_async : {false, true}) {
          run.policy.units.sequence_parallel = has_parts;
          run.policy.tensor_async = is_async;
          for (const plan::Checkpointing mode : kCheckpointings) {
            run.policy.checkpointing.mode = mode;
            ExpectEveryByteListed(run, unscoped);
            ExpectEveryByteListed(AsLlama(run), unscoped);
          }
        }
      }
    }
  }
}

// What a transport needs during a call is the rank's memory, and counted as the op's temporary.
TEST(AllocatorTest, CountsWhatGlooNeedsDuringACall) {
  TestRun run;
  run.training.num_ranks = 3;
  MemorySink sink;
  Running running(run, &sink, transport::MakeGlooTransport(3, kTimeoutNs));
  int64_t of_reductions = 0;
  for (const plan::Op& op : running.schedule.ProgramOf(0).ops) {
    of_reductions += op.kind == plan::OpKind::kReduceScatter ? 1 : 0;
  }
  ASSERT_GT(of_reductions, 0);
  int64_t with_temporary = 0;
  const Status status = running.ranks->OnAll([&](int rank) {
    MemorySink of_others;
    OneByOne one(&running, rank, rank == 0 ? &sink : &of_others);
    one.Step();
    if (rank == 0) with_temporary = one.num_with_temporary(plan::OpKind::kReduceScatter);
    return Status::Ok();
  });
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(with_temporary, of_reductions);
}

// What resharding frees is not only counted: the process gets smaller.
TEST(ResidentMemoryTest, FollowsWhatTheScheduleFrees) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP()
      << "the address sanitizer keeps what is freed in quarantine: resident memory says nothing";
#endif
  TestRun run;
  run.model = {.layers = 8, .dim = 256, .heads = 4, .seq = 16};
  run.poison = false;  // keeps no freed pages at all
  NullSink sink;
  Running running(run, &sink);
  run.policy.reshard_after_forward = false;
  const Result<plan::Schedule> keeping = plan::BuildSchedule(DescriptionOf(run), PolicyOf(run));
  ASSERT_TRUE(keeping.ok());
  std::array<int64_t, 3> resident{};
  for (size_t phase = 0; phase < resident.size(); ++phase) {
    const plan::Schedule& schedule = phase == 1 ? *keeping : running.schedule;
    for (int64_t step = 0; step < 2; ++step) {
      ASSERT_TRUE(running.Step(schedule, 2 * static_cast<int64_t>(phase) + step).ok());
    }
    resident[phase] = ResidentBytes();
  }
  const int64_t saved =
      plan::PredictPeak(*keeping, 0).transient - plan::PredictPeak(running.schedule, 0).transient;
  const int64_t of_both_ranks = 2 * saved;
  EXPECT_GT(saved, 10'000'000);
  EXPECT_GT(resident[1] - resident[0], of_both_ranks / 2);
  EXPECT_GT(resident[1] - resident[2], of_both_ranks / 2);
}

// The address of a unit that the first reshard frees, after that op has run.
const std::byte* AddressOfAFreedUnit(Running* running) {
  CpuWork& bodies = CpuWorkOf(*running->ranks, 0);
  OpContext context;
  context.schedule = &running->schedule;
  context.program = &running->schedule.ProgramOf(0);
  bodies.SetSchedule(running->schedule);
  bodies.BeginStep(context.step, 1e-3);
  for (;; ++context.index) {
    const plan::Op& op = context.op();
    const bool frees = op.kind == plan::OpKind::kReshard;
    const std::byte* memory = frees ? CpuWorkInside::Block(bodies, op.frees.front()) : nullptr;
    for (const plan::BufferId id : op.allocates) bodies.Allocate(context, id);
    bodies.Run(context);
    for (const plan::BufferId id : op.frees) bodies.Free(context, id);
    if (frees) return memory;
  }
}

TEST(FreedUnitDeathTest, FaultsWhenItIsRead) {
  TestRun run;
  run.training.num_ranks = 1;
  NullSink sink;
  Running running(run, &sink);
  const std::byte* memory = AddressOfAFreedUnit(&running);
  ASSERT_NE(memory, nullptr);
  const volatile std::byte* freed = memory;
  EXPECT_EXIT(
      {
        std::signal(SIGSEGV, SIG_DFL);  // a sanitizer would report it
        static_cast<void>(*freed);
        _exit(0);
      },
      testing::KilledBySignal(SIGSEGV), "");
}

TEST(MemoryLimitTest, FailsTheStepWithRankAndOp) {
  TestRun run;
  NullSink sink;
  const Running free(run, &sink);
  Job job = JobOf(run);
  // What ranks keep between steps fits, whatever a step adds does not.
  for (int rank = 0; rank < 2; ++rank) {
    job.memory_limit = std::max(job.memory_limit, free.ranks->work(rank).allocated_bytes() + 1);
  }
  job.explain_out_of_memory = [limit = job.memory_limit](int64_t wanted_bytes) {
    return wanted_bytes > limit ? "What fits: nothing" : "it did fit";
  };
  CpuDevice device{CpuOptions()};
  auto ranks =
      Ranks::Make(job, transport::MakeSharedMemoryTransport(2, kTimeoutNs), &sink, &device);
  ASSERT_TRUE(ranks.ok());
  const Status status = (*ranks)->OnAll([&](int rank) {
    EXPECT_TRUE((*ranks)->SetSchedule(rank, free.schedule).ok());
    (*ranks)->work(rank).BeginStep(0, 1e-3);
    return (*ranks)->runner(rank).RunStep(0);
  });
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("out of memory: rank"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("step 0, op '"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("What fits: nothing"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace shardscope::runtime
