#include "trace/analysis/lesson_snapshot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "trace/analysis/lesson_program.h"
#include "trace/analysis/memory/memory_timeline.h"
#include "trace/analysis/test_snapshot.h"
#include "trace/base/time.h"

namespace shardscope::analysis {
namespace {

using query::BlockingKind;
using query::Category;
using query::MemoryCategory;

constexpr int64_t kRunStartNs = 7'200 * kNsPerSecond;  // CLOCK_MONOTONIC of a machine up for hours
constexpr int64_t kIssueNs = 9 * kNsPerUs;             // host time per op
constexpr int64_t kLatencyNs = 50 * kNsPerUs;
constexpr double kLinkBytesPerNs = 0.7;  // 0.7 GB/s
constexpr double kCopyBytesPerNs = 9;
constexpr int64_t kTokensPerStep = 1024;

// In [-1, 1), the same for the same arguments (splitmix64).
double Noise(uint64_t a, uint64_t b, uint64_t c) {
  uint64_t x = a * 0x9E3779B97F4A7C15U + b * 0xBF58476D1CE4E5B9U + c * 0x94D049BB133111EBU;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  x ^= x >> 31;
  return static_cast<double>(x >> 11) / static_cast<double>(1ULL << 52) - 1.0;
}

// Runs programs in time: one pass in host order, all ranks side by side.
class LessonClock {
 public:
  LessonClock(TestSnapshot* test, int ranks) : test_(test), states_(static_cast<size_t>(ranks)) {}

  void RunStep(int32_t step, const std::vector<LessonOp>& ops) {
    for (State& state : states_) {
      state.runs.assign(ops.size(), {});
      state.last_of_stream.clear();
      state.last_collective = kNone;
      state.host_wait = kNone;
      state.host_ns = state.step_start_ns;
    }
    for (size_t i = 0; i < ops.size(); ++i) {
      const query::PlanOp& plan = test_->op(ops[i].plan_op);
      int64_t arrival_ns = 0;
      for (State& state : states_) {
        Start(ops, i, plan, &state);
        arrival_ns = std::max(arrival_ns, state.runs[i].started_ns);
      }
      for (size_t rank = 0; rank < states_.size(); ++rank) {
        End(ops[i], i, plan, static_cast<int32_t>(rank), step, arrival_ns);
      }
    }
    for (size_t rank = 0; rank < states_.size(); ++rank) {
      Record(static_cast<int32_t>(rank), step, ops);
    }
  }

 private:
  static constexpr size_t kNone = ~size_t{0};

  struct State {
    int64_t step_start_ns = kRunStartNs;
    int64_t host_ns = 0;
    size_t host_wait = kNone;  // the compute op that the host waits for before it issues the next
    std::vector<query::OpRun> runs;
    std::map<std::string, size_t> last_of_stream;
    size_t last_collective = kNone;
  };

  void Start(const std::vector<LessonOp>& ops, size_t i, const query::PlanOp& plan, State* state) {
    query::OpRun& run = state->runs[i];
    run.plan_op = plan.id;
    const auto block = [&](size_t blocker, BlockingKind kind, int64_t time_ns) {
      if (blocker == kNone || time_ns <= run.ready_ns) return;
      run.ready_ns = time_ns;
      run.blocking_plan_op = ops[blocker].plan_op;
      run.blocking_kind = kind;
    };
    const size_t waited_for = std::exchange(state->host_wait, kNone);
    if (waited_for != kNone) block(waited_for, BlockingKind::kHost, EndOf(*state, waited_for));
    state->host_ns = std::max(state->host_ns, run.ready_ns) + kIssueNs;
    run.issued_ns = run.ready_ns = state->host_ns;
    for (const size_t wait : ops[i].waits) {
      block(wait, BlockingKind::kEvent, EndOf(*state, wait));
    }
    const auto before = state->last_of_stream.find(plan.stream);
    if (before != state->last_of_stream.end()) {
      block(before->second, BlockingKind::kStreamOrder, EndOf(*state, before->second));
    }
    state->last_of_stream[plan.stream] = i;
    if (plan.category == Category::kCommunication) {
      if (state->last_collective != kNone) {
        block(state->last_collective, BlockingKind::kCommunicatorOrder,
              EndOf(*state, state->last_collective));
      }
      state->last_collective = i;
    }
    run.started_ns = run.ready_ns + 2 * kNsPerUs;
  }

  static int64_t EndOf(const State& state, size_t op) { return state.runs[op].ended_ns; }

  void End(const LessonOp& op, size_t i, const query::PlanOp& plan, int32_t rank, int32_t step,
           int64_t arrival_ns) {
    State& state = states_[static_cast<size_t>(rank)];
    query::OpRun& run = state.runs[i];
    const double noise =
        Noise(static_cast<uint64_t>(rank), static_cast<uint64_t>(step), static_cast<uint64_t>(i));
    double duration_ns = 0;
    if (plan.category == Category::kCommunication) {
      const double transfer_ns = static_cast<double>(plan.wire_bytes) / kLinkBytesPerNs;
      run.ended_ns = arrival_ns + kLatencyNs + std::llround(transfer_ns + 3'000 * (noise + 1));
      return;
    }
    if (plan.category == Category::kCopy) {
      duration_ns = static_cast<double>(op.bytes) / kCopyBytesPerNs;
    } else {
      duration_ns = static_cast<double>(op.duration_ns);
    }
    const bool computes = plan.category == Category::kCompute;
    if (computes && rank == 1 && step % 7 == 6) duration_ns *= 1.4;
    run.ended_ns = run.started_ns + std::llround(duration_ns * (1 + 0.03 * noise));
    if (computes) state.host_wait = i;
    if (plan.stream == "host") state.host_ns = run.ended_ns;
  }

  void Record(int32_t rank, int32_t step, const std::vector<LessonOp>& ops) {
    State& state = states_[static_cast<size_t>(rank)];
    std::vector<size_t> order;  // rows come in the order in which ops end
    for (size_t i = 0; i < ops.size(); ++i) order.push_back(i);
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return EndOf(state, a) < EndOf(state, b); });
    for (const size_t i : order) {
      const query::OpRun& run = state.runs[i];
      query::OpRun& row = test_->Run(rank, step, run.plan_op, run.started_ns, run.ended_ns);
      row.issued_ns = run.issued_ns;
      row.ready_ns = run.ready_ns;
      row.blocking_plan_op = run.blocking_plan_op;
      row.blocking_kind = run.blocking_kind;
      for (const MemoryChange& change : ops[i].memory) {
        query::MemoryEvent& event = test_->Memory(
            rank, change.category, change.bytes > 0 ? run.started_ns : run.ended_ns, change.bytes);
        event.issued_ns = run.issued_ns;
        event.is_of_step = true;
      }
    }
    const int64_t end_ns = EndOf(state, order.back());
    query::Step& row = test_->Step(rank, step, state.step_start_ns, end_ns);
    const double noise = Noise(static_cast<uint64_t>(rank), static_cast<uint64_t>(step), 4711);
    row.tokens = kTokensPerStep;
    row.loss = 1.7 + 3.85 * std::exp(-step / 60.0) + 0.04 * noise;
    row.grad_norm = 0.9 + 1.8 * std::exp(-step / 25.0);
    state.step_start_ns = end_ns;
  }

  TestSnapshot* test_;
  std::vector<State> states_;
};

void AddPersistentMemory(TestSnapshot* test, int ranks) {
  int64_t bytes = 0;
  for (const LessonUnit& unit : LessonUnits()) bytes += unit.bytes / ranks;
  for (int32_t rank = 0; rank < ranks; ++rank) {
    test->Memory(rank, MemoryCategory::kParameterShard, kRunStartNs, bytes);
    test->Memory(rank, MemoryCategory::kOptimizer, kRunStartNs, 2 * bytes);
    test->Memory(rank, MemoryCategory::kGradientShard, kRunStartNs, bytes);
  }
}

void Describe(query::Snapshot* snapshot, int ranks, bool prefetch) {
  snapshot->name = "prefetch-lesson";
  snapshot->run_folder = "runs/prefetch-lesson";
  snapshot->truth = query::Truth::kEmulated;
  snapshot->meta = {{"name", snapshot->name}, {"num_ranks", std::to_string(ranks)}};
  snapshot->config = {{"preset", "fsdp2"},
                      {"strategy", "full"},
                      {"reshard_after_forward", "true"},
                      {"prefetch.backward", prefetch ? "pre" : "none"},
                      {"prefetch.backward_depth", "1"},
                      {"prefetch.forward", prefetch ? "1" : "0"},
                      {"prefetch.limit", "0"},
                      {"host.run_ahead", "0"},
                      {"transport", "emulated"},
                      {"link.bandwidth", "700MB/s"},
                      {"link.latency", "50us"},
                      {"run.ranks", std::to_string(ranks)},
                      {"model.dim", "256"},
                      {"model.layers", "3"}};
  snapshot->capabilities = {{"engine", "on", "", 0}, {"memory", "on", "", 0}};
}

// The largest total of rank 0 while the schedule ran.
int64_t PeakOf(const query::Snapshot& snapshot, int64_t schedule) {
  MemoryTimeline timeline(0, Ledger::kExecution);
  timeline.Advance(snapshot);
  int64_t peak = 0;
  for (const query::Step& step : snapshot.ranks.front().steps) {
    if (step.schedule != schedule) continue;
    const size_t first = timeline.FirstAt(step.start_ns);
    const size_t last = timeline.FirstAt(step.end_ns, first);
    if (first < last) peak = timeline.At(timeline.Largest(first, last)).total;
    break;  // the steps of a schedule allocate alike
  }
  return peak;
}

}  // namespace

query::SnapshotPtr MakeLessonSnapshot(int ranks, int steps, int prefetch_from_step) {
  TestSnapshot test(ranks);
  bool prefetch = prefetch_from_step == 0;
  Describe(&test.snapshot(), ranks, prefetch);
  AddPersistentMemory(&test, ranks);
  test.snapshot().schedules[1].name = prefetch ? "fsdp2 full pre1 fwd1" : "fsdp2 full";
  std::vector<LessonOp> ops = PlanLesson(&test, ranks, prefetch);
  LessonClock clock(&test, ranks);
  for (int32_t step = 0; step < steps; ++step) {
    if (step == prefetch_from_step && !prefetch) {
      prefetch = true;
      const query::SnapshotPtr before = test.Build();
      for (const auto& [key, from, to] : {std::array{"prefetch.backward", "none", "pre"},
                                          std::array{"prefetch.forward", "0", "1"}}) {
        test.snapshot().markers.push_back({before->end_ns, step, "change", key, from, to});
      }
      test.NextSchedule("fsdp2 full pre1 fwd1");
      ops = PlanLesson(&test, ranks, true);
    }
    clock.RunStep(step, ops);
  }
  const query::SnapshotPtr measured = test.Build();
  for (auto& [id, schedule] : test.snapshot().schedules) {
    schedule.predicted_peak_bytes = PeakOf(*measured, id);
    schedule.executed_bound_bytes = schedule.predicted_peak_bytes / 8 * 9;
  }
  return test.Build();
}

}  // namespace shardscope::analysis
