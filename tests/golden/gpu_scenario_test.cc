// The golden GPU scenario in the trace: exposed communication as the closed forms say, by ops and
// by kernels; the same rows however CUPTI delivers its records.
#include "tests/golden/gpu_scenario.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/golden/golden_trace_test_util.h"

namespace shardscope::golden {
namespace {

constexpr int64_t kMs = 1'000'000;

// What reference closed forms add up to, one communicator, host ahead: the first all-gather and
// what the embedding's forward is too short to hide of the second; all others under a forward. In
// backward the head hides the first all-gather; the last reduce-scatter, and the norm's all-reduce,
// have nothing left to hide under.
int64_t ExposedWithPrefetchNs(const Costs& costs) {
  const int64_t all_reduce_ns = 10'000;
  return costs.all_gather_ns + std::max<int64_t>(0, costs.all_gather_ns - costs.forward_ns / 2) +
         costs.reduce_scatter_ns + all_reduce_ns;
}

// Launches take 3 us to arrive in virtual time and the host returns when the work ends: nothing is
// off.
TEST(Golden, TheGpusClockIsBoundByCauseAndEffect) {
  Trace trace(Options(plan::BackwardPrefetch::kPre, -1));
  EXPECT_EQ(trace.Integer("SELECT count(*) FROM v_gpu_clock"), 2);
  EXPECT_EQ(
      trace.Integer("SELECT count(*) FROM gpu_clock WHERE works > 0 AND waits > 0 AND low_ns < 0 "
                    "AND high_ns >= 0"),
      trace.Integer("SELECT count(*) FROM gpu_clock"));
}

TEST(Golden, BackwardPrefetchExposesOnlyTheFirstAndTheLast) {
  const ScenarioOptions options = Options(plan::BackwardPrefetch::kPre, -1);
  Trace trace(options);
  EXPECT_EQ(ExposedNs(trace, "v_step"), ExposedWithPrefetchNs(options.costs));
  EXPECT_EQ(ExposedNs(trace, "v_step_gpu"), ExposedWithPrefetchNs(options.costs));
}

TEST(Golden, LongAllGathersAreExposedByWhatAForwardCannotHide) {
  ScenarioOptions options = Options(plan::BackwardPrefetch::kPre, -1);
  Costs& costs = options.costs;
  costs.all_gather_ns = 9 * kMs;  // a block's forward: 8 ms
  costs.backward_ns = 20 * kMs;   // the head's half of it still hides an all-gather
  Trace trace(options);
  const int64_t expected = ExposedWithPrefetchNs(costs) +
                           (options.blocks - 1) * (costs.all_gather_ns - 2 * costs.forward_ns);
  EXPECT_EQ(ExposedNs(trace, "v_step"), expected);
  EXPECT_EQ(ExposedNs(trace, "v_step_gpu"), expected);
}

TEST(Golden, WithoutPrefetchEachBlockWaitsForReduceScatterAndAllGather) {
  const ScenarioOptions options = Options(plan::BackwardPrefetch::kNone, -1);
  Trace trace(options);
  const int64_t expected =
      ExposedWithPrefetchNs(options.costs) +
      (options.blocks - 1) * (options.costs.all_gather_ns + options.costs.reduce_scatter_ns);
  EXPECT_EQ(ExposedNs(trace, "v_step"), expected);
  EXPECT_EQ(ExposedNs(trace, "v_step_gpu"), expected);
}

// A host that waits for each op issues a forward's next all-gather too late to be hidden, and with
// POST also those of backward, one a block; their reduce-scatters are hidden.
TEST(Golden, WithAHostThatWaitsPostExposesOneAllGatherABlock) {
  ScenarioOptions options = Options(plan::BackwardPrefetch::kPost, 0);
  options.costs.call_ns = 1;
  options.costs.latency_ns = 0;
  Trace trace(options);
  const Costs& costs = options.costs;
  const int64_t expected =
      (2 * options.blocks + 1) * costs.all_gather_ns + costs.reduce_scatter_ns + 10'000;
  EXPECT_NEAR(static_cast<double>(ExposedNs(trace, "v_step")), static_cast<double>(expected), 100);
  EXPECT_EQ(ExposedNs(trace, "v_step_gpu"), ExposedNs(trace, "v_step"));
}

TEST(Golden, KernelsAndOpsGiveTheSameFiguresWithCopiesToo) {
  for (const plan::Preset preset : {plan::Preset::kFsdp2, plan::Preset::kFsdp1}) {
    ScenarioOptions options = Options(plan::BackwardPrefetch::kPre, -1);
    options.policy.preset = preset;
    options.costs = Costs();
    Trace trace(options);
    EXPECT_EQ(
        trace.Integer("SELECT count(*) FROM v_step a JOIN v_step_gpu b USING(rank, step) WHERE "
                      "a.compute_ms = b.compute_ms AND a.communication_ms = "
                      "b.communication_ms AND a.exposed_ms = b.exposed_ms AND a.copy_ms = "
                      "b.copy_ms AND a.exposed_copy_ms = b.exposed_copy_ms"),
        4);
  }
}

TEST(Golden, EveryKernelIsJoinedToItsOpLaunchAndStream) {
  const Scenario scenario = MakeScenario(Options(plan::BackwardPrefetch::kPre, -1));
  Trace trace(scenario);
  const auto on_gpu = std::count_if(scenario.runs.begin(), scenario.runs.end(),
                                    [](const OpRun& run) { return run.on_gpu; });
  EXPECT_EQ(trace.Integer("SELECT count(DISTINCT t.rank || ' ' || g.step || ' ' || g.plan_op) FROM "
                          "gpu_work g JOIN span s ON s.id = g.id JOIN track t ON t.id = s.track"),
            on_gpu);
  EXPECT_EQ(trace.Integer("SELECT count(*) FROM gpu_work WHERE plan_op < 0 OR launch_track < 0 OR "
                          "times <> 'measured'"),
            0);
  // The stream of a kernel is the one of its op, and below its lane.
  EXPECT_EQ(trace.Integer("SELECT count(*) FROM gpu_work g JOIN span s ON s.id = g.id JOIN "
                          "gpu_stream q ON q.track = s.track JOIN track k ON k.id = s.track JOIN "
                          "track o ON o.id = q.op_track JOIN plan_op p ON p.id = g.plan_op WHERE "
                          "o.name <> p.stream OR o.rank <> k.rank OR o.position <> k.position"),
            0);
  // An op runs from its first kernel's start to its last one's end.
  EXPECT_EQ(trace.Integer(
                "SELECT count(*) FROM op_run r JOIN (SELECT g.plan_op, g.step, t.rank, "
                "min(s.start_ns) AS first, max(s.start_ns + s.duration_ns) AS last FROM gpu_work g "
                "JOIN span s ON s.id = g.id JOIN track t ON t.id = s.track GROUP BY 1, 2, 3) w ON "
                "w.plan_op = r.plan_op AND w.step = r.step AND w.rank = r.rank WHERE r.started_ns "
                "<> w.first OR r.ended_ns <> w.last"),
            0);
  EXPECT_EQ(trace.Integer("SELECT count(*) FROM v_kernel WHERE launch_delay_ms < 0"), 0);
  EXPECT_EQ(trace.Integer("SELECT count(*) FROM span WHERE category = 'wait'"),
            2 * 2 * static_cast<int64_t>(scenario.schedule->streams.size() - 1));
  const DeviceBytes device = DeviceBytesOf(*scenario.schedule);
  EXPECT_EQ(trace.Integer("SELECT sum(bytes) FROM memory_segment WHERE rank = 1"),
            device.allocator + device.others);
  EXPECT_EQ(trace.Text("SELECT DISTINCT n.text FROM span s JOIN track t ON t.id = s.track JOIN "
                       "string n ON n.id = s.name_string WHERE t.name = 'tracer overhead'"),
            "CUPTI resources");
}

TEST(Golden, WaitsBetweenStreamsAreThoseOfTheSchedule) {
  for (const plan::Preset preset : {plan::Preset::kFsdp2, plan::Preset::kFsdp1}) {
    ScenarioOptions options = Options(plan::BackwardPrefetch::kPre, -1);
    options.policy.preset = preset;
    options.costs = Costs();
    Trace trace(options);
    EXPECT_GT(trace.Integer("SELECT count(*) FROM event_edge WHERE from_step = to_step"), 50);
    EXPECT_EQ(
        trace.Text("SELECT group_concat(verdict || ' ' || from_op || ' -> ' || to_op, '; ') FROM "
                   "v_edge_check"),
        "");
  }
}

TEST(Golden, AnyDeliveryGivesTheSameRows) {
  ScenarioOptions options = Options(plan::BackwardPrefetch::kPre, -1);
  options.costs = Costs();
  const Scenario scenario = MakeScenario(options);
  const std::vector<std::string> expected = Trace(scenario).AllRows();
  EXPECT_GT(expected.size(), 1500u);
  std::mt19937_64 random(7);
  for (int i = 0; i < 8; ++i) {
    Delivery delivery;
    delivery.shuffle = &random;
    const std::vector<std::string> rows = Trace(scenario, delivery).AllRows();
    ASSERT_EQ(rows.size(), expected.size()) << "delivery " << i;
    for (size_t row = 0; row < rows.size(); ++row) ASSERT_EQ(rows[row], expected[row]);
  }
}

}  // namespace
}  // namespace shardscope::golden
