// A rank that throws, is late or hangs: all others end, and the error says who, where, and who
// waited for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/executor/latch_test_util.h"
#include "engine/plan/schedule_test_util.h"
#include "engine/runtime/cpu_device.h"
#include "engine/runtime/ranks/faulty_bodies.h"
#include "engine/runtime/ranks/job_test_util.h"
#include "trace/base/time.h"

namespace shardscope::runtime {
namespace {

using executor::Latch;
using executor::OpContext;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::StartsWith;

class Faults : public testing::Test {
 protected:
  // Two steps of three ranks.
  Status Run(int slots = 3) {
    run_.training.num_ranks = 3;
    Job job = JobOf(run_);
    job.timeout_ns = timeout_ns_;
    job.fault = fault_;
    const Result<plan::Schedule> schedule =
        plan::BuildSchedule(DescriptionOf(run_), PolicyOf(run_));
    EXPECT_TRUE(schedule.ok()) << schedule.message();
    CpuDevice device({.compute_slots = slots, .timeout_ns = timeout_ns_});
    auto ranks = Ranks::Make(std::move(job), transport::MakeSharedMemoryTransport(3, timeout_ns_),
                             &sink_, &device);
    EXPECT_TRUE(ranks.ok()) << ranks.message();
    ranks_ = ranks->get();
    for (int rank = 0; rank < 3; ++rank) (*ranks)->runner(rank).set_delay_hook(hook_);
    Status status =
        (*ranks)->OnAll([&](int rank) { return (*ranks)->SetSchedule(rank, *schedule); });
    for (int64_t step = 0; step < 2 && status.ok(); ++step) {
      status = (*ranks)->OnAll([&](int rank) {
        (*ranks)->work(rank).BeginStep(0.001);
        return (*ranks)->runner(rank).RunStep(step);
      });
    }
    EXPECT_FALSE((*ranks)->is_stuck());
    return status;
  }

  TestRun run_;
  Ranks* ranks_ = nullptr;  // while Run() runs
  int64_t timeout_ns_ = 60 * kNsPerSecond;
  std::optional<config::Fault> fault_;
  executor::DelayHook hook_;
  NullSink sink_;
};

TEST_F(Faults, ARankThatThrowsIsNamedWithItsOp) {
  fault_ = config::Fault{config::FaultKind::kThrow, 1, 1, "F m0 block1.mlp forward"};
  EXPECT_THAT(Run().message(),
              AllOf(StartsWith("rank 1, step 1, op 'F m0 block1.mlp forward' (op "),
                    HasSubstr("debug.fault threw")));
}

TEST_F(Faults, WhoWaitsForTheRankThatThrowsIsNamed) {
  // The others go on to the collective that rank 1 does not reach, and are there when it throws:
  // what a rank is at is noted before its hook is called.
  Latch all_wait;
  std::atomic<int> arrived = 0;
  hook_ = [&](const OpContext& context) {
    if (context.op().kind != plan::OpKind::kAllReduce) return;
    if (context.rank != 1) {
      if (++arrived == 2) all_wait.Open();
      return;
    }
    ASSERT_TRUE(all_wait.WaitFor(executor::kMustHappenMs));
    throw std::runtime_error("thrown late");
  };
  EXPECT_THAT(Run().message(),
              AllOf(StartsWith("rank 1, step 0"), HasSubstr("thrown late; ranks 0, 2 wait in '")));
}

TEST_F(Faults, ARankThatIsTooLateIsNamedByTheOthersAndStillEnds) {
  timeout_ns_ = 400 * kNsPerMs;
  // Rank 2 goes on once rank 0 has given up and ended its step.
  Latch begun;
  hook_ = [&](const OpContext& context) {
    if (context.rank == 0) begun.Open();
    if (context.rank != 2 || context.op().kind != plan::OpKind::kLoadBatch) return;
    ASSERT_TRUE(begun.WaitFor(executor::kMustHappenMs));
    while (ranks_->runner(0).activity().step >= 0) SleepUntilNs(MonotonicNs() + kNsPerMs);
  };
  EXPECT_THAT(Run().message(),
              AllOf(AnyOf(StartsWith("rank 2 hangs in 'F m0 load_batch' (op 1, step 0) for "),
                          // It began after the others had come to their collective.
                          StartsWith("rank 2 is still in 'F m0 load_batch' (op 1, step 0) for ")),
                    HasSubstr("ranks 0, 1 wait for it in all_gather 'F m0 "),
                    HasSubstr("comm.timeout=400")));
}

TEST_F(Faults, OpsAreCheckedAgainstTheSchedule) {
  const auto schedule = plan::BuildSchedule(DescriptionOf(run_), PolicyOf(run_));
  const auto check = [&](const std::string& op) {
    return CheckFault({config::FaultKind::kHang, 0, 0, op}, *schedule);
  };
  EXPECT_TRUE(check("0").ok());
  EXPECT_TRUE(check("F m0 block1.mlp forward").ok());
  EXPECT_THAT(check("F m0 block1.mpl forward").message(),
              HasSubstr("did you mean 'F m0 block1.mlp forward'?"));
  EXPECT_THAT(check("100000").message(), HasSubstr("no op '100000'"));
}

}  // namespace
}  // namespace shardscope::runtime
