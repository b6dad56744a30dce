#include "tests/golden/gpu_scenario.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "engine/plan/memory.h"
#include "engine/plan/toy_model.h"
#include "tests/golden/gpu_records.h"
#include "trace/base/check.h"

namespace shardscope::golden {
namespace {

// Later than any machine has been up: no record is ever old, so nothing depends on the real time.
constexpr int64_t kBaseNs = 100'000'000'000'000'000;

// One rank in virtual time.
struct Rank {
  int64_t host_ns = kBaseNs;
  int64_t end_ns = kBaseNs;                  // of all its ops so far
  int64_t step_start_ns = 0;                 // 0: not begun
  std::vector<int64_t> streams;              // free from then on
  std::vector<plan::OpIndex> last;           // issued on each stream; kNone
  std::vector<plan::OpIndex> last_work;      // likewise, of ops with GPU work
  std::vector<int64_t> ends;                 // of this step's ops
  std::map<plan::OpIndex, uint64_t> events;  // the recording behind an op
};

// Where a wait comes from.
struct Wait {
  plan::OpIndex op = plan::kNone;
  executor::BlockingKind kind = executor::BlockingKind::kNone;
};

class Simulation {
 public:
  Simulation(const ScenarioOptions& options, Scenario* scenario)
      : options_(options),
        scenario_(*scenario),
        schedule_(*scenario->schedule),
        records_(options.costs, scenario) {
    ranks_.resize(static_cast<size_t>(schedule_.num_ranks));
    for (Rank& rank : ranks_) rank.streams.assign(schedule_.streams.size(), kBaseNs);
    FindTargets();
  }

  void Run() {
    const DeviceBytes device = DeviceBytesOf(schedule_);
    for (int rank = 0; rank < schedule_.num_ranks; ++rank) {
      records_.AddStart(rank, device, &ranks_[static_cast<size_t>(rank)].host_ns);
    }
    for (int64_t step = 0; step < options_.steps; ++step) RunStep(step);
  }

 private:
  // Which ops others wait for with an event, all programs being the same.
  void FindTargets() {
    const plan::Program& program = schedule_.programs.front();
    for (size_t i = 0; i < program.ops.size(); ++i) {
      for (const Wait& wait : WaitsOf(static_cast<plan::OpIndex>(i))) targets_.insert(wait.op);
    }
  }

  // What the op's stream waits for on other streams, or its host. Communicator order is an event.
  std::vector<Wait> WaitsOf(plan::OpIndex index) const {
    const plan::Program& program = schedule_.programs.front();
    const plan::Op& op = program.ops[static_cast<size_t>(index)];
    std::vector<Wait> waits;
    for (const plan::Dependency& dependency : op.dependencies) {
      const plan::OpIndex target = plan::ResolveDependency(program, index, dependency);
      if (target == plan::kNone) continue;
      waits.push_back({target, dependency.kind == plan::DependencyKind::kHost
                                   ? executor::BlockingKind::kHost
                               : dependency.kind == plan::DependencyKind::kStream
                                   ? executor::BlockingKind::kStream
                                   : executor::BlockingKind::kEvent});
    }
    if (op.communicator != plan::kNone) {
      for (plan::OpIndex before = index; before-- > 0;) {
        const plan::Op& other = program.ops[static_cast<size_t>(before)];
        if (other.communicator != op.communicator) continue;
        if (other.stream != op.stream) {
          waits.push_back({before, executor::BlockingKind::kCommunicatorOrder});
        }
        break;
      }
    }
    return waits;
  }

  int64_t DurationOf(const plan::Op& op) const {
    const Costs& costs = options_.costs;
    const bool at_edge =
        op.segment == 0 || op.segment + 1 == static_cast<int32_t>(schedule_.segments.size());
    switch (op.kind) {
      case plan::OpKind::kForward:
        return costs.forward_ns / (at_edge ? 2 : 1);
      case plan::OpKind::kBackward:
        return costs.backward_ns / (at_edge ? 2 : 1);
      case plan::OpKind::kAllGather:
        return costs.all_gather_ns;
      case plan::OpKind::kReduceScatter:
        return costs.reduce_scatter_ns;
      case plan::OpKind::kAllReduce:
        return 10'000;
      case plan::OpKind::kGradNorm:
      case plan::OpKind::kOptimizer:
        return costs.optimizer_ns;
      case plan::OpKind::kCast:
      case plan::OpKind::kCopyIn:
      case plan::OpKind::kCopyOut:
      case plan::OpKind::kAccumulate:
        return costs.copy_ns;
      default:
        return 0;
    }
  }

  static bool HasWork(const plan::Op& op) {
    return plan::CategoryOf(op.kind) != plan::Category::kHost &&
           op.kind != plan::OpKind::kReshard && op.kind != plan::OpKind::kRelease;
  }

  // The launches of an op that starts at `start_ns` or when they have reached the GPU. Returns the
  // correlations; the host's time goes on.
  std::vector<uint32_t> Launch(int rank, const plan::Op& op) {
    const auto call = [&](CUpti_CallbackId callback) {
      return records_.AddCall(rank, callback, &ranks_[static_cast<size_t>(rank)].host_ns);
    };
    if (op.communicator != plan::kNone) return {call(GpuRecords::kDriverLaunch)};
    if (plan::CategoryOf(op.kind) == plan::Category::kCopy) return {call(GpuRecords::kMemcpy)};
    if (op.segment == plan::kNone) return {call(GpuRecords::kLaunch)};
    const uint32_t first = call(GpuRecords::kLaunch);
    return {first, call(GpuRecords::kLaunch)};
  }

  void AddWork(int rank, const plan::Op& op, const std::vector<uint32_t>& calls, int64_t start_ns,
               int64_t end_ns) {
    if (plan::CategoryOf(op.kind) == plan::Category::kCopy) {
      records_.AddCopy(rank, op, start_ns, end_ns, calls.front());
      return;
    }
    if (op.communicator != plan::kNone) {
      const bool gathers = op.kind == plan::OpKind::kAllGather;
      records_.AddKernel(rank, op,
                         gathers ? "ncclDevKernel_AllGather_RING_LL" : "ncclDevKernel_Generic",
                         start_ns, end_ns, calls.front());
      return;
    }
    if (calls.size() == 1) {
      records_.AddKernel(rank, op, "_Z11fused_adamwPfS_S_S_f", start_ns, end_ns, calls.front());
      return;
    }
    const int64_t middle_ns = start_ns + (end_ns - start_ns) / 4 * 3;
    records_.AddKernel(rank, op, "sm90_gemm_bf16_128x256x64", start_ns, middle_ns, calls.front());
    records_.AddKernel(rank, op, "_Z4gelui", middle_ns, end_ns, calls.back());
  }

  struct Pending {
    int64_t ready_ns = 0;
    Wait last;
    std::vector<uint32_t> calls;
    int64_t issue_start_ns = 0;
  };

  // The host's part of an op: waits and launches.
  Pending Issue(int rank, plan::OpIndex index) {
    Rank& state = ranks_[static_cast<size_t>(rank)];
    const plan::Op& op = schedule_.programs.front().ops[static_cast<size_t>(index)];
    const auto stream = static_cast<size_t>(op.stream);
    Pending pending;
    pending.issue_start_ns = state.host_ns;
    if (state.step_start_ns == 0) state.step_start_ns = state.host_ns;
    const auto wait_for = [&](int64_t end_ns, const Wait& wait) {
      if (end_ns <= pending.ready_ns) return;
      pending.ready_ns = end_ns;
      pending.last = wait;
    };
    for (const Wait& wait : WaitsOf(index)) {
      const int64_t end_ns = state.ends[static_cast<size_t>(wait.op)];
      const plan::Op& target = schedule_.programs.front().ops[static_cast<size_t>(wait.op)];
      if (wait.kind == executor::BlockingKind::kHost || op.stream == 0) {
        if (target.stream != 0) records_.AddHostWait(rank, target.stream, end_ns, &state.host_ns);
        state.host_ns = std::max(state.host_ns, end_ns);
      } else if (target.stream != 0 && target.stream != op.stream) {
        records_.AddStreamWait(rank, op.stream, wait.op, state.events.at(wait.op), &state.host_ns);
      }
      wait_for(end_ns, wait);
    }
    if (op.stream != 0) {
      wait_for(state.streams[stream], {state.last[stream], executor::BlockingKind::kStreamOrder});
    }
    if (HasWork(op)) pending.calls = Launch(rank, op);
    return pending;
  }

  void Finish(int rank, int64_t step, plan::OpIndex index, const Pending& pending, int64_t start_ns,
              int64_t end_ns) {
    Rank& state = ranks_[static_cast<size_t>(rank)];
    const plan::Op& op = schedule_.programs.front().ops[static_cast<size_t>(index)];
    if (HasWork(op)) AddWork(rank, op, pending.calls, start_ns, end_ns);
    OpRun run;
    run.rank = rank;
    run.step = step;
    run.op = index;
    run.on_gpu = HasWork(op);
    run.times.issued_ns = state.host_ns;
    run.times.started_ns = start_ns;
    run.times.ended_ns = end_ns;
    run.times.ready_ns =
        std::clamp(pending.ready_ns, state.host_ns, std::max(state.host_ns, start_ns));
    run.times.ready_ns = std::min(run.times.ready_ns, start_ns);
    if (pending.ready_ns > state.host_ns && pending.last.op != plan::kNone) {
      run.times.blocking_op = pending.last.op;
      run.times.blocking_kind = pending.last.kind;
    }
    if (op.stream == 0) {
      state.host_ns = end_ns;
    } else {
      const auto stream = static_cast<size_t>(op.stream);
      state.streams[stream] = end_ns;
      state.last[stream] = index;
    }
    state.ends[static_cast<size_t>(index)] = end_ns;
    state.end_ns = std::max(state.end_ns, end_ns);
    if (op.stream != 0 && targets_.contains(index)) {
      state.events[index] = records_.AddEvent(rank, op.stream, index, end_ns, &state.host_ns);
    }
    run.times.issued_ns = std::min(run.times.issued_ns, run.times.ready_ns);
    scenario_.runs.push_back(run);
    cupti::HostOp issued;
    issued.key = KeyOf(rank, step, index);
    issued.thread = ThreadOf(rank);
    issued.start_ns = pending.issue_start_ns;
    issued.end_ns = state.host_ns;
    scenario_.issued.push_back({issued, rank});
  }

  // Ranks meet in every collective; each rank's part of an op ends by itself otherwise.
  void RunOp(int64_t step, plan::OpIndex index) {
    const plan::Op& op = schedule_.programs.front().ops[static_cast<size_t>(index)];
    std::vector<Pending> pending;
    std::vector<int64_t> starts;
    for (int rank = 0; rank < schedule_.num_ranks; ++rank) {
      pending.push_back(Issue(rank, index));
      const int64_t host_ns = ranks_[static_cast<size_t>(rank)].host_ns;
      const int64_t launched_ns = HasWork(op) ? host_ns + options_.costs.latency_ns : host_ns;
      starts.push_back(std::max(launched_ns, pending.back().ready_ns));
    }
    const int64_t last_ns = *std::max_element(starts.begin(), starts.end());
    for (int rank = 0; rank < schedule_.num_ranks; ++rank) {
      const int64_t start_ns = starts[static_cast<size_t>(rank)];
      const int64_t from_ns = op.communicator != plan::kNone ? last_ns : start_ns;
      Finish(rank, step, index, pending[static_cast<size_t>(rank)], start_ns,
             from_ns + DurationOf(op));
    }
  }

  void RunStep(int64_t step) {
    const size_t num_ops = schedule_.programs.front().ops.size();
    for (Rank& state : ranks_) {
      state.last.assign(schedule_.streams.size(), plan::kNone);
      state.ends.assign(num_ops, 0);
      state.events.clear();
    }
    for (size_t index = 0; index < num_ops; ++index) RunOp(step, static_cast<plan::OpIndex>(index));
    for (int rank = 0; rank < schedule_.num_ranks; ++rank) {
      Rank& state = ranks_[static_cast<size_t>(rank)];
      scenario_.steps.push_back({rank, step, state.step_start_ns, state.end_ns});
      state.step_start_ns = state.end_ns;
      for (size_t stream = 1; stream < schedule_.streams.size(); ++stream) {
        records_.AddHostWait(rank, static_cast<plan::StreamIndex>(stream), state.streams[stream],
                             &state.host_ns);
      }
    }
  }

  const ScenarioOptions& options_;
  Scenario& scenario_;
  const plan::Schedule& schedule_;
  GpuRecords records_;
  std::vector<Rank> ranks_;
  std::set<plan::OpIndex> targets_;
};

}  // namespace

DeviceBytes DeviceBytesOf(const plan::Schedule& schedule) {
  const int64_t peak = plan::PredictLargestPeak(schedule);
  return {peak + peak / 4, peak / 4, peak / 3, peak / 12};
}

int64_t KeyOf(int rank, int64_t step, plan::OpIndex op) {
  return (step * 100 + rank) * 1'000'000 + op;
}

Scenario MakeScenario(const ScenarioOptions& options) {
  Scenario scenario;
  Result<plan::Schedule> schedule =
      plan::BuildSchedule(plan::ToyModel(options.blocks, options.root_unit), options.policy);
  SHARDSCOPE_CHECK(schedule.ok());
  scenario.schedule = std::make_unique<plan::Schedule>(std::move(schedule).value());
  SHARDSCOPE_CHECK(scenario.schedule->programs.size() == 1);
  Simulation(options, &scenario).Run();
  return scenario;
}

}  // namespace shardscope::golden
