// DeviceExecutor against the fake CUDA runtime: for schedules of all kinds it gives the numbers of
// the CPU's executor, whatever the streams' speeds; without one of its waits it does not.
#include "engine/cuda/device/device_executor.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>

#include "engine/cuda/device/device_toys_test_util.h"
#include "engine/plan/policy.h"
#include "engine/plan/toy_model.h"
#include "engine/plan/validate.h"

namespace shardscope::cuda {
namespace {

using plan::OpIndex;
using plan::Policy;
using plan::Schedule;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr uint64_t kLazy = 0;
constexpr uint64_t kEager = 1;

Schedule Build(const Policy& policy, int blocks = 3, bool root = true) {
  Result<Schedule> schedule = plan::BuildSchedule(plan::ToyModel(blocks, root), policy);
  EXPECT_TRUE(schedule.ok()) << schedule.message();
  return schedule.ok() ? *schedule : Schedule{};
}

Policy RandomPolicy(std::mt19937* random) {
  const auto below = [random](unsigned limit) { return static_cast<int>((*random)() % limit); };
  Policy policy;
  policy.preset = below(2) == 0 ? plan::Preset::kFsdp1 : plan::Preset::kFsdp2;
  policy.strategy = static_cast<plan::Strategy>(below(3));
  policy.reshard_after_forward = policy.strategy == plan::Strategy::kFull;
  policy.backward_prefetch = static_cast<plan::BackwardPrefetch>(below(3));
  policy.backward_depth = 1 + below(3);
  policy.forward_prefetch = below(4);
  policy.prefetch_limit = below(3);
  policy.run_ahead = below(3) - 1;
  policy.num_ranks = 1 + below(3);
  policy.num_communicators = 1 + below(2);
  policy.micro_batches = 1 + below(2);
  if (below(3) == 0) policy.param_dtype = plan::DType::kBf16;
  return policy;
}

std::vector<DeviceToyBodies::Persistent> OnCpu(const Schedule& schedule, int steps) {
  const executor::ToyRun run = executor::RunToy(schedule, {.steps = steps});
  std::vector<DeviceToyBodies::Persistent> persistent;
  for (size_t rank = 0; rank < run.statuses.size(); ++rank) {
    EXPECT_TRUE(run.statuses[rank].ok()) << run.statuses[rank].message();
    persistent.push_back(run.persistent[rank]);
  }
  return persistent;
}

// Nothing was broken, and nothing is left behind.
void ExpectClean(const DeviceToyRun& run) {
  for (const Status& status : run.statuses) EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(run.violations, "");
  EXPECT_EQ(run.left.streams, 0);
  EXPECT_EQ(run.left.events, 0);
  EXPECT_EQ(run.left.allocations, 0);
}

// The promised order of an op's times, and of ops that wait for each other.
void ExpectOrders(const plan::Program& program, const executor::KeepingSink& sink) {
  ASSERT_EQ(sink.times().size(), program.ops.size());
  const auto predecessors = plan::AllPredecessors(program);
  for (const auto& [index, time] : sink.times()) {
    EXPECT_LE(time.issued_ns, time.ready_ns) << index;
    EXPECT_LE(time.ready_ns, time.started_ns) << index;
    EXPECT_LE(time.started_ns, time.ended_ns) << index;
    for (const OpIndex before : predecessors[static_cast<size_t>(index)]) {
      EXPECT_LE(sink.times().at(before).ended_ns, time.ready_ns) << before << " " << index;
    }
  }
}

// Every allocation is given back within the step.
void ExpectBalanced(const executor::KeepingSink& sink) {
  std::map<plan::BufferId, int64_t> live;
  for (const executor::KeepingSink::MemoryEvent& event : sink.memory()) {
    EXPECT_LE(event.issued_ns, event.executed_ns);
    live[event.buffer] += event.bytes;
  }
  for (const auto& [buffer, bytes] : live) EXPECT_EQ(bytes, 0) << buffer;
}

TEST(DeviceExecutor, GivesTheNumbersOfTheCpuForEverySchedule) {
  std::mt19937 random(5);
  for (int round = 0; round < 250; ++round) {
    const Policy policy = RandomPolicy(&random);
    const Schedule schedule = Build(policy, 1 + static_cast<int>(random() % 4), random() % 2 == 0);
    DeviceToyOptions options;
    options.memory = random() % 2 == 0 ? ToyMemory::kPool : ToyMemory::kCaching;
    options.fake.seed = random() % 6;
    SCOPED_TRACE(schedule.name + ", round " + std::to_string(round));
    const DeviceToyRun run = RunOnDevice(schedule, options);
    ExpectClean(run);
    EXPECT_EQ(run.persistent, OnCpu(schedule, options.steps));
    for (int rank = 0; rank < schedule.num_ranks; ++rank) {
      ExpectOrders(schedule.ProgramOf(rank), *run.sinks[static_cast<size_t>(rank)]);
      ExpectBalanced(*run.sinks[static_cast<size_t>(rank)]);
    }
    if (testing::Test::HasFailure()) return;
  }
}

// Whether some choice of slow and fast streams shows that `schedule` is not `truth`.
bool IsSeenWrong(const Schedule& schedule, const std::vector<DeviceToyBodies::Persistent>& truth,
                 const DeviceToyOptions& base) {
  for (uint64_t seed = 0; seed < 24; ++seed) {
    DeviceToyOptions options = base;
    options.steps = 1;
    options.fake.seed = seed;
    const DeviceToyRun run = RunOnDevice(schedule, options);
    if (run.persistent != truth || !run.violations.empty()) return true;
  }
  return false;
}

// The tests above can fail: what the validator refuses, the device shows.
TEST(DeviceExecutorMutation, AScheduleWithoutANeededDependencyGivesOtherNumbers) {
  std::map<plan::DependencyKind, int> seen;
  std::map<plan::DependencyKind, int> refused;
  for (const plan::Preset preset : {plan::Preset::kFsdp1, plan::Preset::kFsdp2}) {
    Policy policy;
    policy.preset = preset;
    policy.num_ranks = 2;
    policy.prefetch_limit = preset == plan::Preset::kFsdp1 ? 2 : 0;
    const Schedule schedule = Build(policy, 2);
    const auto truth = OnCpu(schedule, 1);
    for (size_t op = 0; op < schedule.programs[0].ops.size(); ++op) {
      const auto& dependencies = schedule.programs[0].ops[op].dependencies;
      for (size_t i = 0; i < dependencies.size(); ++i) {
        Schedule mutated = schedule;
        auto& less = mutated.programs[0].ops[op].dependencies;
        less.erase(less.begin() + static_cast<std::ptrdiff_t>(i));
        if (!plan::FindRefusal(mutated)) continue;
        ++refused[dependencies[i].kind];
        const bool is_seen = IsSeenWrong(mutated, truth, {.memory = ToyMemory::kPool});
        seen[dependencies[i].kind] += is_seen ? 1 : 0;
      }
    }
  }
  for (const auto& [kind, count] : refused) {
    EXPECT_GT(count, 0);
    EXPECT_EQ(seen[kind], count) << plan::Name(kind);
  }
  EXPECT_GT(refused[plan::DependencyKind::kEvent], 5);
  EXPECT_GT(refused[plan::DependencyKind::kStream], 0);
}

// Every wait that the executor makes by itself, host ops and communicators among them: without one,
// either others imply it, or the numbers change.
TEST(DeviceExecutorMutation, MostWaitsAreNeeded) {
  Policy policy;
  policy.num_ranks = 2;
  policy.micro_batches = 2;
  const Schedule schedule = Build(policy, 1);
  const auto truth = OnCpu(schedule, 1);
  DeviceToyOptions options{.steps = 1, .memory = ToyMemory::kPool};
  const int64_t num_waits = RunOnDevice(schedule, options).left.waits;
  int64_t num_seen = 0;
  for (int64_t wait = 0; wait < num_waits; ++wait) {
    options.fake.drop_wait = wait;
    num_seen += IsSeenWrong(schedule, truth, options) ? 1 : 0;
  }
  EXPECT_GT(num_waits, 40);
  EXPECT_GT(num_seen, num_waits / 2);
}

// The order of calls, by hand: load, gather and compute on three streams.
//   op 0 control, op 1 load_batch (host); op 2 on "compute"; op 3 on "all_gather" after op 2 by an
//   event; op 4 on "compute" after all of "all_gather"; op 5 on "compute", for which the host waits
//   for op 4.
Schedule SmallSchedule() {
  Schedule schedule;
  schedule.name = "small";
  schedule.streams = {{"host", plan::StreamRole::kHost},
                      {"compute", plan::StreamRole::kCompute},
                      {"all_gather", plan::StreamRole::kAllGather}};
  schedule.program_of_rank = {0};
  schedule.programs.resize(1);
  const auto add = [&](plan::OpKind kind, plan::StreamIndex stream,
                       std::vector<plan::Dependency> dependencies) {
    plan::Op op;
    op.kind = kind;
    op.stream = stream;
    op.dependencies = std::move(dependencies);
    schedule.programs[0].ops.push_back(op);
  };
  add(plan::OpKind::kControl, 0, {});
  add(plan::OpKind::kLoadBatch, 0, {});
  add(plan::OpKind::kForward, 1, {});
  add(plan::OpKind::kCopyIn, 2, {{plan::DependencyKind::kEvent, 2}});
  add(plan::OpKind::kCopyOut, 1, {{plan::DependencyKind::kStream, 2}});
  add(plan::OpKind::kForward, 1, {{plan::DependencyKind::kHost, 4}});
  return schedule;
}

// Says what the streams did; all else is left out.
class ListLog : public DeviceLog {
 public:
  void OnStream(int rank, Stream stream) override { streams.emplace_back(rank, stream); }
  void OnBegin(const executor::OpContext& context) override { begun.push_back(context.index); }
  void OnIssued(const IssuedOp& op) override { issued.push_back(op); }
  std::vector<DeviceInterval> TakeStep(int /*rank*/, int64_t /*step*/, size_t num_ops) override {
    intervals.resize(num_ops);
    return intervals;
  }
  std::vector<std::pair<int, Stream>> streams;
  std::vector<OpIndex> begun;
  std::vector<IssuedOp> issued;
  std::vector<DeviceInterval> intervals;
};

class OneRank : public testing::Test {
 protected:
  // One step of SmallSchedule.
  Status RunSmall(FakeOptions fake = {.log_calls = true}) {
    TheFake().control->reset(&fake);
    TheFake().control->name_thread(0);
    DeviceExecutor executor(
        {.rank = 0, .api = TheFake().api, .bodies = &bodies_, .sink = &sink_, .log = log_});
    executor.set_on_failure([this](executor::Culprit culprit) { culprits_.push_back(culprit); });
    bodies_.Prepare(schedule_, schedule_.programs[0]);
    const Status status = executor.RunStep(schedule_, 7);
    last_end_ns_ = executor.last_end_ns();
    return status;
  }

  const Schedule schedule_ = SmallSchedule();
  DeviceExchange exchange_{1};
  DeviceToyBodies bodies_{&exchange_, ToyMemory::kCaching};
  executor::KeepingSink sink_;
  ListLog list_;
  DeviceLog* log_ = &list_;
  std::vector<executor::Culprit> culprits_;
  int64_t last_end_ns_ = 0;
};

TEST_F(OneRank, MakesTheseCallsInThisOrder) {
  ASSERT_TRUE(RunSmall().ok());
  // The toy bodies put two pieces of work on the stream for every op. Streams: 0.0 host, 0.1
  // compute, 0.2 all_gather, whose priority is the highest.
  const std::string expected =
      "stream 0.0 priority 0\n"
      "stream 0.1 priority 0\n"
      "stream 0.2 priority -5\n"
      "work 0.0\nwork 0.0\n"                 // control
      "work 0.0\nwork 0.0\n"                 // load_batch
      "record e0 on 0.0\n"                   //   whose copies nobody may outrun
      "wait 0.1 for e0\n"                    // forward
      "work 0.1\nwork 0.1\n"                 //
      "record e1 on 0.1\n"                   //
      "wait 0.2 for e0\nwait 0.2 for e1\n"   // copy_in
      "work 0.2\nwork 0.2\n"                 //
      "record e2 on 0.2\nwait 0.1 for e2\n"  // copy_out: all of 0.2 so far
      "work 0.1\nwork 0.1\n"                 //
      "record e3 on 0.1\n"                   //
      "host waits for e3\n"                  // forward
      "work 0.1\nwork 0.1\n"                 //
      "host waits for e0\nhost waits for e1\nhost waits for e3\n"  // the end of the step
      "host waits for 0.0\nhost waits for 0.1\nhost waits for 0.2\n";
  EXPECT_EQ(TheFake().control->calls(), expected);
  EXPECT_STREQ(TheFake().control->violations(), "");
}

TEST_F(OneRank, TheLogLearnsOfEveryOpAndStream) {
  ASSERT_TRUE(RunSmall().ok());
  EXPECT_EQ(list_.streams.size(), 3U);
  EXPECT_EQ(list_.begun, (std::vector<OpIndex>{0, 1, 2, 3, 4, 5}));
  ASSERT_EQ(list_.issued.size(), 6U);
  for (size_t op = 0; op < 6; ++op) {
    EXPECT_EQ(list_.issued[op].key, OpRunKey(0, 7, static_cast<OpIndex>(op)));
    EXPECT_EQ(list_.issued[op].thread, static_cast<uint32_t>(gettid()));
    EXPECT_LE(list_.issued[op].start_ns, list_.issued[op].end_ns);
    if (op == 0) continue;
    EXPECT_LE(list_.issued[op - 1].end_ns, list_.issued[op].start_ns);
  }
}

TEST_F(OneRank, TimesAreThoseOfTheLog) {
  ASSERT_TRUE(RunSmall().ok());
  const int64_t base_ns = sink_.times().at(5).issued_ns;  // later than all others
  SleepUntilNs(MonotonicNs() + kNsPerMs);
  list_.intervals.assign(6, {});
  sink_.Clear();
  bodies_.Prepare(schedule_, schedule_.programs[0]);
  ASSERT_TRUE(RunSmall().ok());
  // Nothing is known of the copy: it ended when it was ready.
  const executor::OpTimes& unknown = sink_.times().at(3);
  EXPECT_EQ(unknown.ready_ns, unknown.started_ns);
  EXPECT_EQ(unknown.ended_ns, unknown.started_ns);
  EXPECT_GT(unknown.issued_ns, base_ns);
}

// Given intervals that lie in the step.
TEST_F(OneRank, AnOpEndsWhenTheLogSaysSo) {
  class Ending : public ListLog {
   public:
    std::vector<DeviceInterval> TakeStep(int rank, int64_t step, size_t num_ops) override {
      std::vector<DeviceInterval> result = ListLog::TakeStep(rank, step, num_ops);
      result[2] = {issued[2].start_ns + 1, issued[2].start_ns + 2};
      return result;
    }
  };
  Ending ending;
  log_ = &ending;
  ASSERT_TRUE(RunSmall().ok());
  const executor::OpTimes& times = sink_.times().at(2);
  EXPECT_LE(times.started_ns, times.ended_ns);
  EXPECT_GE(times.ended_ns, ending.issued[2].start_ns + 1);
  EXPECT_LE(times.ended_ns, std::max(times.ready_ns, ending.issued[2].start_ns + 2));
}

TEST_F(OneRank, WithoutALogTimesComeFromEvents) {
  log_ = nullptr;
  ASSERT_TRUE(RunSmall().ok());
  ASSERT_EQ(sink_.times().size(), 6U);
  const auto& times = sink_.times();
  EXPECT_LE(times.at(2).ended_ns, times.at(3).started_ns);
  EXPECT_LE(times.at(3).ended_ns, times.at(4).started_ns);
  EXPECT_LE(times.at(4).ended_ns, times.at(5).issued_ns + 2 * kNsPerMs);
  EXPECT_EQ(last_end_ns_, times.at(5).ended_ns);
}

TEST_F(OneRank, ACallThatFailsNamesRankStepAndOp) {
  FakeOptions fake;
  fake.fail_call = "cudaStreamWaitEvent";
  fake.fail_at = 1;
  fake.fail_code = 2;
  const Status status = RunSmall(fake);
  EXPECT_THAT(status.message(),
              AllOf(StartsWith("rank 0, step 7, op 'F copy_in' (op 3): cudaStreamWaitEvent: "),
                    HasSubstr("out of memory (CUDA error 2)"), HasSubstr("CUDA_LAUNCH_BLOCKING")));
  EXPECT_EQ(culprits_, std::vector{executor::Culprit::kThisRank});
}

// The first op for whose end nobody can wait any more.
TEST_F(OneRank, AFaultOfTheDeviceIsOneMessageWithAnOp) {
  FakeOptions fake;
  fake.fault_at = 5;  // in op 2, found when the host waits
  const Status status = RunSmall(fake);
  EXPECT_THAT(status.message(), AllOf(StartsWith("rank 0, step 7, op "),
                                      HasSubstr("illegal memory access was encountered"),
                                      HasSubstr("issued before it")));
  EXPECT_EQ(status.message().find('\n'), std::string::npos);
  EXPECT_EQ(culprits_.size(), 1U);
}

TEST_F(OneRank, NoStreamCanBeMade) {
  FakeOptions fake;
  fake.fail_call = "cudaStreamCreateWithPriority";
  fake.fail_code = 2;
  EXPECT_THAT(RunSmall(fake).message(), StartsWith("rank 0, step 7: cudaStreamCreateWithPriority"));
}

TEST(DeviceExecutor, ARankThatThrowsEndsTheOthers) {
  Policy policy;
  policy.num_ranks = 3;
  const Schedule schedule = Build(policy);
  DeviceToyOptions options;
  options.on_run = [](const executor::OpContext& context) {
    if (context.rank == 1 && context.index == 9) throw std::runtime_error("on purpose");
  };
  const DeviceToyRun run = RunOnDevice(schedule, options);
  EXPECT_THAT(run.statuses[1].message(),
              AllOf(StartsWith("rank 1, step 0, op "), HasSubstr("(op 9): on purpose")));
  for (const size_t other : {0U, 2U}) EXPECT_EQ(run.statuses[other].message(), "aborted");
  EXPECT_EQ(run.violations, "");
  EXPECT_EQ(run.left.streams, 0);
  EXPECT_EQ(run.left.events, 0);
}

// Steps of several Schedules on one executor: the streams of the first serve the others.
TEST(DeviceExecutor, StreamsOutliveSchedules) {
  const FakeOptions fake;
  TheFake().control->reset(&fake);
  Policy policy;
  const Schedule fsdp2 = Build(policy);
  policy.preset = plan::Preset::kFsdp1;
  const Schedule fsdp1 = Build(policy);
  DeviceExchange exchange(1);
  DeviceToyBodies bodies(&exchange, ToyMemory::kCaching);
  executor::KeepingSink sink;
  DeviceExecutor executor({.api = TheFake().api, .bodies = &bodies, .sink = &sink});
  std::vector<int64_t> streams;
  int64_t step = 0;
  for (const Schedule* schedule : {&fsdp2, &fsdp1, &fsdp2, &fsdp1}) {
    bodies.Prepare(*schedule, schedule->programs[0]);
    ASSERT_TRUE(executor.RunStep(*schedule, step++).ok());
    streams.push_back(TheFake().control->counts().streams);
  }
  EXPECT_LT(streams[0], streams[1]);  // other names
  EXPECT_EQ(streams[1], streams[2]);
  EXPECT_EQ(streams[1], streams[3]);
}

}  // namespace
}  // namespace shardscope::cuda
