// Steps that are not recorded, between others that are: the same numbers, no timing of the device,
// nothing for the log.
#include <gmock/gmock.h>

#include <atomic>
#include <map>
#include <set>
#include <sstream>

#include "engine/cuda/device/cuda_runner.h"
#include "engine/cuda/device/device_toys_test_util.h"
#include "engine/plan/policy.h"
#include "engine/plan/uniform_model.h"
#include "trace/base/time.h"

namespace shardscope::cuda {
namespace {

constexpr int64_t kUnrecorded = 1;  // of three steps

// Remembers of which steps it heard.
class StepLog : public DeviceLog {
 public:
  void OnStream(int /*rank*/, Stream /*stream*/) override {}
  void OnBegin(const executor::OpContext& context) override {
    begun[context.step].insert(context.index);
  }
  void OnIssued(const cupti::HostOp& op) override {
    issued[op.key >> 32].insert(static_cast<plan::OpIndex>(op.key & 0xFF'FFFF));
  }
  std::vector<DeviceInterval> TakeStep(int /*rank*/, int64_t step, size_t num_ops) override {
    taken.push_back(step);
    return std::vector<DeviceInterval>(num_ops);
  }
  std::map<int64_t, std::set<plan::OpIndex>> begun, issued;  // by step
  std::vector<int64_t> taken;
};

struct Ran {
  std::vector<int64_t> num_records;  // events recorded, by step
  std::vector<int64_t> end_ns;       // what the executor says, by step
  std::vector<int64_t> done_ns;      // when RunStep() returned
  std::vector<int64_t> clocks;       // steps of which on_clock told
  DeviceToyBodies::Persistent persistent;
  std::string violations;
};

// Three steps of one rank; the op that starts a step decides whether it is recorded.
Ran RunThree(const plan::Schedule& schedule, DeviceLog* log, bool skips_one) {
  const FakeOptions fake{.log_calls = true};
  TheFake().control->reset(&fake);
  TheFake().control->name_thread(0);
  DeviceExchange exchange;
  DeviceToyBodies bodies(&exchange, ToyMemory::kCaching);
  std::atomic<bool> is_recording = true;
  bodies.on_run = [&](const executor::OpContext& context) {
    if (context.index == 0) is_recording = !skips_one || context.step != kUnrecorded;
  };
  executor::KeepingSink sink;
  Ran ran;
  {
    CudaRunner executor({.api = TheFake().api,
                         .bodies = &bodies,
                         .sink = &sink,
                         .log = log,
                         .is_recording = &is_recording,
                         .on_clock = [&](int64_t time_ns, int64_t uncertainty_ns) {
                           EXPECT_GT(time_ns, 0);
                           EXPECT_GT(uncertainty_ns, 0);
                           ran.clocks.push_back(static_cast<int64_t>(ran.end_ns.size()));
                         }});
    int64_t before = 0;
    for (int64_t step = 0; step < 3; ++step) {
      bodies.Prepare(schedule, schedule.programs[0]);
      EXPECT_TRUE(executor.SetSchedule(schedule).ok());
      const Status status = executor.RunStep(step);
      EXPECT_TRUE(status.ok()) << status.message();
      ran.done_ns.push_back(MonotonicNs());
      ran.end_ns.push_back(executor.last_end_ns());
      std::istringstream calls(TheFake().control->calls());
      int64_t num_records = 0;
      for (std::string line; std::getline(calls, line);) num_records += line.starts_with("record");
      ran.num_records.push_back(num_records - before);
      before = num_records;
    }
  }
  ran.persistent = bodies.TakePersistent();
  ran.violations = TheFake().control->violations();
  return ran;
}

plan::Schedule ToySchedule() {
  Result<plan::Schedule> schedule =
      plan::BuildSchedule(plan::UniformModel(2, true), plan::Policy{});
  EXPECT_TRUE(schedule.ok()) << schedule.message();
  return *std::move(schedule);
}

TEST(UnrecordedStep, HasNoTimedEventAndTheSameNumbers) {
  const plan::Schedule schedule = ToySchedule();
  const auto num_ops = static_cast<int64_t>(schedule.programs[0].ops.size());
  StepLog log;
  const Ran logged = RunThree(schedule, &log, false);  // only events that are waited for
  const Ran all = RunThree(schedule, nullptr, false);
  const Ran ran = RunThree(schedule, nullptr, true);
  EXPECT_EQ(ran.violations, "");
  EXPECT_EQ(ran.persistent, all.persistent);
  EXPECT_EQ(all.clocks, (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(ran.clocks, (std::vector<int64_t>{0, 2}));
  EXPECT_TRUE(logged.clocks.empty());  // the times are not those of events
  EXPECT_EQ(ran.num_records[0], all.num_records[0]);
  // With a log only what is waited for is recorded; without one the clocks are tied, too, by
  // four events, before it is known that the step is not recorded. So is the first op begun.
  const int64_t num_needed = logged.num_records[kUnrecorded];
  EXPECT_GE(ran.num_records[kUnrecorded], num_needed + 4);
  EXPECT_LE(ran.num_records[kUnrecorded], num_needed + 4 + 2);
  EXPECT_GT(all.num_records[kUnrecorded], num_needed + num_ops);
  EXPECT_GE(ran.num_records[2], all.num_records[2] - 2);
}

TEST(UnrecordedStep, IsNotLogged) {
  const plan::Schedule schedule = ToySchedule();
  const size_t num_ops = schedule.programs[0].ops.size();
  StepLog log;
  const Ran ran = RunThree(schedule, &log, true);
  EXPECT_EQ(ran.violations, "");
  EXPECT_EQ(log.taken, (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(log.begun[0].size(), num_ops);
  EXPECT_EQ(log.begun[kUnrecorded], (std::set<plan::OpIndex>{0}));  // it was not known yet
  EXPECT_EQ(log.begun[2].size(), num_ops - 1);
  EXPECT_EQ(log.issued, log.begun);
}

// Its ops have no ends, and the next step begins at its own.
TEST(UnrecordedStep, EndsWhenTheDeviceHasDoneItsWork) {
  const plan::Schedule schedule = ToySchedule();
  for (const bool has_log : {false, true}) {
    StepLog log;
    const Ran ran = RunThree(schedule, has_log ? &log : nullptr, true);
    EXPECT_GT(ran.end_ns[kUnrecorded], ran.done_ns[0]);
    EXPECT_LE(ran.end_ns[kUnrecorded], ran.done_ns[kUnrecorded]);
    EXPECT_GE(ran.end_ns[2], ran.end_ns[kUnrecorded]);
  }
}

}  // namespace
}  // namespace shardscope::cuda
