#include "tests/golden/gpu_scenario.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "engine/plan/memory.h"
#include "engine/plan/uniform_model.h"
#include "engine/simulate/simulate.h"
#include "tests/golden/gpu_records.h"
#include "trace/base/check.h"

namespace shardscope::golden {
namespace {

// Later than any machine has been up: no record is ever old, so nothing depends on the real time.
constexpr int64_t kBaseNs = 100'000'000'000'000'000;

// The host of a rank, and what it noted of its GPU.
struct Host {
  int64_t time_ns = kBaseNs;
  int64_t step_start_ns = kBaseNs;
  std::map<plan::OpIndex, uint64_t> events;  // the recording behind an op
};

// Steps in virtual time, and the calls and the work that CUPTI would record of them.
class ScenarioMaker {
 public:
  ScenarioMaker(const ScenarioOptions& options, Scenario* scenario)
      : options_(options),
        scenario_(*scenario),
        schedule_(*scenario->schedule),
        program_(schedule_.programs.front()),
        records_(options.costs, scenario),
        hosts_(static_cast<size_t>(schedule_.num_ranks())) {
    FindWaits();
    for (size_t op = 0; op < program_.ops.size(); ++op) {
      costs_.push_back(CostOf(static_cast<plan::OpIndex>(op)));
    }
  }

  void Run() {
    const DeviceBytes device = DeviceBytesOf(schedule_);
    for (int rank = 0; rank < schedule_.num_ranks(); ++rank) {
      records_.AddStart(rank, device, &HostOf(rank).time_ns);
      HostOf(rank).step_start_ns = HostOf(rank).time_ns;
    }
    for (int64_t step = 0; step < options_.steps; ++step) RunStep(step);
  }

 private:
  Host& HostOf(int rank) { return hosts_[static_cast<size_t>(rank)]; }
  const plan::Op& OpAt(plan::OpIndex index) const {
    return program_.ops[static_cast<size_t>(index)];
  }

  // What each op's stream waits for on other streams, communicator order included. The host's own
  // ops have no work on the GPU.
  void FindWaits() {
    std::vector<plan::OpIndex> last_of_communicator(schedule_.communicators.size(), plan::kNone);
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      const plan::Op& op = program_.ops[i];
      const auto index = static_cast<plan::OpIndex>(i);
      std::vector<plan::OpIndex>& waits = waits_.emplace_back();
      const auto wait_for = [&](plan::OpIndex target) {
        if (target == plan::kNone || op.stream == 0) return;
        const plan::StreamIndex other = OpAt(target).stream;
        if (other == 0 || other == op.stream) return;
        waits.push_back(target);
        targets_.insert(target);
      };
      for (const plan::Dependency& dependency : op.dependencies) {
        if (dependency.kind == plan::DependencyKind::kHost) continue;
        wait_for(plan::ResolveDependency(program_, index, dependency));
      }
      if (op.communicator == plan::kNone) continue;
      wait_for(std::exchange(last_of_communicator[static_cast<size_t>(op.communicator)], index));
    }
  }

  simulate::OpCost CostOf(plan::OpIndex index) const {
    const plan::Op& op = OpAt(index);
    const auto num_calls =
        static_cast<int64_t>(waits_[static_cast<size_t>(index)].size() + LaunchesOf(op).size());
    simulate::OpCost cost;
    cost.issue_ns = num_calls * options_.costs.call_ns;
    cost.return_ns = targets_.contains(index) ? options_.costs.call_ns : 0;
    cost.latency_ns = HasWork(op) ? options_.costs.latency_ns : 0;
    cost.duration_ns = DurationOf(op);
    return cost;
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
      case plan::OpKind::kUnscale:
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

  // The calls that launch an op's work.
  static std::vector<CUpti_CallbackId> LaunchesOf(const plan::Op& op) {
    if (!HasWork(op)) return {};
    if (op.communicator != plan::kNone) return {GpuRecords::kDriverLaunch};
    if (plan::CategoryOf(op.kind) == plan::Category::kCopy) return {GpuRecords::kMemcpy};
    if (op.segment == plan::kNone) return {GpuRecords::kLaunch};
    return {GpuRecords::kLaunch, GpuRecords::kLaunch};
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

  // What the host did until it had issued the op. Returns the correlations of its launches.
  std::vector<uint32_t> AddCalls(int rank, plan::OpIndex index, const simulate::StepTimes& times) {
    Host& host = HostOf(rank);
    const std::vector<executor::OpTimes>& ops = times[static_cast<size_t>(rank)];
    const plan::Op& op = OpAt(index);
    for (const plan::Dependency& dependency : op.dependencies) {
      if (dependency.kind != plan::DependencyKind::kHost) continue;
      const int64_t end_ns = ops[static_cast<size_t>(dependency.target)].ended_ns;
      if (end_ns <= host.time_ns) continue;
      records_.AddHostWait(rank, OpAt(dependency.target).stream, end_ns, &host.time_ns);
    }
    for (const plan::OpIndex target : waits_[static_cast<size_t>(index)]) {
      records_.AddStreamWait(rank, op.stream, target, host.events.at(target), &host.time_ns);
    }
    std::vector<uint32_t> correlations;
    for (const CUpti_CallbackId call : LaunchesOf(op)) {
      correlations.push_back(records_.AddCall(rank, call, &host.time_ns));
    }
    SHARDSCOPE_CHECK(host.time_ns == ops[static_cast<size_t>(index)].issued_ns);
    return correlations;
  }

  // What the GPU did for the op, and the host behind its issue.
  void AddRun(int rank, plan::OpIndex index, const executor::OpTimes& times,
              const std::vector<uint32_t>& calls) {
    Host& host = HostOf(rank);
    const plan::Op& op = OpAt(index);
    if (HasWork(op)) AddWork(rank, op, calls, times.started_ns, times.ended_ns);
    if (op.stream == 0) host.time_ns = times.ended_ns;
    if (targets_.contains(index)) {
      host.events[index] = records_.AddEvent(rank, op.stream, index, times.ended_ns, &host.time_ns);
    }
  }

  void AddOp(int64_t step, plan::OpIndex index, const simulate::StepTimes& times) {
    std::vector<int64_t> begins;
    std::vector<std::vector<uint32_t>> calls;
    for (int rank = 0; rank < schedule_.num_ranks(); ++rank) {
      begins.push_back(HostOf(rank).time_ns);
      calls.push_back(AddCalls(rank, index, times));
    }
    for (int rank = 0; rank < schedule_.num_ranks(); ++rank) {
      const auto at = static_cast<size_t>(rank);
      const executor::OpTimes& run = times[at][static_cast<size_t>(index)];
      AddRun(rank, index, run, calls[at]);
      scenario_.runs.push_back({rank, step, index, run, HasWork(OpAt(index))});
      cupti::HostOp issued;
      issued.key = KeyOf(rank, step, index);
      issued.thread = ThreadOf(rank);
      issued.start_ns = begins[at];
      issued.end_ns = HostOf(rank).time_ns;
      scenario_.issued.push_back({issued, rank});
    }
  }

  void RunStep(int64_t step) {
    simulate::StepInput input;
    input.costs.assign(hosts_.size(), costs_);
    for (const Host& host : hosts_) input.start_ns.push_back(host.time_ns);
    const Result<simulate::StepTimes> times = simulate::SimulateStep(schedule_, input);
    SHARDSCOPE_CHECK(times.ok());
    for (size_t op = 0; op < program_.ops.size(); ++op) {
      AddOp(step, static_cast<plan::OpIndex>(op), *times);
    }
    for (int rank = 0; rank < schedule_.num_ranks(); ++rank) {
      EndStep(rank, step, (*times)[static_cast<size_t>(rank)]);
    }
  }

  // The host waits for all streams before it begins the next step, which counts from their end on.
  void EndStep(int rank, int64_t step, const std::vector<executor::OpTimes>& times) {
    Host& host = HostOf(rank);
    std::vector<int64_t> ends(schedule_.streams.size(), kBaseNs);
    for (size_t op = 0; op < times.size(); ++op) {
      int64_t& end_ns = ends[static_cast<size_t>(program_.ops[op].stream)];
      end_ns = std::max(end_ns, times[op].ended_ns);
    }
    const int64_t end_ns = *std::max_element(ends.begin(), ends.end());
    scenario_.steps.push_back({rank, step, host.step_start_ns, end_ns});
    host.step_start_ns = end_ns;
    for (size_t stream = 1; stream < ends.size(); ++stream) {
      const int64_t until_ns = std::max(host.time_ns + options_.costs.call_ns, ends[stream]);
      records_.AddHostWait(rank, static_cast<plan::StreamIndex>(stream), until_ns, &host.time_ns);
    }
  }

  const ScenarioOptions& options_;
  Scenario& scenario_;
  const plan::Schedule& schedule_;
  const plan::Program& program_;
  GpuRecords records_;
  std::vector<Host> hosts_;
  std::vector<std::vector<plan::OpIndex>> waits_;  // by op
  std::set<plan::OpIndex> targets_;                // of all waits: an event stands behind them
  std::vector<simulate::OpCost> costs_;            // by op; ranks are alike
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
      plan::BuildSchedule(plan::UniformModel(options.blocks, options.root_unit), options.policy);
  SHARDSCOPE_CHECK(schedule.ok());
  scenario.schedule = std::make_unique<plan::Schedule>(std::move(schedule).value());
  SHARDSCOPE_CHECK(scenario.schedule->programs.size() == 1);
  ScenarioMaker(options, &scenario).Run();
  return scenario;
}

}  // namespace shardscope::golden
