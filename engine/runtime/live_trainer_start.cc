// How a run begins: checks, ranks, control socket, run folder, trace.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <variant>

#include "engine/runtime/live_trainer.h"
#include "trace/base/process.h"
#include "trace/base/text.h"
#include "trace/base/time.h"
#include "trace/base/units.h"

namespace shardscope::runtime {

Status Trainer::CheckFiles(const TrainerOptions& options) {
  if (!options.is_leader()) return Status::Ok();
  SHARDSCOPE_RETURN_IF_ERROR(RunFolder::CheckFree(options.folder, options.if_taken));
  SHARDSCOPE_RETURN_IF_ERROR(RunCheckpoints::CheckPath(options.config));
  return CheckDumpPath(options.dump_path);
}

void Trainer::TellOthers(const config::Launch& launch, const std::string& why) {
  transport::StayAway(GlooProcessOf(launch), why);
}

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

void LiveTrainer::DiscardFolder() {
  control_.reset();  // a request that comes later would be logged there
  if (is_leader() && folder_) folder_->Discard();
}

Status LiveTrainer::Open(Job job) {
  const config::Config& config = options_.config;
  // First of all: an error after it can be told to the other processes.
  std::unique_ptr<transport::Transport> transport =
      options_.device->MakeTransport(config, options_.launch);
  job.keep_batches = !options_.dump_path.empty();
  job.explain_out_of_memory = [this](int64_t wanted_bytes) {
    return checks_->ExplainOutOfMemory(steering_ == nullptr ? options_.config : steering_->config(),
                                       wanted_bytes);
  };
  if (options_.launch) job.only_rank = options_.launch->rank;
  Status fits = CheckFiles(options_);
  if (fits.ok()) fits = checkpoints_.OpenResume(&job);
  if (fits.ok()) fits = options_.device->CheckFits(job);
  if (!fits.ok()) {
    transport->Abort(fits.message());
    return fits;
  }
  observer_ = std::make_unique<StepObserver>(job.training.num_ranks);
  messages_ = std::make_unique<RunMessages>(options_, folder_, job.training.num_ranks);
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
  const auto say = [this](const std::string& text) { messages_->Say(text); };
  evaluations_ = std::make_unique<EvaluationRunner>(ranks_.get());
  checks_ = std::make_unique<RunChecks>(ranks_.get(), checkpoints_, evaluations_.get());
  SHARDSCOPE_RETURN_IF_ERROR(checks_->CheckStart(options_.config));
  SHARDSCOPE_RETURN_IF_ERROR(CheckOverheadSteps(options_.config));
  const int64_t begin_ns = MonotonicNs();
  ranks_->AddRanks(observer_.get());
  const int64_t loading_ns = MonotonicNs() - begin_ns;
  const auto num_ranks = static_cast<size_t>(ranks_->size());
  of_rank_.resize(num_ranks);
  for (const int rank : ranks_->local()) {
    ranks_->work(rank).set_on_control([this, rank](int64_t step) { AtControl(rank, step); });
  }
  SHARDSCOPE_RETURN_IF_ERROR(checkpoints_.LoadResume(ranks_.get()));
  SHARDSCOPE_RETURN_IF_ERROR(OpenFolder());
  if (is_leader()) SHARDSCOPE_RETURN_IF_ERROR(checkpoints_.OpenFolder(*folder_));
  SHARDSCOPE_RETURN_IF_ERROR(OpenControl());
  agreement_ =
      std::make_unique<RunAgreement>(options_, RunAgreement::Run{.ranks = ranks_.get(),
                                                                 .steering = steering_.get(),
                                                                 .checks = checks_.get(),
                                                                 .on_message = say});
  SHARDSCOPE_RETURN_IF_ERROR(agreement_->AgreeOnRun(&folder_));
  if (!is_leader()) SHARDSCOPE_RETURN_IF_ERROR(checkpoints_.OpenFolder(*folder_));
  SHARDSCOPE_RETURN_IF_ERROR(OpenTrace());
  if (is_leader() && ranks_->job().weights != nullptr && !checkpoints_.resumed_from()) {
    messages_->Log("weights were read in " + FormatDuration(loading_ns));
  }
  evaluations_->Start(
      {.trace = trace_.get(),
       .observer = observer_.get(),
       .steering = steering_.get(),
       .on_schedule = [this](const Regime& regime) { return RegisterSchedule(regime); },
       .on_message = say});
  measured_ = std::make_unique<MeasuredKeys>(
      options_.config, ranks_.get(),
      MeasuredKeys::Listeners{
          .steering = steering_.get(),
          .write_config = [this](config::Config config) { return WriteConfig(std::move(config)); },
          .on_message = say});
  checkpoints_.Start({.id = agreement_->run_id(),
                      .ranks = ranks_.get(),
                      .trace = trace_.get(),
                      .bounds_with_copy =
                          [this](const plan::Schedule& schedule) {
                            return checks_->BoundsOf(schedule, /*has_copy=*/true);
                          },
                      .on_message = say});
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
  messages_->Say(fmt::format("listed changes that never apply, as the last step is {}: {}",
                             steps - 1, Join(idle, ", ")));
}

Status LiveTrainer::OpenControl() {
  std::string name = options_.config.Get("run.name");
  if (name.empty() && is_leader()) name = folder_->name();
  steering_ = std::make_unique<Steering>(
      options_.config, name,
      [this](const config::Config& before, const config::Config& after) {
        return checks_->CheckChange(before, after);
      },
      ranks_->job().first_step);
  if (!is_leader()) return Status::Ok();
  Result<std::unique_ptr<config::ControlServer>> control =
      config::ControlServer::Listen(name, [this](const config::Request& request) {
        config::Response response = steering_->Handle(request);
        const bool is_change = std::holds_alternative<config::SetRequest>(request.body);
        if (is_change && !response.ok) messages_->Say("change refused: " + response.error);
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
  return Status::Ok();
}

Status LiveTrainer::OpenTrace() {
  const RunTrace::Identity identity{.run_id = agreement_->run_id(),
                                    .resumed = checkpoints_.resumed_from()};
  Result<std::unique_ptr<RunTrace>> trace =
      RunTrace::Open(options_, identity, *folder_, ranks_.get());
  if (!trace.ok()) return trace.status();
  trace_ = std::move(trace).value();
  observer_->set_next(trace_->sink());
  if (is_leader()) messages_->Log("run starts: " + ModelText(ranks_->job()));
  SayIdleChanges();
  return Status::Ok();
}

}  // namespace shardscope::runtime
