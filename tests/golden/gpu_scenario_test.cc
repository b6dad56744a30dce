// The golden GPU scenario in the trace: exposed communication as the closed forms say, by ops and
// by kernels; the same rows however CUPTI delivers its records; what is missing is said.
#include "tests/golden/gpu_scenario.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "trace/base/check.h"
#include "trace/schema/ddl.h"
#include "trace/store/database.h"
#include "trace/store/run_database.h"

namespace shardscope::golden {
namespace {

constexpr int64_t kMs = 1'000'000;

const cupti::CuptiFunctions& Cupti() {
  static const Result<cupti::CuptiFunctions> functions = cupti::LoadCupti(SHARDSCOPE_CUPTI_LIBRARY);
  SHARDSCOPE_CHECK(functions.ok());
  return functions.value();
}

// A scenario as a finished trace, open for queries.
class Trace {
 public:
  explicit Trace(const Scenario& scenario, const Delivery& delivery = {}) {
    std::string pattern = (std::filesystem::temp_directory_path() / "shardscope-XXXXXX").string();
    SHARDSCOPE_CHECK(mkdtemp(pattern.data()) != nullptr);
    folder_ = pattern;
    const Status written = WriteTrace(scenario, Cupti(), folder_, delivery);
    EXPECT_TRUE(written.ok()) << written.message();
    const Result<store::RunFolder> run = store::FindRun(folder_);
    SHARDSCOPE_CHECK(run.ok());
    Result<store::Database> database = store::OpenRunDatabase(run.value());
    SHARDSCOPE_CHECK(database.ok());
    database_ = std::move(database).value();
  }
  explicit Trace(const ScenarioOptions& options) : Trace(MakeScenario(options)) {}
  ~Trace() { std::filesystem::remove_all(folder_); }
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  int64_t Integer(const std::string& sql) {
    const Result<int64_t> value = database_.QueryInteger(sql);
    EXPECT_TRUE(value.ok()) << value.message();
    return value.ok() ? *value : 0;
  }
  std::string Text(const std::string& sql) {
    const Result<std::string> value = database_.QueryText(sql);
    EXPECT_TRUE(value.ok()) << value.message();
    return value.ok() ? *value : std::string();
  }
  // Of every table but those that say when the test ran. Ids of rows that are written live count up
  // in the order in which the writer came to them, so rows are told by all that they say.
  std::vector<std::string> AllRows() {
    std::vector<std::string> rows;
    for (const schema::TableInfo& table : schema::Tables()) {
      if (table.name == "meta" || table.name == "clock") continue;
      const bool beside_span = table.name == "gpu_work";
      Result<store::Statement> select = database_.Prepare(
          "SELECT * FROM " + table.name + (beside_span ? " JOIN span USING(id)" : ""));
      SHARDSCOPE_CHECK(select.ok());
      while (*select->Step()) {
        std::string row = table.name;
        for (int i = table.hot ? 1 : 0; i < select->NumColumns(); ++i) {
          row += "|" + std::string(select->Text(i));
        }
        rows.push_back(row);
      }
    }
    std::sort(rows.begin(), rows.end());
    return rows;
  }

 private:
  std::string folder_;
  store::Database database_;
};

ScenarioOptions Options(plan::BackwardPrefetch prefetch, int run_ahead) {
  ScenarioOptions options;
  options.policy.num_ranks = 2;
  options.policy.backward_prefetch = prefetch;
  options.policy.run_ahead = run_ahead;
  options.costs.copy_ns = 0;  // copies are no part of the closed forms
  return options;
}

// Nanoseconds of every rank and step, which must all be alike.
int64_t ExposedNs(Trace& trace, const std::string& view) {
  const std::string column = "CAST(round(exposed_ms * 1e6) AS INTEGER)";
  EXPECT_EQ(trace.Integer("SELECT count(*) FROM " + view), 4);
  const int64_t least = trace.Integer("SELECT min(" + column + ") FROM " + view);
  EXPECT_EQ(trace.Integer("SELECT max(" + column + ") FROM " + view), least);
  return least;
}

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

template <typename Record>
Record* As(std::vector<uint64_t>& words) {
  return reinterpret_cast<Record*>(words.data());
}
CUpti_ActivityKind KindOf(std::vector<uint64_t>& words) { return As<CUpti_Activity>(words)->kind; }

// A trace of the scenario with some records changed or lost, delivered in any order.
class Damaged {
 public:
  using Change = std::function<void(std::vector<std::vector<uint64_t>>&)>;
  explicit Damaged(Change change)
      : scenario_(MakeScenario(Options(plan::BackwardPrefetch::kPre, -1))),
        whole_(scenario_),
        random_(3),
        trace_(scenario_, Delivery{&random_, std::move(change)}) {}
  Trace& whole() { return whole_; }
  Trace& trace() { return trace_; }

 private:
  Scenario scenario_;
  Trace whole_;
  std::mt19937_64 random_;
  Trace trace_;
};

TEST(GoldenDamage, KernelsWithoutTheirCallsKeepStreamAndTimesButHaveNoOp) {
  Damaged damaged([](auto& records) {
    std::erase_if(records, [](auto& words) {
      return KindOf(words) == CUPTI_ACTIVITY_KIND_DRIVER &&
             As<CUpti_ActivityAPI>(words)->cbid == 652;
    });
  });
  Trace& trace = damaged.trace();
  const int64_t collectives = trace.Integer(
      "SELECT count(*) FROM op_run r JOIN plan_op p ON p.id = r.plan_op WHERE p.communicator <> "
      "''");
  EXPECT_EQ(trace.Integer("SELECT count(*) FROM gpu_work WHERE plan_op < 0 AND launch_track < 0"),
            collectives);
  EXPECT_EQ(trace.Integer("SELECT count(*) FROM gpu_work"),
            damaged.whole().Integer("SELECT count(*) FROM gpu_work"));
  // By its stream each still belongs to its rank, and by its name to communication.
  EXPECT_EQ(ExposedNs(trace, "v_step_gpu"), ExposedNs(damaged.whole(), "v_step_gpu"));
}

TEST(GoldenDamage, LostAndUnfinishedTimesAreMarkedAndTheRowsKept) {
  Damaged damaged([](auto& records) {
    int seen = 0;
    for (auto& words : records) {
      if (KindOf(words) != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
      auto* kernel = As<CUpti_ActivityKernel10>(words);
      if (seen % 10 == 3) kernel->start = kernel->end = 0;
      if (seen % 10 == 7) kernel->end = 0;
      ++seen;
    }
  });
  Trace& trace = damaged.trace();
  EXPECT_EQ(trace.Integer("SELECT count(*) FROM gpu_work"),
            damaged.whole().Integer("SELECT count(*) FROM gpu_work"));
  const int64_t kernels = trace.Integer("SELECT count(*) FROM v_kernel");
  EXPECT_NEAR(
      static_cast<double>(trace.Integer("SELECT count(*) FROM gpu_work WHERE times = 'lost'")),
      static_cast<double>(kernels) / 10, 1);
  EXPECT_NEAR(static_cast<double>(
                  trace.Integer("SELECT count(*) FROM gpu_work WHERE times = 'unfinished'")),
              static_cast<double>(kernels) / 10, 1);
  EXPECT_EQ(
      trace.Integer("SELECT count(*) FROM gpu_work g JOIN span s ON s.id = g.id WHERE g.times "
                    "<> 'measured' AND (s.duration_ns <> 0 OR g.plan_op < 0 OR s.start_ns < "
                    "g.launch_start_ns)"),
      0);
}

constexpr uint32_t kCompute = 8, kGather = 10, kScatter = 11;  // StreamOf()

// The waits of compute for its all-gathers are lost, and one for the reduce-scatter issued just
// before appears, which would take the overlap away.
TEST(GoldenDamage, MissingAndExtraWaitsAreNamed) {
  Damaged damaged([](auto& records) {
    std::map<uint64_t, uint32_t> recorded_on;
    uint64_t last_scatter = 0;
    std::vector<uint64_t> extra;
    std::erase_if(records, [&](auto& words) {
      if (KindOf(words) == CUPTI_ACTIVITY_KIND_CUDA_EVENT) {
        const auto* event = As<CUpti_ActivityCudaEvent2>(words);
        recorded_on[event->cudaEventSyncId] = event->streamId;
        if (event->contextId == 1 && event->streamId == kScatter) {
          last_scatter = event->cudaEventSyncId;
        }
      }
      if (KindOf(words) != CUPTI_ACTIVITY_KIND_SYNCHRONIZATION) return false;
      auto* wait = As<CUpti_ActivitySynchronization2>(words);
      if (wait->type != CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT ||
          recorded_on.at(wait->cudaEventSyncId) != kGather || wait->streamId != kCompute) {
        return false;
      }
      if (extra.empty() && last_scatter != 0 && wait->contextId == 1) {
        extra = words;
        As<CUpti_ActivitySynchronization2>(extra)->cudaEventSyncId = last_scatter;
      }
      return true;
    });
    EXPECT_FALSE(extra.empty());
    records.push_back(extra);
  });
  Trace& trace = damaged.trace();
  EXPECT_GT(
      trace.Integer("SELECT count(*) FROM v_edge_check WHERE verdict = 'missing' AND from_op LIKE "
                    "'%all_gather' AND step = 0 AND rank = 1"),
      3);
  EXPECT_EQ(trace.Integer("SELECT count(*) FROM v_edge_check WHERE verdict = 'extra'"), 1);
  EXPECT_EQ(
      trace.Integer("SELECT count(*) FROM v_edge_check WHERE verdict = 'extra' AND from_op LIKE "
                    "'%reduce_scatter' AND rank = 0"),
      1);
}

TEST(GoldenDamage, WorkThatNothingPlacesIsCounted) {
  Damaged damaged([](auto& records) {
    for (auto& words : records) {
      if (KindOf(words) != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
      auto* kernel = As<CUpti_ActivityKernel10>(words);
      kernel->start = kernel->end = 0;
      kernel->correlationId = 0x7FFFFFFF;
      return;
    }
  });
  EXPECT_EQ(damaged.trace().Integer("SELECT dropped FROM v_dropped WHERE source = 'cupti'"), 1);
}

TEST(GoldenDamage, AGraphsKernelsShareTheirLaunch) {
  // All kernels of one rank's first step become nodes of the graph that its first call launched.
  Damaged damaged([](auto& records) {
    uint32_t launch = 0;
    uint64_t node = 0;
    for (auto& words : records) {
      if (KindOf(words) != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
      auto* kernel = As<CUpti_ActivityKernel10>(words);
      if (kernel->contextId != 1 || node == 12) continue;
      if (launch == 0) launch = kernel->correlationId;
      kernel->correlationId = launch;
      kernel->graphId = 5;
      kernel->graphNodeId = ++node;
    }
  });
  Trace& trace = damaged.trace();
  EXPECT_EQ(trace.Integer("SELECT count(*) FROM gpu_work WHERE graph = 5"), 12);
  EXPECT_EQ(trace.Integer("SELECT count(DISTINCT plan_op) FROM gpu_work WHERE graph = 5"), 1);
  EXPECT_EQ(trace.Integer("SELECT count(DISTINCT graph_node) FROM gpu_work WHERE graph = 5"), 12);
}

TEST(GoldenDamage, CorrelationIdsThatWrapJoinAsOthers) {
  const uint32_t shift = ~uint32_t{0} - 100;
  Damaged damaged([](auto& records) {
    for (auto& words : records) {
      switch (KindOf(words)) {
        case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
          As<CUpti_ActivityKernel10>(words)->correlationId += shift;
          break;
        case CUPTI_ACTIVITY_KIND_MEMCPY:
          As<CUpti_ActivityMemcpy6>(words)->correlationId += shift;
          As<CUpti_ActivityMemcpy6>(words)->runtimeCorrelationId += shift;
          break;
        case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
          As<CUpti_ActivitySynchronization2>(words)->correlationId += shift;
          break;
        case CUPTI_ACTIVITY_KIND_CUDA_EVENT:
          As<CUpti_ActivityCudaEvent2>(words)->correlationId += shift;
          break;
        case CUPTI_ACTIVITY_KIND_RUNTIME:
        case CUPTI_ACTIVITY_KIND_DRIVER:
          As<CUpti_ActivityAPI>(words)->correlationId += shift;
          break;
        default:
          break;
      }
    }
  });
  const std::string edges =
      "SELECT group_concat(from_op || from_step || to_op || to_step) FROM (SELECT * FROM "
      "v_event_edge "
      "ORDER BY rank, waited_ms, from_op, to_op)";
  EXPECT_EQ(damaged.trace().Text(edges), damaged.whole().Text(edges));
  EXPECT_EQ(damaged.trace().Integer("SELECT count(*) FROM gpu_work WHERE plan_op < 0"), 0);
}

}  // namespace
}  // namespace shardscope::golden
