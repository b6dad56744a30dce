// Single waits, causes and failures, on small schedules written by hand.
#include "engine/executor/cpu_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/executor/latch_test_util.h"
#include "engine/executor/toy_bodies_test_util.h"
#include "trace/base/time.h"

namespace shardscope::executor {
namespace {

using plan::Dependency;
using plan::DependencyKind;
using plan::Op;
using plan::OpIndex;
using plan::OpKind;
using plan::StreamIndex;
using testing::AllOf;
using testing::HasSubstr;

constexpr StreamIndex kHost = 0;
constexpr StreamIndex kCompute = 1;
constexpr StreamIndex kGather = 2;
constexpr StreamIndex kReduce = 3;
constexpr StreamIndex kOtherCompute = 4;

// One rank; ops of any kind, without buffers.
plan::Schedule ScheduleOf(std::vector<Op> ops) {
  plan::Schedule schedule;
  schedule.name = "hand";
  schedule.streams = {{"host", plan::StreamRole::kHost},
                      {"compute", plan::StreamRole::kCompute},
                      {"all_gather", plan::StreamRole::kAllGather},
                      {"reduce_scatter", plan::StreamRole::kReduceScatter},
                      {"other", plan::StreamRole::kCompute}};
  schedule.communicators = {{"shard"}};
  schedule.programs = {{std::move(ops), {}}};
  schedule.program_of_rank = {0};
  return schedule;
}

Op OpOn(StreamIndex stream, OpKind kind, std::vector<Dependency> dependencies = {}) {
  Op op;
  op.kind = kind;
  op.stream = stream;
  op.dependencies = std::move(dependencies);
  if (plan::CategoryOf(kind) == plan::Category::kCommunication) op.communicator = 0;
  return op;
}

struct OneRank {
  std::map<OpIndex, OpTimes> times;
  Status status;
};

OneRank RunOne(const plan::Schedule& schedule, DelayHook hook, int slots = 4) {
  ToyRun run = RunToy(schedule, {.slots = slots, .delay_hook = std::move(hook)});
  return {run.sinks[0]->times(), run.statuses[0]};
}

// Runs `schedule` with op `held` waiting until the turn of op `other` has come; tells whether that
// happened in time.
bool ComesWhileHeld(const plan::Schedule& schedule, OpIndex held, OpIndex other,
                    int64_t patience_ms) {
  Latch came;
  bool in_time = false;
  const OneRank run = RunOne(schedule, [&](const OpContext& context) {
    if (context.index == other) came.Open();
    if (context.index == held) in_time = came.WaitFor(patience_ms);
  });
  EXPECT_TRUE(run.status.ok()) << run.status.message();
  return in_time;
}

TEST(Waits, StreamsRunAtTheSameTime) {
  const auto schedule =
      ScheduleOf({OpOn(kCompute, OpKind::kForward), OpOn(kGather, OpKind::kAllGather)});
  EXPECT_TRUE(ComesWhileHeld(schedule, 0, 1, kMustHappenMs));
}

TEST(Waits, TheHostRunsAhead) {
  const auto schedule =
      ScheduleOf({OpOn(kCompute, OpKind::kForward), OpOn(kCompute, OpKind::kForward),
                  OpOn(kHost, OpKind::kLoadBatch)});
  EXPECT_TRUE(ComesWhileHeld(schedule, 0, 2, kMustHappenMs));
}

TEST(Waits, AHostDependencyBlocksAllLaterIssues) {
  const auto schedule =
      ScheduleOf({OpOn(kCompute, OpKind::kForward),
                  OpOn(kReduce, OpKind::kReduceScatter, {{DependencyKind::kHost, 0}}),
                  OpOn(kOtherCompute, OpKind::kForward)});
  EXPECT_FALSE(ComesWhileHeld(schedule, 0, 1, kMustNotHappenMs));
  EXPECT_FALSE(ComesWhileHeld(schedule, 0, 2, kMustNotHappenMs));
}

TEST(Waits, OneCommunicatorRunsInIssueOrderOnTwoStreams) {
  const auto schedule =
      ScheduleOf({OpOn(kReduce, OpKind::kReduceScatter), OpOn(kGather, OpKind::kAllGather)});
  EXPECT_FALSE(ComesWhileHeld(schedule, 0, 1, kMustNotHappenMs));
}

TEST(Waits, AStreamWaitCoversWhatWasIssuedBefore) {
  const auto schedule =
      ScheduleOf({OpOn(kCompute, OpKind::kForward), OpOn(kCompute, OpKind::kForward),
                  OpOn(kGather, OpKind::kAllGather, {{DependencyKind::kStream, kCompute}}),
                  OpOn(kCompute, OpKind::kForward)});
  EXPECT_FALSE(ComesWhileHeld(schedule, 1, 2, kMustNotHappenMs));
  EXPECT_TRUE(ComesWhileHeld(schedule, 3, 2, kMustHappenMs));
}

// Runs two ops of which the second waits for the first in the given way, and returns the times of
// the second. The first is held until the host has issued everything that it can.
OpTimes TimesOfSecond(Op first, Op second) {
  const bool host_blocks =
      !second.dependencies.empty() && second.dependencies[0].kind == DependencyKind::kHost;
  const auto schedule = ScheduleOf({first, second, OpOn(kHost, OpKind::kLoadBatch)});
  Latch all_issued;
  const OneRank run = RunOne(schedule, [&](const OpContext& context) {
    if (context.index == 2) all_issued.Open();
    // A blocked host does not come to the last op: then any time in which it reaches its wait does.
    if (context.index == 0) all_issued.WaitFor(host_blocks ? kMustNotHappenMs : kMustHappenMs);
  });
  EXPECT_TRUE(run.status.ok()) << run.status.message();
  return run.times.at(1);
}

TEST(Causes, NameTheWaitThatEndedLast) {
  const Op forward = OpOn(kCompute, OpKind::kForward);
  const Op reduce = OpOn(kReduce, OpKind::kReduceScatter);
  const auto expect = [](const OpTimes& times, BlockingKind kind) {
    EXPECT_EQ(times.blocking_kind, kind);
    EXPECT_EQ(times.blocking_op, 0);
    // A host wait is over when the op is issued.
    EXPECT_EQ(times.ready_ns > times.issued_ns, kind != BlockingKind::kHost);
  };
  expect(TimesOfSecond(forward, OpOn(kGather, OpKind::kAllGather, {{DependencyKind::kEvent, 0}})),
         BlockingKind::kEvent);
  expect(TimesOfSecond(forward,
                       OpOn(kGather, OpKind::kAllGather, {{DependencyKind::kStream, kCompute}})),
         BlockingKind::kStream);
  expect(TimesOfSecond(forward, OpOn(kGather, OpKind::kAllGather, {{DependencyKind::kHost, 0}})),
         BlockingKind::kHost);
  expect(TimesOfSecond(forward, OpOn(kCompute, OpKind::kForward)), BlockingKind::kStreamOrder);
  expect(TimesOfSecond(reduce, OpOn(kGather, OpKind::kAllGather)),
         BlockingKind::kCommunicatorOrder);
}

TEST(Causes, AreNoneForAnOpThatWasReadyWhenIssued) {
  const OpTimes times =
      TimesOfSecond(OpOn(kCompute, OpKind::kForward), OpOn(kGather, OpKind::kAllGather));
  EXPECT_EQ(times.blocking_kind, BlockingKind::kNone);
  EXPECT_EQ(times.blocking_op, plan::kNone);
  EXPECT_EQ(times.ready_ns, times.issued_ns);
}

// The host wait belongs to op 1, but op 2 was issued late because of it as well.
TEST(Causes, AHostWaitCountsForTheWholeBurstAfterIt) {
  const auto schedule = ScheduleOf({OpOn(kCompute, OpKind::kForward),
                                    OpOn(kGather, OpKind::kAllGather, {{DependencyKind::kHost, 0}}),
                                    OpOn(kOtherCompute, OpKind::kForward)});
  const OneRank run = RunOne(schedule, [&](const OpContext& context) {
    if (context.index == 0) SleepUntilNs(MonotonicNs() + 20 * kNsPerMs);
  });
  EXPECT_EQ(run.times.at(2).blocking_kind, BlockingKind::kHost);
  EXPECT_EQ(run.times.at(2).blocking_op, 0);
}

TEST(Causes, NameTheSlotIfNoneWasFree) {
  const auto schedule =
      ScheduleOf({OpOn(kCompute, OpKind::kForward), OpOn(kOtherCompute, OpKind::kForward)});
  ComputeSlots slots(1);
  ToyBodies bodies(nullptr);
  KeepingSink sink;
  CpuRunner executor(0, &bodies, &sink, &slots);
  bodies.Prepare(schedule.programs[0]);
  ASSERT_TRUE(executor.SetSchedule(schedule).ok());
  // The only slot is taken until both ops have been at their turn for a while.
  slots.Acquire();
  std::thread holder([&] {
    SleepUntilNs(MonotonicNs() + 20 * kNsPerMs);
    slots.Release();
  });
  EXPECT_TRUE(executor.RunStep(0).ok());
  holder.join();
  for (const OpIndex index : {0, 1}) {
    const OpTimes& times = sink.times().at(index);
    EXPECT_EQ(times.blocking_kind, BlockingKind::kSlot);
    EXPECT_GT(times.slot_wait_ns, 0);
    EXPECT_LE(times.ready_ns + times.slot_wait_ns, times.started_ns);
  }
}

TEST(Causes, CollectivesAndReleasesNeedNoSlot) {
  const auto schedule =
      ScheduleOf({OpOn(kCompute, OpKind::kRelease), OpOn(kCompute, OpKind::kReshard),
                  OpOn(kGather, OpKind::kAllGather), OpOn(kHost, OpKind::kLoadBatch)});
  ToyExchange exchange;
  ComputeSlots slots(1);
  slots.Acquire();
  ToyBodies bodies(&exchange);
  KeepingSink sink;
  CpuRunner executor(0, &bodies, &sink, &slots);
  bodies.Prepare(schedule.programs[0]);
  ASSERT_TRUE(executor.SetSchedule(schedule).ok());
  EXPECT_TRUE(executor.RunStep(0).ok());  // would hang
}

TEST(Failure, NamesRankStepAndOpAndRunsNothingAfterIt) {
  const auto schedule =
      ScheduleOf({OpOn(kCompute, OpKind::kForward), OpOn(kCompute, OpKind::kBackward),
                  OpOn(kGather, OpKind::kAllGather, {{DependencyKind::kEvent, 1}}),
                  OpOn(kReduce, OpKind::kReduceScatter, {{DependencyKind::kHost, 2}}),
                  OpOn(kHost, OpKind::kLoadBatch)});
  ComputeSlots slots(1);
  ToyExchange exchange;
  ToyBodies bodies(&exchange);
  KeepingSink sink;
  CpuRunner executor(0, &bodies, &sink, &slots);
  int failures = 0;
  executor.set_on_failure([&](Culprit) { ++failures; });
  executor.set_delay_hook([](const OpContext& context) {
    if (context.index == 1) throw std::runtime_error("out of memory");
  });
  bodies.Prepare(schedule.programs[0]);
  ASSERT_TRUE(executor.SetSchedule(schedule).ok());
  const Status status = executor.RunStep(17);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("rank 0"), HasSubstr("step 17"),
                                      HasSubstr("'F backward'"), HasSubstr("out of memory")));
  EXPECT_EQ(failures, 1);
  EXPECT_EQ(sink.times().size(), 1U);
  EXPECT_EQ(sink.times().count(0), 1U);

  // The executor and its slots can be used again.
  executor.set_delay_hook(nullptr);
  sink.Clear();
  EXPECT_TRUE(executor.RunStep(18).ok());
  EXPECT_EQ(sink.times().size(), schedule.programs[0].ops.size());
  int64_t last_end_ns = 0;
  for (const auto& [index, times] : sink.times()) {
    last_end_ns = std::max(last_end_ns, times.ended_ns);
  }
  EXPECT_EQ(executor.last_end_ns(), last_end_ns);
}

TEST(Failure, OfOneRankEndsAll) {
  plan::Schedule schedule =
      ScheduleOf({OpOn(kHost, OpKind::kControl), OpOn(kCompute, OpKind::kForward),
                  OpOn(kGather, OpKind::kAllGather),
                  OpOn(kCompute, OpKind::kBackward, {{DependencyKind::kEvent, 2}})});
  schedule.mesh = plan::MeshOf(plan::MeshDimension::kShard, 3);
  schedule.program_of_rank = {0, 0, 0};
  const ToyRun run = RunToy(schedule, {.delay_hook = [](const OpContext& context) {
                              // Not even a standard exception.
                              if (context.rank == 1 && context.index == 2) throw 7;
                            }});
  EXPECT_THAT(run.statuses[1].message(),
              AllOf(HasSubstr("rank 1"), HasSubstr("'F all_gather'"), HasSubstr("threw")));
  for (const size_t other : {0U, 2U}) {
    EXPECT_THAT(run.statuses[other].message(),
                AllOf(HasSubstr("'F all_gather'"), HasSubstr("aborted: rank 1 failed")));
    EXPECT_EQ(run.sinks[other]->times().count(3), 0U);
  }
}

TEST(Failure, AProgramThatWouldHangIsRefused) {
  const auto message_of = [](const plan::Schedule& schedule) {
    return RunOne(schedule, nullptr).status.message();
  };
  EXPECT_THAT(
      message_of(ScheduleOf({OpOn(kCompute, OpKind::kForward, {{DependencyKind::kEvent, 0}})})),
      HasSubstr("waits for op 0, which is not issued before it"));
  EXPECT_THAT(message_of(ScheduleOf({OpOn(9, OpKind::kForward)})),
              HasSubstr("stream that does not exist"));
  EXPECT_THAT(
      message_of(ScheduleOf({OpOn(kCompute, OpKind::kForward, {{DependencyKind::kStream, -1}})})),
      HasSubstr("waits for a stream that does not exist"));
}

TEST(ComputeSlots, GoToWaitersInTheOrderInWhichTheyCame) {
  ComputeSlots slots(1);
  slots.Acquire();
  std::vector<int> order;  // guarded by the only slot
  std::vector<std::thread> waiters;
  for (int i = 0; i < 5; ++i) {
    waiters.emplace_back([&, i] {
      EXPECT_GT(slots.Acquire(), 0);
      order.push_back(i);
      slots.Release();
    });
    while (slots.num_waiting() < i + 1) std::this_thread::yield();
  }
  slots.Release();
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4}));
  EXPECT_EQ(slots.Acquire(), 0);
}

TEST(ComputeSlots, CanBeChangedWhileTaken) {
  ComputeSlots slots(2);
  slots.Acquire();
  slots.Acquire();
  slots.SetSlots(1);
  Latch got_one;
  std::thread waiter([&] {
    slots.Acquire();
    got_one.Open();
  });
  slots.Release();  // gives back what the new limit took away
  EXPECT_FALSE(got_one.WaitFor(kMustNotHappenMs));
  slots.SetSlots(2);
  EXPECT_TRUE(got_one.WaitFor(kMustHappenMs));
  waiter.join();
}

}  // namespace
}  // namespace shardscope::executor
