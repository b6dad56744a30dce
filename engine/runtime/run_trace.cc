#include "engine/runtime/run_trace.h"

#include <fmt/format.h>
#include <unistd.h>

#include <thread>

#include "engine/runtime/memory/memory_pool.h"
#include "engine/runtime/setup.h"
#include "trace/base/mutex.h"
#include "trace/base/process.h"
#include "trace/base/time.h"
#include "trace/base/trace_keys.h"
#include "trace/base/version.h"

namespace shardscope::runtime {
namespace {

constexpr const char* kUnrecordedNote =
    "this step is not recorded, to measure what recording costs (record.measure_overhead)";

record::RecorderOptions RecorderOptionsOf(const TrainerOptions& options,
                                          const RunTrace::Identity& identity,
                                          const RunFolder& folder, Ranks* ranks) {
  const int num_cores = static_cast<int>(std::thread::hardware_concurrency());  // 0 = unknown
  record::RecorderOptions recorder;
  recorder.run_folder = folder.path();
  recorder.meta = {
      {std::string(trace_keys::kRunId), identity.run_id},
      {"name", folder.name()},
      {"tool_version", kVersion},
      {"host", HostName()},
      {"model", ModelText(ranks->job())},
      {std::string(trace_keys::kNumRanks), std::to_string(ranks->size())},
      {std::string(trace_keys::kNumCores), std::to_string(num_cores)},
      {"device", std::string(Name(options.device->kind()))},
      {"truth", std::string(words::Name(ranks->transport().capabilities().truth))},
      {std::string(trace_keys::kContended), options.device->is_contended() ? "true" : "false"}};
  if (const Job& job = ranks->job(); job.num_trained < job.num_parameters) {
    recorder.meta[std::string(trace_keys::kParameters)] = std::to_string(job.num_parameters);
    recorder.meta[std::string(trace_keys::kTrainedParameters)] = std::to_string(job.num_trained);
    recorder.meta[std::string(trace_keys::kSparedGradientBytes)] =
        std::to_string(job.spared.gradient_bytes);
    recorder.meta[std::string(trace_keys::kSparedOptimizerBytes)] =
        std::to_string(job.spared.optimizer_bytes);
  }
  if (identity.resumed) {
    recorder.meta[std::string(trace_keys::kResumedRun)] = identity.resumed->run_id;
    recorder.meta[std::string(trace_keys::kResumedStep)] = std::to_string(identity.resumed->step);
    recorder.meta[std::string(trace_keys::kResumedFrom)] = identity.resumed->folder;
  }
  recorder.config = options.config.Values();
  recorder.config.insert(options.environment.begin(), options.environment.end());
  recorder.max_bytes = options.config.GetInt("record.max_bytes");
  return recorder;
}

}  // namespace

RunTrace::RunTrace(const TrainerOptions& options, Ranks* ranks)
    : options_(options),
      device_(*options.device),
      ranks_(*ranks),
      overhead_(OverheadSteps(options.config), ranks->size()),
      step_start_ns_(static_cast<size_t>(ranks->size())),
      is_recording_(static_cast<size_t>(ranks->size()), 1),
      copy_bytes_(static_cast<size_t>(ranks->size())) {}

RunTrace::~RunTrace() { device_.SetRecorder(nullptr); }

Result<std::unique_ptr<RunTrace>> RunTrace::Open(const TrainerOptions& options,
                                                 const Identity& identity, const RunFolder& folder,
                                                 Ranks* ranks) {
  Result<std::unique_ptr<record::Recorder>> recorder =
      record::Recorder::Open(RecorderOptionsOf(options, identity, folder, ranks));
  if (!recorder.ok()) return recorder.status();
  std::unique_ptr<RunTrace> trace(new RunTrace(options, ranks));
  trace->recorder_ = std::move(recorder).value();
  const transport::Capabilities& capabilities = ranks->transport().capabilities();
  trace->sink_ = std::make_unique<executor::TraceSink>(
      trace->recorder_.get(), executor::CollectiveInfo{capabilities.name, capabilities.truth,
                                                       std::string(Name(options.device->kind()))});
  trace->AddRun(folder);
  trace->AddPersistentMemory();
  return trace;
}

void RunTrace::AddRun(const RunFolder& folder) {
  for (const int rank : ranks_.local()) {
    recorder_->Add(schema::RankRow{
        .rank = rank, .host = HostName(), .pid = getpid(), .device = device_.name()});
  }
  const auto add = [&](const DeviceCapability& one) {
    Add(one);
    if (is_leader() && !one.reason.empty()) folder.Log(one.source + ": " + one.reason);
  };
  for (const DeviceCapability& one : options_.capabilities) add(one);
  device_.SetOpIds({.plan_op = [this](const auto& context) { return sink_->PlanOpOf(context); },
                    .track = [this](const auto& context) { return sink_->TrackOf(context); }});
  device_.SetRecorder(recorder_.get());
  for (const DeviceCapability& one : device_.Capabilities()) add(one);
}

void RunTrace::AddPersistentMemory() {
  const int64_t now_ns = MonotonicNs();
  for (const int rank : ranks_.local()) AddState(rank, ranks_.work(rank).layout(), 1, now_ns);
  sink_->OnMemoryOutsideOps(ranks_.first_local(), plan::MemoryCategory::kOther, "rotary table",
                            ranks_.shared_tensor_bytes(), now_ns);
}

void RunTrace::MoveState(int rank, const StateLayout& from, const StateLayout& to) {
  const int64_t now_ns = MonotonicNs();
  AddState(rank, from, -1, now_ns);
  AddState(rank, to, 1, now_ns);
}

void RunTrace::AddState(int rank, const StateLayout& layout, int sign, int64_t time_ns) {
  for (const plan::Buffer& buffer : layout.buffers) {
    if (!layout.Has(rank, buffer.unit)) continue;
    const plan::Unit& unit = layout.units[static_cast<size_t>(buffer.unit)];
    const int64_t gap_bytes = GapBytes(UnitLayout(unit, layout.shard_ranks()), buffer);
    sink_->OnMemoryOutsideOps(rank, plan::MemoryCategoryOf(buffer.kind), unit.name,
                              sign * buffer.bytes, time_ns);
    if (gap_bytes == 0) continue;
    sink_->OnMemoryOutsideOps(rank, plan::MemoryCategory::kOther, unit.name, sign * gap_bytes,
                              time_ns);
  }
}

bool RunTrace::HasSchedule(const plan::Schedule& schedule) const {
  const MutexLock lock(mutex_);
  return schedule_ids_.contains(&schedule);
}

int64_t RunTrace::AddSchedule(const plan::Schedule& schedule,
                              const executor::PredictedPeaks& predicted) {
  const MutexLock lock(mutex_);
  const auto number = static_cast<int64_t>(schedule_ids_.size());
  schedule_ids_[&schedule] = sink_->RegisterSchedule(schedule, ranks_.local(), predicted);
  return number;
}

void RunTrace::Mark(int64_t step, words::MarkerKind kind, const ChangedKey& change) {
  if (!is_leader() && kind != words::MarkerKind::kError) return;
  schema::MarkerRow row;
  row.time_ns = MonotonicNs();
  row.step = step;
  row.kind = words::Name(kind);
  row.key = change.key;
  row.old_value = change.old_value;
  row.new_value = change.new_value;
  recorder_->Add(std::move(row));
}

void RunTrace::Add(const DeviceCapability& capability, int64_t dropped) {
  recorder_->Add(
      schema::CapabilityRowOf(capability.source, capability.status, capability.reason, dropped));
}

bool RunTrace::BeginWindow(int rank, int64_t step, const config::StepWindow& window) {
  const auto index = static_cast<size_t>(rank);
  const bool is_in_window = step >= window.begin && step < window.end;
  const bool is_unrecorded = is_in_window && IsUnrecorded(step);
  const char wanted = is_in_window && !is_unrecorded ? 1 : 0;
  if (wanted == is_recording_[index]) return false;
  is_recording_[index] = wanted;
  if (rank == ranks_.first_local()) {
    device_.SetRecording(!is_unrecorded);
    recorder_->SetWindow(wanted == 1);
    if (is_unrecorded) Mark(step, words::MarkerKind::kNote, {.new_value = kUnrecordedNote});
  }
  return true;
}

void RunTrace::EndMeasuredStep(int rank, const OverheadMeter::Moment& now) {
  if (const auto row = overhead_.End(rank, now)) recorder_->Add(*row);
}

void RunTrace::BeginMeasuredStep(int rank, const OverheadMeter::Moment& now) {
  overhead_.Begin(rank, now, is_recording_[static_cast<size_t>(rank)] == 1);
}

void RunTrace::EndPause(int rank, int64_t step, std::string_view cause) {
  const auto index = static_cast<size_t>(rank);
  const int64_t start_ns = std::exchange(step_start_ns_[index], MonotonicNs());
  if (step == ranks_.job().first_step || is_recording_[index] == 0) return;
  recorder_->Add(schema::PauseRow{.rank = rank,
                                  .step = step,
                                  .cause = std::string(cause),
                                  .start_ns = start_ns,
                                  .end_ns = step_start_ns_[index]});
}

void RunTrace::AddEvaluation(int rank, int64_t step, const plan::Schedule& schedule,
                             const EvaluationTimes& evaluation) {
  schema::EvaluationRow row;
  row.rank = rank;
  row.step = step;
  {
    const MutexLock lock(mutex_);
    row.schedule = schedule_ids_.at(&schedule);
  }
  row.first_batch = evaluation.first_batch;
  row.batches = evaluation.batches;
  row.start_ns = evaluation.start_ns;
  row.end_ns = evaluation.end_ns;
  row.tokens = evaluation.tokens;
  row.loss = evaluation.loss;
  recorder_->Add(row);
}

void RunTrace::SetCopyBytes(int rank, int64_t bytes, bool is_on_host) {
  if (is_on_host || !device_.copies_take_memory()) bytes = 0;
  int64_t& counted = copy_bytes_[static_cast<size_t>(rank)];
  if (bytes == counted) return;
  sink_->OnMemoryOutsideOps(rank, plan::MemoryCategory::kOther, "checkpoint copy", bytes - counted,
                            MonotonicNs());
  counted = bytes;
}

schema::StepRow RunTrace::AddStep(int rank, int64_t step, const plan::Schedule& schedule,
                                  int64_t first_issue_ns) {
  AddStepMemory(rank);
  const StepOutcome& outcome = ranks_.work(rank).outcome();
  schema::StepRow row;
  row.rank = rank;
  row.step = step;
  {
    const MutexLock lock(mutex_);
    row.schedule = schedule_ids_.at(&schedule);
  }
  row.end_ns = ranks_.runner(rank).last_end_ns();
  const int64_t start_ns = std::exchange(step_start_ns_[static_cast<size_t>(rank)], row.end_ns);
  row.start_ns = step == ranks_.job().first_step ? first_issue_ns : start_ns;
  row.tokens = outcome.tokens;
  row.loss = outcome.loss;
  row.grad_norm = outcome.grad_norm;
  recorder_->Record(row);
  if (rank == 0) AddRates(step, outcome, row.end_ns);
  return row;
}

// All ranks have the same.
void RunTrace::AddRates(int64_t step, const StepOutcome& outcome, int64_t time_ns) {
  const bool has_scaler = ranks_.job().training.scaler.is_on;
  sink_->OnStepRates(0, outcome.learning_rate, has_scaler ? outcome.loss_scale : 0, time_ns);
  if (!outcome.found_inf) return;
  Mark(step, words::MarkerKind::kSkip,
       {.key = "scaler",
        .old_value = fmt::format("{}", outcome.loss_scale),
        .new_value = fmt::format("{}", ranks_.work(0).scaler().scale)});
}

void RunTrace::AddStepMemory(int rank) {
  RankWork& bodies = ranks_.work(rank);
  executor::StepMemory memory;
  memory.time_ns = ranks_.runner(rank).last_end_ns();
  if (const int64_t bytes = bodies.EndStep(); bytes != 0) {
    sink_->OnMemoryOutsideOps(rank, plan::MemoryCategory::kOther, "unaccounted", bytes,
                              memory.time_ns);
  }
  const int64_t copy_bytes = copy_bytes_[static_cast<size_t>(rank)];
  memory.allocated_bytes = bodies.allocated_bytes() + copy_bytes;
  memory.reserved_bytes = bodies.reserved_bytes() + copy_bytes;
  // To ask the driver takes time: not in a step that is not recorded.
  if (is_recording_[static_cast<size_t>(rank)] == 1) {
    memory.device_used_bytes = bodies.device_used_bytes();
  }
  // Memory that all ranks of the process share is counted at one.
  if (rank == ranks_.first_local()) {
    memory.allocated_bytes += ranks_.shared_tensor_bytes();
    memory.reserved_bytes += ranks_.shared_tensor_bytes();
    memory.resident_bytes = ResidentBytes();
  }
  sink_->OnStepMemory(rank, memory);
}

Status RunTrace::CheckWriter(const std::function<void(const std::string& text)>& on_message) {
  const Status status = recorder_->WriterStatus();
  if (status.ok() || has_warned_) return Status::Ok();
  if (stops_on_error()) {
    return Status::Error("the trace cannot be written, and record.on_error=stop: " +
                         status.message());
  }
  has_warned_ = true;
  on_message("the trace cannot be written, training goes on without it: " + status.message());
  return Status::Ok();
}

Status RunTrace::Finish() {
  device_.SetRecorder(nullptr);
  return recorder_->Finish();
}

int64_t RunTrace::NumDropped() const {
  int64_t dropped = 0;
  for (const auto& [source, records] : recorder_->Dropped()) dropped += records;
  return dropped;
}

}  // namespace shardscope::runtime
