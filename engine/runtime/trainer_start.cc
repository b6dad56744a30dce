// How a run begins: checks, ranks, control socket, run folder, trace.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "engine/plan/memory.h"
#include "engine/plan/policy.h"
#include "engine/plan/text.h"
#include "engine/runtime/live_trainer.h"
#include "engine/runtime/memory/resident_memory.h"
#include "engine/runtime/memory/unlisted_memory.h"
#include "engine/runtime/ranks/faulty_bodies.h"
#include "trace/base/host.h"
#include "trace/base/shortage.h"
#include "trace/base/text.h"
#include "trace/base/time.h"
#include "trace/base/units.h"
#include "trace/base/version.h"

namespace shardscope::runtime {
namespace {

std::string ModelText(const Job& job) {
  int64_t elements = 0;
  for (const plan::Unit& unit : job.description.units) elements += plan::UnitElements(unit);
  return fmt::format("decoder over bytes, {} blocks, dim {}, {} heads, seq {}: {} parameters",
                     job.model.layers, job.model.dim, job.model.heads, job.model.seq, elements);
}

}  // namespace

Result<std::unique_ptr<Trainer>> Trainer::Start(TrainerOptions options, Job job) {
  auto trainer = std::make_unique<LiveTrainer>(std::move(options));
  Status status;
  try {
    status = trainer->Open(std::move(job));
  } catch (const std::exception& error) {
    status = Status::Error(ErrorText(error));
  }
  if (status.ok()) return std::unique_ptr<Trainer>(std::move(trainer));
  trainer->DiscardFolder();
  return status;
}

void LiveTrainer::DiscardFolder() const {
  if (is_leader() && folder_) folder_->Discard();
}

Status LiveTrainer::CheckFiles() const {
  if (!is_leader()) return Status::Ok();
  SHARDSCOPE_RETURN_IF_ERROR(RunFolder::CheckFree(options_.folder, options_.if_taken));
  return CheckDumpPath(options_.dump_path);
}

Status LiveTrainer::Open(Job job) {
  const config::Config& config = options_.config;
  // First of all: an error after it can be told to the other processes.
  std::unique_ptr<transport::Transport> transport =
      options_.device->MakeTransport(config, options_.launch);
  job.keep_batches = !options_.dump_path.empty();
  if (options_.launch) job.only_rank = options_.launch->rank;
  Status fits = CheckFiles();
  if (fits.ok()) fits = options_.device->CheckFits(job);
  if (!fits.ok()) {
    transport->Abort(fits.message());
    return fits;
  }
  observer_ = std::make_unique<StepObserver>(job.training.num_ranks);
  reports_ = std::make_unique<StepReports>(job.training.num_ranks);
  if (!options_.dump_path.empty()) dump_.emplace(options_.dump_path);
  Result<std::unique_ptr<Ranks>> ranks =
      Ranks::Make(std::move(job), std::move(transport), observer_.get(), options_.device);
  if (!ranks.ok()) return ranks.status();
  ranks_ = std::move(ranks).value();
  const Status status = OpenRest();
  if (!status.ok()) ranks_->transport().Abort(status.message());
  return status;
}

Status LiveTrainer::OpenRest() {
  schedules_ = std::make_unique<ScheduleCache>(ranks_->job().description);
  SHARDSCOPE_RETURN_IF_ERROR(CheckChanges());
  SHARDSCOPE_RETURN_IF_ERROR(config::CheckCostSteps(options_.config));
  costs_ = std::make_unique<CostMeter>(config::CostSteps(options_.config), ranks_->size());
  const auto num_ranks = static_cast<size_t>(ranks_->size());
  next_regime_.resize(num_ranks);
  step_start_ns_.resize(num_ranks);
  is_recording_.resize(num_ranks, 1);
  entered_.resize(num_ranks);
  for (const int rank : ranks_->local()) {
    ranks_->bodies(rank).set_on_control([this, rank](int64_t step) { AtControl(rank, step); });
  }
  SHARDSCOPE_RETURN_IF_ERROR(OpenFolder());
  SHARDSCOPE_RETURN_IF_ERROR(OpenControl());
  SHARDSCOPE_RETURN_IF_ERROR(AgreeOnRun());
  return OpenRecorder();
}

Result<std::shared_ptr<const plan::Schedule>> LiveTrainer::ScheduleOf(
    const config::Config& config) const {
  Result<std::shared_ptr<const plan::Schedule>> schedule =
      schedules_->Get(config::ToPolicy(config));
  if (!schedule.ok()) return schedule;
  const int64_t limit_bytes = config.GetInt("engine.memory_limit");
  const int64_t needed_bytes = limit_bytes > 0 ? BoundOf(**schedule) : 0;
  if (needed_bytes > limit_bytes) {
    return Status::Error(fmt::format(
        "schedule '{}' can need {} on a rank ({} in the order of the host), engine.memory_limit is "
        "{}: raise the limit, prefetch less, let the host run less far ahead, reshard after "
        "forward, or use more ranks",
        (*schedule)->name, FormatBytes(needed_bytes),
        FormatBytes(plan::PredictLargestPeak(**schedule)), FormatBytes(limit_bytes)));
  }
  return schedule;
}

int64_t LiveTrainer::BoundOf(const plan::Schedule& schedule) const {
  return plan::BoundLargestPeak(schedule, UnlistedMemory(ranks_->job(), ranks_->transport()));
}

Status LiveTrainer::CheckRun(const config::Config& before, const config::Config& after) const {
  const auto is_sharded = [](const config::Config& config) {
    return plan::FindStrategy(config.Get("strategy"))->shards_parameters;
  };
  if (is_sharded(before) != is_sharded(after)) {
    return Status::Error(fmt::format(
        "strategy cannot change from {} to {} while the run trains: parameters and optimizer "
        "state would have to move; start a new run with it",
        before.Get("strategy"), after.Get("strategy")));
  }
  return ScheduleOf(after).status();
}

Status LiveTrainer::CheckChanges() const {
  const Result<std::shared_ptr<const plan::Schedule>> schedule = ScheduleOf(options_.config);
  if (!schedule.ok()) return schedule.status();
  if (const auto fault = config::GetFault(options_.config)) {
    SHARDSCOPE_RETURN_IF_ERROR(CheckFault(*fault, **schedule));
  }
  config::Config at_step = options_.config;
  at_step.ClearChanges();  // copied with every change otherwise
  for (const config::Change& change : options_.config.changes()) {
    const config::Config before = at_step;
    SHARDSCOPE_RETURN_IF_ERROR(config::ApplyLive(change.set, &at_step));
    const Status status = CheckRun(before, at_step);
    if (!status.ok()) {
      return Status::Error(fmt::format("change at step {}: {}", change.step, status.message()));
    }
  }
  return Status::Ok();
}

void LiveTrainer::SayIdleChanges() {
  constexpr size_t kNamed = 3;
  const int64_t steps = ranks_->job().training.steps;
  std::vector<std::string> idle;
  for (const config::Change& change : options_.config.changes()) {
    if (change.step < steps) continue;
    for (const auto& [key, value] : change.set) {
      idle.push_back(fmt::format("step {} ({}={})", change.step, key, value));
    }
  }
  if (idle.empty()) return;
  const size_t num_more = idle.size() - std::min(idle.size(), kNamed);
  idle.resize(idle.size() - num_more);
  if (num_more > 0) idle.push_back(fmt::format("and {} more", num_more));
  Message(fmt::format("listed changes that never apply, as the last step is {}: {}", steps - 1,
                      Join(idle, ", ")));
}

Status LiveTrainer::OpenControl() {
  std::string name = options_.config.Get("run.name");
  if (name.empty() && is_leader()) name = folder_->name();
  steering_ = std::make_unique<Steering>(
      options_.config, name, [this](const config::Config& before, const config::Config& after) {
        return CheckRun(before, after);
      });
  if (!is_leader()) return Status::Ok();
  Result<std::unique_ptr<config::ControlServer>> control = config::ControlServer::Listen(
      name, [this](const config::Request& request) { return steering_->Handle(request); });
  if (!control.ok()) return control.status();
  control_ = std::move(control).value();
  return WriteConfig(options_.config);
}

Status LiveTrainer::WriteConfig(config::Config config) const {
  config.SetControlSocket(control_->socket_path());
  return folder_->WriteConfig(config::PrintToml(config));
}

Status LiveTrainer::OpenFolder() {
  if (!is_leader()) return Status::Ok();
  Result<RunFolder> folder = RunFolder::Create(options_.folder, options_.if_taken);
  if (!folder.ok()) return folder.status();
  folder_ = std::move(folder).value();
  run_id_ = fmt::format("{}-{:x}", folder_->name(), RealtimeNs());
  return Status::Ok();
}

Status LiveTrainer::OpenRecorder() {
  const Job& job = ranks_->job();
  const transport::Capabilities& capabilities = ranks_->transport().capabilities();
  const int num_cores = static_cast<int>(std::thread::hardware_concurrency());  // 0 = unknown
  const Device& device = *options_.device;
  record::RecorderOptions options;
  options.run_folder = folder_->path();
  options.meta = {{"run_id", run_id_},
                  {"name", folder_->name()},
                  {"tool_version", kVersion},
                  {"host", HostName()},
                  {"model", ModelText(job)},
                  {"num_ranks", std::to_string(ranks_->size())},
                  {"num_cores", std::to_string(num_cores)},
                  {"device", device.kind()},
                  {"truth", capabilities.truth},
                  {"contended", device.is_contended() ? "true" : "false"}};
  options.config = options_.config.Values();
  options.config.insert(options_.environment.begin(), options_.environment.end());
  options.max_bytes = options_.config.GetInt("record.max_bytes");
  options.stop_on_error = options_.config.Get("record.on_error") == "stop";
  Result<std::unique_ptr<record::Recorder>> recorder = record::Recorder::Open(options);
  if (!recorder.ok()) return recorder.status();
  recorder_ = std::move(recorder).value();
  trace_ = std::make_unique<executor::TraceSink>(
      recorder_.get(),
      executor::CollectiveInfo{capabilities.name, capabilities.truth, device.kind()});
  observer_->set_next(trace_.get());
  for (const int rank : ranks_->local()) {
    recorder_->Add(schema::RankRow{
        .rank = rank, .host = HostName(), .pid = getpid(), .device = device.name()});
  }
  OpenDeviceTrace();
  RecordPersistentMemory();
  if (is_leader()) folder_->Log("run starts: " + ModelText(job));
  SayIdleChanges();
  return Status::Ok();
}

void LiveTrainer::OpenDeviceTrace() {
  const auto add = [this](const DeviceCapability& one) {
    recorder_->Add(
        schema::CapabilityRow{.source = one.source, .status = one.status, .reason = one.reason});
    if (is_leader() && !one.reason.empty()) folder_->Log(one.source + ": " + one.reason);
  };
  for (const DeviceCapability& one : options_.capabilities) add(one);
  options_.device->SetOpIds(
      {.plan_op = [this](const auto& context) { return trace_->PlanOpOf(context); },
       .track = [this](const auto& context) { return trace_->TrackOf(context); }});
  options_.device->SetRecorder(recorder_.get());
  for (const DeviceCapability& one : options_.device->Capabilities()) add(one);
}

void LiveTrainer::RecordPersistentMemory() {
  const int64_t now_ns = MonotonicNs();
  const std::vector<plan::Unit>& units = ranks_->job().description.units;
  for (const int rank : ranks_->local()) {
    for (size_t unit = 0; unit < units.size(); ++unit) {
      const int64_t bytes = ranks_->bodies(rank).unit(unit).shard_bytes();
      const std::string& name = units[unit].name;
      trace_->OnMemoryOutsideOps(rank, plan::MemoryCategory::kParameterShard, name, bytes, now_ns);
      trace_->OnMemoryOutsideOps(rank, plan::MemoryCategory::kGradientShard, name, bytes, now_ns);
      trace_->OnMemoryOutsideOps(rank, plan::MemoryCategory::kOptimizer, name, 2 * bytes, now_ns);
    }
  }
  trace_->OnMemoryOutsideOps(ranks_->first_local(), plan::MemoryCategory::kOther, "rotary table",
                             ranks_->shared_tensor_bytes(), now_ns);
}

// Any rank's host thread, after its step.
void LiveTrainer::RecordMemory(int rank) {
  RankWork& bodies = ranks_->bodies(rank);
  executor::StepMemory memory;
  memory.time_ns = ranks_->executor(rank).last_end_ns();
  if (const int64_t bytes = bodies.EndStep(); bytes != 0) {
    trace_->OnMemoryOutsideOps(rank, plan::MemoryCategory::kOther, "unaccounted", bytes,
                               memory.time_ns);
  }
  memory.allocated_bytes = bodies.allocated_bytes();
  memory.reserved_bytes = bodies.reserved_bytes();
  // To ask the driver takes time: not in a step that is not recorded.
  if (is_recording_[static_cast<size_t>(rank)] == 1) {
    memory.device_used_bytes = bodies.device_used_bytes();
  }
  // Memory that all ranks of the process share is counted at one.
  if (rank == ranks_->first_local()) {
    memory.allocated_bytes += ranks_->shared_tensor_bytes();
    memory.reserved_bytes += ranks_->shared_tensor_bytes();
    memory.resident_bytes = ResidentBytes();
  }
  trace_->OnStepMemory(rank, memory);
}

}  // namespace shardscope::runtime
