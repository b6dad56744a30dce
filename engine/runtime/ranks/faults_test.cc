// A rank that throws, is late or hangs: all others end, and the error says who, where, and who
// waited for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

#include "engine/executor/latch_test_util.h"
#include "engine/plan/schedule_test_util.h"
#include "engine/runtime/cpu_device.h"
#include "engine/runtime/ranks/faulty_bodies.h"
#include "engine/runtime/ranks/initial_state.h"
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
    if (fault_) job.faults = {*fault_};
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
        (*ranks)->work(rank).BeginStep(step, 0.001);
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
  fault_ = config::Fault{config::FaultKind::kDie, 1, 1, "F m0 block1.mlp forward"};
  EXPECT_THAT(Run().message(),
              AllOf(StartsWith("rank 1, step 1, op 'F m0 block1.mlp forward' (op "),
                    HasSubstr("fault.die")));
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

// All ranks but the first.
class NoRoom final : public CpuDevice {
 public:
  NoRoom() : CpuDevice(CpuOptions()) {}
  std::unique_ptr<RankWork> MakeWork(int rank, const RankContext& rank_context,
                                     model::Sampler sampler) override {
    if (rank > 0) throw std::runtime_error("no room for rank " + std::to_string(rank));
    return CpuDevice::MakeWork(rank, rank_context, std::move(sampler));
  }
};

TEST(Ranks, OfThoseThatCannotBeMadeTheFirstIsNamed) {
  TestRun run;
  run.training.num_ranks = 4;
  for (int i = 0; i < 20; ++i) {  // whichever of their threads comes first
    NoRoom device;
    NullSink sink;
    std::string error;
    try {
      (void)Ranks::Make(JobOf(run), transport::MakeSharedMemoryTransport(4, kNsPerSecond), &sink,
                        &device);
    } catch (const std::runtime_error& thrown) {
      error = thrown.what();
    }
    ASSERT_EQ(error, "no room for rank 1");
  }
}

TEST(InitialStates, TheRankThatDrewOthersIsNamed) {
  using States = std::vector<InitialState>;
  const auto check = [](const States& states) { return CheckInitialStates(states).message(); };
  EXPECT_TRUE(CheckInitialStates(States{{1, 5, 0}, {1, 6, 1}, {1, 5, 0}, {1, 6, 1}}).ok());
  EXPECT_THAT(check({{1, 5, 0}, {2, 6, 1}, {1, 7, 2}}),
              StartsWith("rank 1 draws other initial parameters than ranks 0, 2: "));
  EXPECT_THAT(check({{2, 5, 0}, {1, 6, 1}, {1, 7, 2}}),
              StartsWith("rank 0 draws other initial parameters than ranks 1, 2: "));
  EXPECT_THAT(check({{1, 5, 0}, {2, 6, 1}}),
              StartsWith("rank 1 draws other initial parameters than rank 0: "));
  // The same draws, and yet not the same parameters.
  EXPECT_THAT(check({{1, 5, 0}, {1, 6, 1}, {1, 5, 0}, {1, 7, 1}, {1, 5, 0}, {1, 7, 1}}),
              StartsWith("rank 1 begins with other parameters than ranks 3, 5, "));
}

// Replicas hold the same, shards do not, and another seed is seen in either.
TEST(InitialStates, AreOfWhatRanksDrawAndHold) {
  for (const char* strategy : {"full", "ddp", "zero1", "hybrid"}) {
    SCOPED_TRACE(strategy);
    TestRun run;
    run.training.num_ranks = 4;
    run.policy.strategy = plan::FindStrategy(strategy);
    const auto states = [&](int other_seed_rank) {
      Job job = JobOf(run);
      job.other_seed_rank = other_seed_rank;
      CpuDevice device({.compute_slots = 1, .timeout_ns = kNsPerSecond});
      NullSink sink;
      auto ranks =
          Ranks::Make(std::move(job), transport::MakeSharedMemoryTransport(4, kNsPerSecond), &sink,
                      &device)
              .value();
      std::vector<InitialState> all;
      for (int rank = 0; rank < 4; ++rank) {
        all.push_back(InitialStateOf(ranks->job(), rank, &ranks->work(rank)));
      }
      return all;
    };
    const std::vector<InitialState> same = states(-1);
    EXPECT_TRUE(CheckInitialStates(same).ok());
    std::set<int32_t> shards;
    std::set<uint64_t> held;
    for (const InitialState& state : same) {
      shards.insert(state.shard);
      held.insert(state.held);
    }
    EXPECT_EQ(held.size(), shards.size());
    std::vector<InitialState> other = states(2);
    EXPECT_THAT(CheckInitialStates(other).message(), StartsWith("rank 2 draws other"));
    // What replicas hold gives it away, too.
    for (InitialState& state : other) state.drawn = 0;
    EXPECT_EQ(CheckInitialStates(other).ok(), shards.size() == 4);
  }
}

// Only time passes: a rank that is late changes no bit.
TEST(Ranks, ThatAreLateComputeTheSame) {
  TestRun run;
  run.training.num_ranks = 2;
  run.training.steps = 3;
  const TestResult expected = Train(run);
  run.lateness = {.delay = config::Delay{1, {.duration_ns = 30 * kNsPerMs}, {1, 2}},
                  .jitter = config::Slowdown{.duration_ns = kNsPerMs, .share = 0.5}};
  const int64_t start_ns = MonotonicNs();
  const TestResult delayed = Train(run);
  EXPECT_GE(MonotonicNs() - start_ns, 30 * kNsPerMs);
  EXPECT_TRUE(SameBits(delayed, expected));
}

// A schedule of three ranks, and its ops as rank, step and index say.
class Lateness : public testing::Test {
 protected:
  OpContext At(int rank, int64_t step, size_t index) const {
    return {.schedule = &schedule_,
            .program = &schedule_.ProgramOf(rank),
            .index = static_cast<plan::OpIndex>(index),
            .rank = rank,
            .step = step};
  }

  const TestRun run_{};
  const plan::Schedule schedule_ = plan::BuildSchedule(DescriptionOf(run_), PolicyOf(run_)).value();
};

TEST_F(Lateness, ADelayIsOfOneRankInItsSteps) {
  const config::Delay by_time{1, {.duration_ns = 700}, {10, 20}};
  const config::Delay by_share{1, {.share = 0.25}, {10, 20}};
  int64_t in_step = 0;
  for (size_t index = 0; index < schedule_.ProgramOf(1).ops.size(); ++index) {
    in_step += DelayNs(by_time, At(1, 10, index), 1000);
    EXPECT_EQ(DelayNs(by_share, At(1, 19, index), 1000), 250);
    for (const config::Delay& delay : {by_time, by_share}) {
      EXPECT_EQ(DelayNs(delay, At(0, 10, index), 1000), 0);
      EXPECT_EQ(DelayNs(delay, At(1, 9, index), 1000), 0);
      EXPECT_EQ(DelayNs(delay, At(1, 20, index), 1000), 0);
    }
  }
  EXPECT_EQ(in_step, 700) << "once a step";
}

TEST_F(Lateness, JitterIsUniformAndRepeatsWithItsSeed) {
  constexpr int64_t kMost = 1'000'000;
  std::set<int64_t> times;
  double sum = 0;
  for (int rank = 0; rank < 2; ++rank) {
    for (int64_t step = 0; step < 100; ++step) {
      for (size_t index = 0; index < 10; ++index) {
        const int64_t time_ns = JitterNs({.duration_ns = kMost}, 7, At(rank, step, index), 50);
        EXPECT_EQ(JitterNs({.duration_ns = kMost}, 7, At(rank, step, index), 90), time_ns);
        EXPECT_NE(JitterNs({.duration_ns = kMost}, 8, At(rank, step, index), 50), time_ns);
        EXPECT_EQ(JitterNs({.share = 0.5}, 7, At(rank, step, index), 2 * kMost), time_ns);
        EXPECT_GE(time_ns, 0);
        EXPECT_LT(time_ns, kMost);
        times.insert(time_ns);
        sum += static_cast<double>(time_ns);
      }
    }
  }
  EXPECT_GT(times.size(), 1990U) << "of 2000: every rank, step and op has its own";
  EXPECT_NEAR(sum / 2000, kMost / 2, 0.02 * kMost);  // 3 standard deviations of the mean
  EXPECT_LT(*times.begin(), kMost / 100);
  EXPECT_GT(*times.rbegin(), kMost - kMost / 100);
}

TEST_F(Faults, OpsAreCheckedAgainstTheSchedule) {
  const auto schedule = plan::BuildSchedule(DescriptionOf(run_), PolicyOf(run_));
  const auto check = [&](const std::string& op, config::FaultKind kind = config::FaultKind::kHang) {
    return CheckFault({kind, 0, 0, op}, *schedule);
  };
  EXPECT_TRUE(check("0").ok());
  EXPECT_TRUE(check("F m0 block1.mlp forward").ok());
  EXPECT_THAT(check("F m0 block1.mpl forward").message(),
              HasSubstr("did you mean 'F m0 block1.mlp forward'?"));
  EXPECT_THAT(check("100000").message(), HasSubstr("no op '100000'"));
  EXPECT_TRUE(check("").ok());
  EXPECT_TRUE(check("", config::FaultKind::kSkip).ok());
  EXPECT_TRUE(check("F m0 block1 all_gather", config::FaultKind::kSkip).ok());
  EXPECT_THAT(check("F m0 block1.mlp forward", config::FaultKind::kSkip).message(),
              HasSubstr("fault.skip: 'F m0 block1.mlp forward' is no collective"));
}

}  // namespace
}  // namespace shardscope::runtime
