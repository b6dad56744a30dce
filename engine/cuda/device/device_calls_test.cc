// What CudaRunner asks of the CUDA runtime for one small Schedule, call by call: their order,
// what its log learns, where times come from, what its errors say.
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "engine/cuda/device/cuda_runner.h"
#include "engine/cuda/device/device_toys_test_util.h"

namespace shardscope::cuda {
namespace {

using plan::OpIndex;
using plan::Schedule;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

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
  void OnIssued(const cupti::HostOp& op) override { issued.push_back(op); }
  std::vector<DeviceInterval> TakeStep(int /*rank*/, int64_t /*step*/, size_t num_ops) override {
    intervals.resize(num_ops);
    return intervals;
  }
  std::vector<std::pair<int, Stream>> streams;
  std::vector<OpIndex> begun;
  std::vector<cupti::HostOp> issued;
  std::vector<DeviceInterval> intervals;
};

class OneRank : public testing::Test {
 protected:
  // One step of SmallSchedule.
  Status RunSmall(FakeOptions fake = {.log_calls = true}) {
    TheFake().control->reset(&fake);
    TheFake().control->name_thread(0);
    CudaRunner executor(
        {.rank = 0, .api = TheFake().api, .bodies = &bodies_, .sink = &sink_, .log = log_});
    executor.set_on_failure([this](executor::Culprit culprit) { culprits_.push_back(culprit); });
    bodies_.Prepare(schedule_, schedule_.programs[0]);
    EXPECT_TRUE(executor.SetSchedule(schedule_).ok());
    const Status status = executor.RunStep(7);
    last_end_ns_ = executor.last_end_ns();
    return status;
  }

  Schedule schedule_ = SmallSchedule();
  DeviceExchange exchange_;
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
      "record e0 on 0.0\n"                   //   whose copies nothing may outrun
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
      // The end of the step: all events were reached.
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

// Of which no log of the device knows anything.
TEST_F(OneRank, WorkOfTheHostHasItsOwnTimes) {
  constexpr int64_t kWorkNs = 2 * kNsPerMs;
  schedule_.streams.push_back({"host_optimizer", plan::StreamRole::kHostOptimizer});
  plan::Op update;
  update.kind = plan::OpKind::kOptimizer;
  update.stream = 3;
  update.dependencies = {{plan::DependencyKind::kEvent, 2}};
  schedule_.programs[0].ops.push_back(update);
  bodies_.on_run = [](const executor::OpContext& context) {
    if (context.index == 6) SleepUntilNs(MonotonicNs() + kWorkNs);
  };
  ASSERT_TRUE(RunSmall().ok());
  const executor::OpTimes& times = sink_.times().at(6);
  EXPECT_GE(times.ended_ns - times.started_ns, kWorkNs / 2);
  const executor::OpTimes& copy = sink_.times().at(3);  // of the GPU
  EXPECT_EQ(copy.ended_ns, copy.started_ns);
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

// The first op for whose end nothing can wait any more.
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

}  // namespace
}  // namespace shardscope::cuda
