// How a run goes on from a checkpoint, and the checkpoints that it leaves.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "engine/checkpoint/folder.h"
#include "engine/model/huggingface.h"
#include "engine/runtime/checkpoint/load.h"
#include "engine/runtime/live_trainer.h"
#include "trace/base/text.h"
#include "trace/base/units.h"
#include "trace/base/version.h"

namespace shardscope::runtime {
namespace {

namespace fs = std::filesystem;

int NumTakers(const Job& job) { return job.initial_layout.mesh.SizeOf(plan::kDataDimensions); }

}  // namespace

Status LiveTrainer::OpenResume(Job* job) {
  const std::string& path = options_.config.Get("checkpoint.resume");
  if (path.empty()) return Status::Ok();
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::string folder,
                              checkpoint::FindCheckpoint(path, &resume_.notes));
  Result<checkpoint::Checkpoint> opened = checkpoint::Checkpoint::Open(folder);
  if (!opened.ok()) return opened.status();
  SHARDSCOPE_RETURN_IF_ERROR(CheckResume(*opened, options_.config, *job));
  resume_.from.emplace(std::move(opened).value());
  const checkpoint::Index& index = resume_.from->index();
  const model::Sampler::Shape shape = {
      .num_samples = model::NumSamples(job->corpus->num_tokens(), job->model.seq),
      .num_ranks = job->training.num_ranks,
      .samples_per_step = job->training.batch * job->training.micro_batches,
      .seed = job->training.seed};
  const std::string note = OtherDataNote(*resume_.from, options_.config, *job);
  if (!note.empty()) resume_.notes.push_back(note);
  job->first_step = index.step;
  job->data_start = DataStart(index, shape, NumTakers(*job), /*is_other_data=*/!note.empty());
  return Status::Ok();
}

Status LiveTrainer::LoadResume() {
  if (!resume_.from) return Status::Ok();
  Mutex mutex;
  std::set<std::string> missing;
  const Status status = ranks_->OnAll([&](int rank) {
    std::set<std::string> here;
    const Status loaded = LoadState(*resume_.from, rank, &ranks_->work(rank), &here);
    ranks_->work(rank).SetScalars(resume_.from->index().scalars);
    const MutexLock lock(mutex);
    missing.merge(here);
    return loaded;
  });
  SHARDSCOPE_RETURN_IF_ERROR(status);
  resume_.notes.push_back(fmt::format("goes on from {} with step {}", resume_.from->folder(),
                                      ranks_->job().first_step));
  if (!missing.empty()) {
    const std::vector<std::string> names(missing.begin(), missing.end());
    resume_.notes.push_back(fmt::format("{} has no {}: it starts from zero", resume_.from->folder(),
                                        Join(names, ", ")));
  }
  return Status::Ok();
}

Status LiveTrainer::OpenCheckpointFolder() {
  const std::string& path = options_.config.Get("checkpoint.path");
  std::error_code error;
  checkpoint_folder_.path =
      path.empty() ? folder_->checkpoints() : fs::absolute(path, error).lexically_normal().string();
  if (!is_leader()) return Status::Ok();
  fs::create_directories(checkpoint_folder_.path, error);
  if (!error && access(checkpoint_folder_.path.c_str(), W_OK | X_OK) != 0) {
    error = std::error_code(errno, std::generic_category());
  }
  if (error) {
    return Status::Error(
        fmt::format("cannot write checkpoints to {}: {}; name another folder with "
                    "checkpoint.path",
                    checkpoint_folder_.path, error.message()));
  }
  if (FolderLock::IsHeld(checkpoint_folder_.path)) {
    return Status::Error(checkpoint_folder_.path +
                         " has the checkpoints of a run that is training: name another folder with "
                         "checkpoint.path");
  }
  checkpoint_folder_.lock = FolderLock(checkpoint_folder_.path);
  std::vector<std::string> roots = {checkpoint_folder_.path};
  // What the run that this one goes on from left when it was killed.
  if (resume_.from) roots.push_back(fs::path(resume_.from->folder()).parent_path().string());
  for (const std::string& root : roots) {
    if (root != checkpoint_folder_.path && FolderLock::IsHeld(root)) continue;
    const int removed = checkpoint::RemovePartials(root);
    if (removed == 0) continue;
    resume_.notes.push_back(
        fmt::format("{} half written in {}: removed", Counted(removed, "checkpoint"), root));
  }
  return Status::Ok();
}

void LiveTrainer::OpenCheckpoints() {
  checkpoints_ = std::make_unique<CheckpointWriter>(
      CheckpointWriter::Options{.root = checkpoint_folder_.path,
                                .num_ranks = ranks_->size(),
                                .local = ranks_->local(),
                                .timeout_ns = ranks_->job().timeout_ns},
      CheckpointWriter::Listener{
          .on_part = [this](schema::CheckpointRow row) { trace_->Add(std::move(row)); },
          .on_outcome =
              [this](const CheckpointOutcome& outcome) {
                checkpoint_folder_.lost.reset();
                if (outcome.folder.empty()) {
                  checkpoint_folder_.lost = outcome;
                } else {
                  trace_->Mark(outcome.step, "checkpoint", {.new_value = outcome.folder});
                }
                Message(outcome.message);
              }});
  checkpoint_plan_.emplace(ranks_->job().first_step, ranks_->size());
  for (const std::string& note : resume_.notes) Message(note);
  resume_.from.reset();
}

// `regime`: in force before `step`.
CheckpointHead LiveTrainer::CheckpointHeadOf(int64_t step, const Regime& regime) {
  const model::Sampler& sampler = ranks_->sampler();
  const plan::Mesh& mesh = ranks_->work(0).layout().mesh;
  const int takers = mesh.SizeOf(plan::kDataDimensions);
  const model::Sampler::Position position = sampler.PositionOf(step, takers);
  CheckpointHead head;
  head.keep = regime.config.GetInt("checkpoint.keep");
  checkpoint::Index& index = head.index;
  index = {.step = step,
           .num_ranks = ranks_->size(),
           .tool_version = kVersion,
           .run = run_id_,
           .config = regime.config.Values(),
           .model = model::FieldsBesideKeys(ranks_->job().model),
           .scalars = ranks_->work(0).Scalars(),
           .data = {.seed = sampler.shape().seed,
                    .num_samples = sampler.shape().num_samples,
                    .num_takers = takers,
                    .samples_per_step = sampler.shape().samples_per_step,
                    .first_step = sampler.shape().start.step,
                    .first_epoch = sampler.shape().start.epoch,
                    .first_used = sampler.shape().start.used,
                    .epoch = position.epoch,
                    .used = position.used,
                    .tokenizer = ranks_->job().corpus->tokenizer,
                    .content = ranks_->job().corpus->content}};
  for (size_t at = 0; at < plan::kNumMeshDimensions; ++at) {
    const auto dimension = static_cast<plan::MeshDimension>(at);
    index.mesh[std::string(Name(dimension))] = mesh.size(dimension);
  }
  // Changes that apply later still will; the others are in force.
  config::Config config = regime.config;
  for (const config::Change& change : options_.config.changes()) {
    if (change.step > step) config.AddChange(change);
  }
  head.toml = config::PrintToml(config);
  return head;
}

void LiveTrainer::SaveCheckpoint(int rank, int64_t step, const Regime& regime) {
  std::optional<CheckpointHead> head;
  if (rank == 0) head = CheckpointHeadOf(step, regime);
  RankWork& work = ranks_->work(rank);
  checkpoints_->Save(rank, {&work.layout(), work.units(), step, RefuseCopy(rank, regime)},
                     std::move(head));
  if (checkpoints_->CopyBytes(rank) > 0) has_copies_ = true;
  trace_->SetCopyBytes(rank, checkpoints_->CopyBytes(rank), IsOffloaded(work.layout()));
  checkpoint_plan_->SetSaved(rank, step);
}

// With checkpoint.every there has been room for it from the start.
std::string LiveTrainer::RefuseCopy(int rank, const Regime& regime) const {
  const int64_t limit_bytes = regime.config.GetInt("engine.memory_limit");
  const bool has_room = regime.checkpoint_every > 0 || checkpoints_->CopyBytes(rank) > 0;
  if (limit_bytes == 0 || has_room || !options_.device->copies_take_memory()) return "";
  const plan::Schedule& schedule = *regime.schedule;
  const auto program = static_cast<size_t>(schedule.program_of_rank[static_cast<size_t>(rank)]);
  const int64_t needed_bytes = BoundsOf(schedule, /*has_copy=*/true)[program];
  if (needed_bytes <= limit_bytes) return "";
  return fmt::format("with a copy of its state it can need {}, engine.memory_limit is {}",
                     FormatBytes(needed_bytes), FormatBytes(limit_bytes));
}

void LiveTrainer::ReleaseCopy(int rank) {
  if (checkpoints_->CopyBytes(rank) == 0) return;
  checkpoints_->Release(rank);
  has_copies_ = false;
  trace_->SetCopyBytes(rank, 0, /*is_on_host=*/false);
}

bool LiveTrainer::SaveIfDue(int rank, int64_t step, const Regime& regime, bool is_end) {
  if (!checkpoint_plan_->IsDue(rank, step, regime.checkpoint_every, is_end)) return false;
  SaveCheckpoint(rank, step, regime);
  return true;
}

// Earlier ones may be lost: what the run was for is in the one of its end.
Status LiveTrainer::CheckLastCheckpoint(int64_t steps) const {
  const std::optional<CheckpointOutcome>& lost = checkpoint_folder_.lost;
  const bool is_of_end = lost && lost->step == steps &&
                         checkpoint_plan_->IsDueAtEnd(steps, regimes_.Newest()->checkpoint_every);
  if (!is_of_end) return Status::Ok();
  std::vector<std::string> passed;
  const bool has_earlier = checkpoint::FindCheckpoint(checkpoint_folder_.path, &passed).ok();
  return Status::Error(fmt::format(
      "the run has ended, and its result is lost: {}; make room or name another folder with "
      "checkpoint.path, and {}",
      lost->message,
      has_earlier ? "go on from an earlier checkpoint with --resume" : "train again"));
}

void LiveTrainer::CloseCheckpoints(bool is_failed) {
  if (is_failed) checkpoints_->Cancel();
  checkpoints_.reset();
}

}  // namespace shardscope::runtime
