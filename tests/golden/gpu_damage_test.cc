// The golden GPU scenario with records of CUPTI's changed or lost: what is missing is said, and the
// rest stands.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>

#include "tests/golden/golden_trace_test_util.h"

namespace shardscope::golden {
namespace {

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
