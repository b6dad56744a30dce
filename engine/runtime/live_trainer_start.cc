// How a run begins: checks, ranks, control socket, run folder, trace.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <variant>

#include "engine/footprint/footprint.h"
#include "engine/footprint/unlisted_memory.h"
#include "engine/plan/memory.h"
#include "engine/plan/policy.h"
#include "engine/plan/text.h"
#include "engine/runtime/live_trainer.h"
#include "engine/runtime/ranks/faulty_bodies.h"
#include "engine/runtime/units/state_move.h"
#include "trace/base/process.h"
#include "trace/base/text.h"
#include "trace/base/time.h"
#include "trace/base/version.h"

namespace shardscope::runtime {
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
  job.explain_out_of_memory = [this](int64_t wanted_bytes) {
    return ExplainOutOfMemory(wanted_bytes);
  };
  if (options_.launch) job.only_rank = options_.launch->rank;
  Status fits = CheckFiles();
  if (fits.ok()) fits = checkpoints_.OpenResume(&job);
  if (fits.ok()) fits = options_.device->CheckFits(job);
  if (!fits.ok()) {
    transport->Abort(fits.message());
    return fits;
  }
  observer_ = std::make_unique<StepObserver>(job.training.num_ranks);
  reports_ = std::make_unique<StepReports>(job.training.num_ranks);
  Result<std::unique_ptr<Ranks>> ranks =
      Ranks::Prepare(std::move(job), std::move(transport), options_.device);
  if (!ranks.ok()) return ranks.status();
  ranks_ = std::move(ranks).value();
  if (!options_.dump_path.empty()) dump_.emplace(options_.dump_path, ranks_->job().model);
  Status status;
  try {
    status = OpenRest();
  } catch (const std::exception& error) {  // of weights that are read, or for want of memory
    status = Status::Error(ErrorText(error));
  }
  if (!status.ok()) ranks_->transport().Abort(status.message());
  return status;
}

Status LiveTrainer::OpenRest() {
  schedules_ = std::make_unique<ScheduleCache>([&job = ranks_->job()](const auto& units) {
    return model::DescribeModel(job.model, units, job.training.batch);
  });
  evaluations_ = std::make_unique<EvaluationRunner>(ranks_.get());
  SHARDSCOPE_RETURN_IF_ERROR(CheckChanges());
  SHARDSCOPE_RETURN_IF_ERROR(CheckOverheadSteps(options_.config));
  ranks_->AddRanks(observer_.get());
  const auto num_ranks = static_cast<size_t>(ranks_->size());
  of_rank_.resize(num_ranks);
  for (const int rank : ranks_->local()) {
    ranks_->work(rank).set_on_control([this, rank](int64_t step) { AtControl(rank, step); });
  }
  SHARDSCOPE_RETURN_IF_ERROR(checkpoints_.LoadResume(ranks_.get()));
  SHARDSCOPE_RETURN_IF_ERROR(OpenFolder());
  if (is_leader()) SHARDSCOPE_RETURN_IF_ERROR(checkpoints_.OpenFolder(*folder_));
  SHARDSCOPE_RETURN_IF_ERROR(OpenControl());
  SHARDSCOPE_RETURN_IF_ERROR(AgreeOnRun());
  if (!is_leader()) SHARDSCOPE_RETURN_IF_ERROR(checkpoints_.OpenFolder(*folder_));
  SHARDSCOPE_RETURN_IF_ERROR(OpenTrace());
  evaluations_->Start(
      {.trace = trace_.get(),
       .observer = observer_.get(),
       .steering = steering_.get(),
       .on_schedule = [this](const Regime& regime) { return RegisterSchedule(regime); },
       .on_message = [this](const std::string& text) { Message(text); }});
  measured_ = std::make_unique<MeasuredKeys>(
      options_.config, ranks_.get(),
      MeasuredKeys::Listeners{
          .steering = steering_.get(),
          .write_config = [this](config::Config config) { return WriteConfig(std::move(config)); },
          .on_message = [this](const std::string& text) { Message(text); }});
  checkpoints_.Start(
      {.id = run_id_,
       .ranks = ranks_.get(),
       .trace = trace_.get(),
       .bounds_with_copy =
           [this](const plan::Schedule& schedule) { return BoundsOf(schedule, /*has_copy=*/true); },
       .on_message = [this](const std::string& text) { Message(text); }});
  return Status::Ok();
}

Result<std::shared_ptr<const plan::Schedule>> LiveTrainer::ScheduleOf(const config::Config& config,
                                                                      bool reads) const {
  const plan::Policy policy = config::ToPolicy(config);
  SHARDSCOPE_RETURN_IF_ERROR(model::CheckUnits(ranks_->job().model, policy.units));
  const std::string& path = config.Get("schedule.file");
  if (path.empty()) return schedules_->Get(policy);
  auto written = schedules_->GetWritten(path, policy, reads);
  if (written.ok()) return written;
  return Status::Error(fmt::format(
      "schedule.file: {}; leave it empty (schedule.file=) to train with what strategy and prefetch "
      "give",
      written.message()));
}

Status LiveTrainer::CheckLimit(const config::Config& config, const plan::Schedule& schedule,
                               const footprint::Question& question) const {
  const int64_t limit_bytes = question.limit_bytes;
  if (limit_bytes == 0) return Status::Ok();
  const std::vector<int64_t> bounds = BoundsOf(schedule, checkpoints_.HasCopyWith(config));
  if (*std::ranges::max_element(bounds) <= limit_bytes) return Status::Ok();
  SHARDSCOPE_ASSIGN_OR_RETURN(const footprint::Footprint footprint, FootprintWith(config));
  return Status::Error(footprint::OutOfMemoryText(config, footprint, question));
}

std::string LiveTrainer::ExplainOutOfMemory(int64_t wanted_bytes) const {
  const config::Config config = steering_ == nullptr ? options_.config : steering_->config();
  const Result<footprint::Footprint> footprint = FootprintWith(config);
  if (!footprint.ok()) return footprint.message();
  // What the bound does not contain is there with other keys too.
  const int64_t unknown_bytes = std::max<int64_t>(0, wanted_bytes - footprint->needed_bytes());
  const footprint::Question question{.limit_bytes =
                                         config.GetInt("engine.memory_limit") - unknown_bytes};
  return footprint::PeakText(*footprint) + ". " +
         footprint::AdviceText(footprint::Advise(config, footprint->needed_bytes(), question),
                               question.limit_bytes);
}

Result<footprint::Footprint> LiveTrainer::FootprintWith(const config::Config& config) const {
  const auto copy = checkpoints_.HasCopyWith(config) ? footprint::CheckpointCopy::kThere
                                                     : footprint::CheckpointCopy::kIfWanted;
  if (config.Get("schedule.file").empty()) return footprint::FootprintOf(config, copy);
  SHARDSCOPE_ASSIGN_OR_RETURN(const auto written, ScheduleOf(config));
  return footprint::FootprintOf(config, copy, written.get());
}

std::vector<int64_t> LiveTrainer::BoundsOf(const plan::Schedule& schedule, bool has_copy) const {
  plan::Unlisted unlisted = ranks_->UnlistedMemory(schedule);
  if (has_copy) {
    unlisted = footprint::WithCheckpointCopy(std::move(unlisted), schedule, ranks_->job().master);
  }
  return plan::BoundPeaks(schedule, unlisted);
}

Status LiveTrainer::CheckEvaluation(const config::Config& config,
                                    const footprint::Question& question) {
  if (!evaluations_->HasData()) return Status::Ok();
  SHARDSCOPE_ASSIGN_OR_RETURN(const auto schedule, evaluations_->ScheduleOf(config));
  if (question.limit_bytes == 0) return Status::Ok();
  const std::vector<int64_t> bounds = BoundsOf(*schedule, checkpoints_.HasCopyWith(config));
  if (*std::ranges::max_element(bounds) <= question.limit_bytes) return Status::Ok();
  const auto footprint_of = [&](const config::Config& other) {
    return footprint::EvaluationFootprintOf(other, checkpoints_.HasCopyWith(other)
                                                       ? footprint::CheckpointCopy::kThere
                                                       : footprint::CheckpointCopy::kIfWanted);
  };
  SHARDSCOPE_ASSIGN_OR_RETURN(const footprint::Footprint footprint, footprint_of(config));
  // With what fits there is room for the steps, too.
  footprint::Question both = question;
  both.needed = [&](const config::Config& other) -> Result<int64_t> {
    SHARDSCOPE_ASSIGN_OR_RETURN(const int64_t needed_bytes, question.needed(other));
    SHARDSCOPE_ASSIGN_OR_RETURN(const footprint::Footprint evaluates, footprint_of(other));
    return std::max(needed_bytes, evaluates.needed_bytes());
  };
  return Status::Error(footprint::OutOfMemoryText(config, footprint, both) +
                       "; or leave eval.every out");
}

Status LiveTrainer::CheckRun(const config::Config& before, const config::Config& after) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const auto from, ScheduleOf(before));
  const std::string& path = after.Get("schedule.file");
  const bool is_other_file = path != before.Get("schedule.file");
  if (!path.empty() && !is_other_file && config::ToPolicy(before) != config::ToPolicy(after)) {
    return Status::Error(fmt::format(
        "that would change nothing: schedule.file={} says what is issued when; set schedule.file= "
        "(empty) too",
        path));
  }
  SHARDSCOPE_ASSIGN_OR_RETURN(const auto to, ScheduleOf(after, /*reads=*/is_other_file));
  const StateLayout layout_before = StateLayoutOf(*from);
  const auto bytes_of_move = [&](const plan::Schedule& schedule) -> int64_t {
    const StateLayout layout = StateLayoutOf(schedule);
    if (layout == layout_before) return 0;
    return BytesOfMove(layout_before, layout, ranks_->job().master);
  };
  const int64_t limit_bytes = after.GetInt("engine.memory_limit");
  footprint::Question question{.limit_bytes = limit_bytes, .only_live = true};
  question.needed = [&](const config::Config& config) -> Result<int64_t> {
    SHARDSCOPE_ASSIGN_OR_RETURN(const footprint::Footprint footprint, FootprintWith(config));
    return std::max(footprint.needed_bytes(), bytes_of_move(footprint.schedule));
  };
  SHARDSCOPE_RETURN_IF_ERROR(CheckLimit(after, *to, question));
  const int64_t needed_bytes = bytes_of_move(*to);
  if (limit_bytes == 0 || needed_bytes <= limit_bytes) {
    SHARDSCOPE_RETURN_IF_ERROR(CheckEvaluation(after, question));
    if (!path.empty()) schedules_->KeepWritten(path, to);
    return Status::Ok();
  }
  return Status::Error(
      footprint::StateMoveText(after, {from->name, to->name, needed_bytes}, question));
}

Status LiveTrainer::CheckChanges() {
  const Result<std::shared_ptr<const plan::Schedule>> schedule = ScheduleOf(options_.config);
  if (!schedule.ok()) return schedule.status();
  const footprint::Question question{.limit_bytes = options_.config.GetInt("engine.memory_limit")};
  SHARDSCOPE_RETURN_IF_ERROR(CheckLimit(options_.config, **schedule, question));
  SHARDSCOPE_RETURN_IF_ERROR(CheckEvaluation(options_.config, question));
  for (const config::Fault& fault : ranks_->job().faults) {
    SHARDSCOPE_RETURN_IF_ERROR(CheckFault(fault, **schedule));
  }
  config::Config at_step = options_.config;
  at_step.ClearChanges();  // copied with every change otherwise
  for (const config::Change& change : options_.config.changes()) {
    const config::Config before = at_step;
    Status status = config::ApplyLive(change.set, &at_step);
    if (status.ok()) status = CheckRun(before, at_step);
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
      options_.config, name,
      [this](const config::Config& before, const config::Config& after) {
        return CheckRun(before, after);
      },
      ranks_->job().first_step);
  if (!is_leader()) return Status::Ok();
  Result<std::unique_ptr<config::ControlServer>> control =
      config::ControlServer::Listen(name, [this](const config::Request& request) {
        config::Response response = steering_->Handle(request);
        const bool is_change = std::holds_alternative<config::SetRequest>(request.body);
        if (is_change && !response.ok) Message("change refused: " + response.error);
        return response;
      });
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
  if (options_.before_folder) options_.before_folder();
  Result<RunFolder> folder = RunFolder::Create(options_.folder, options_.if_taken);
  if (!folder.ok()) return folder.status();
  folder_ = std::move(folder).value();
  run_id_ = fmt::format("{}-{:x}", folder_->name(), RealtimeNs());
  return Status::Ok();
}

Status LiveTrainer::OpenTrace() {
  const RunTrace::Identity identity{.run_id = run_id_, .resumed = checkpoints_.resumed_from()};
  Result<std::unique_ptr<RunTrace>> trace =
      RunTrace::Open(options_, identity, *folder_, ranks_.get());
  if (!trace.ok()) return trace.status();
  trace_ = std::move(trace).value();
  observer_->set_next(trace_->sink());
  if (is_leader()) folder_->Log("run starts: " + ModelText(ranks_->job()));
  SayIdleChanges();
  return Status::Ok();
}

}  // namespace shardscope::runtime
