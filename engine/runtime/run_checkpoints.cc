#include "engine/runtime/run_checkpoints.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "engine/checkpoint/folder.h"
#include "engine/footprint/footprint.h"
#include "engine/model/huggingface.h"
#include "engine/runtime/checkpoint/load.h"
#include "trace/base/mutex.h"
#include "trace/base/text.h"
#include "trace/base/units.h"
#include "trace/base/version.h"
#include "trace/base/words.h"

namespace shardscope::runtime {
namespace {

namespace fs = std::filesystem;

Status CannotWrite(const std::string& path, const std::string& why) {
  return Status::Error(fmt::format(
      "cannot write checkpoints to {}: {}; name another folder with checkpoint.path", path, why));
}

}  // namespace

Status RunCheckpoints::CheckPath(const config::Config& config) {
  const std::string& path = config.Get("checkpoint.path");
  const std::string why = path.empty() ? "" : WhyNotWritable(path);
  return why.empty() ? Status::Ok() : CannotWrite(path, why);
}

Status RunCheckpoints::OpenResume(Job* job) {
  const std::string& path = options_.config.Get("checkpoint.resume");
  if (path.empty()) return Status::Ok();
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::string folder, checkpoint::FindCheckpoint(path, &notes_));
  Result<checkpoint::Checkpoint> opened = checkpoint::Checkpoint::Open(folder);
  if (!opened.ok()) return opened.status();
  SHARDSCOPE_RETURN_IF_ERROR(CheckResume(*opened, options_.config, *job));
  from_.emplace(std::move(opened).value());
  const checkpoint::Index& index = from_->index();
  const model::Sampler::Shape shape = {
      .num_samples = model::NumSamples(job->corpus->num_tokens(), job->model.seq),
      .seed = job->training.seed};
  const std::string note = OtherDataNote(*from_, options_.config, *job);
  if (!note.empty()) notes_.push_back(note);
  job->first_step = index.step;
  job->data_start = DataStart(index, shape, /*is_other_data=*/!note.empty());
  return Status::Ok();
}

Status RunCheckpoints::LoadResume(Ranks* ranks) {
  if (!from_) return Status::Ok();
  Mutex mutex;
  std::set<std::string> missing;
  const Status status = ranks->OnAll([&](int rank) {
    std::set<std::string> here;
    const Status loaded = LoadState(*from_, rank, &ranks->work(rank), &here);
    ranks->work(rank).SetScalars(from_->index().scalars);
    const MutexLock lock(mutex);
    missing.merge(here);
    return loaded;
  });
  SHARDSCOPE_RETURN_IF_ERROR(status);
  notes_.push_back(
      fmt::format("goes on from {} with step {}", from_->folder(), ranks->job().first_step));
  if (!missing.empty()) {
    const std::vector<std::string> names(missing.begin(), missing.end());
    notes_.push_back(
        fmt::format("{} has no {}: it starts from zero", from_->folder(), Join(names, ", ")));
  }
  return Status::Ok();
}

std::optional<ResumedFrom> RunCheckpoints::resumed_from() const {
  if (!from_) return std::nullopt;
  const checkpoint::Index& index = from_->index();
  return ResumedFrom{index.run, index.step, from_->folder()};
}

Status RunCheckpoints::OpenFolder(const RunFolder& folder) {
  const std::string& path = options_.config.Get("checkpoint.path");
  std::error_code error;
  path_ =
      path.empty() ? folder.checkpoints() : fs::absolute(path, error).lexically_normal().string();
  const int64_t first_step = from_ ? from_->index().step : 0;
  at_start_ = WhyNoneBefore(first_step);
  if (!options_.is_leader()) return Status::Ok();
  SHARDSCOPE_RETURN_IF_ERROR(ClaimFolder(first_step));
  RemoveHalfWritten();
  return Status::Ok();
}

std::string RunCheckpoints::WhyNoneBefore(int64_t first_step) const {
  const std::string at_start = checkpoint::StepFolder(path_, first_step);
  std::error_code error;
  // In other words where a link leads there.
  if (from_ && fs::equivalent(at_start, from_->folder(), error)) {
    return fmt::format(
        "checkpoint before step {}: it is there already, {}, from which this run goes on",
        first_step, at_start);
  }
  if (!checkpoint::IsWhole(at_start)) return "";
  return fmt::format(
      "no checkpoint before step {}: {} is there already, and not of this run; ask again after a "
      "step",
      first_step, at_start);
}

Status RunCheckpoints::ClaimFolder(int64_t first_step) {
  std::error_code error;
  fs::create_directories(path_, error);
  if (!error && access(path_.c_str(), W_OK | X_OK) != 0) {
    error = std::error_code(errno, std::generic_category());
  }
  if (error) return CannotWrite(path_, error.message());
  if (FolderLock::IsHeld(path_)) {
    return Status::Error(path_ +
                         " has the checkpoints of a run that is training: name another folder with "
                         "checkpoint.path");
  }
  const std::optional<int64_t> last_step = checkpoint::LastStepBehind(path_, first_step);
  if (last_step) {
    return Status::Error(fmt::format(
        "{} has checkpoints of another run up to step {}, and this one begins with step {}: name "
        "another folder with checkpoint.path, go on from the newest one (--resume {}), or move "
        "those behind step {} away",
        path_, *last_step, first_step, path_, first_step));
  }
  lock_ = FolderLock(path_);
  return Status::Ok();
}

void RunCheckpoints::RemoveHalfWritten() {
  std::vector<std::string> roots = {path_};
  // What the run that this one goes on from left when it was killed.
  if (from_) roots.push_back(fs::path(from_->folder()).parent_path().string());
  for (const std::string& root : roots) {
    if (root != path_ && FolderLock::IsHeld(root)) continue;
    const int removed = checkpoint::RemovePartials(root);
    if (removed == 0) continue;
    notes_.push_back(
        fmt::format("{} half written in {}: removed", Counted(removed, "checkpoint"), root));
  }
}

void RunCheckpoints::Start(Run run) {
  run_ = std::move(run);
  const Job& job = run_.ranks->job();
  writer_ = std::make_unique<CheckpointWriter>(
      CheckpointWriter::Options{.root = path_,
                                .num_ranks = run_.ranks->size(),
                                .local = run_.ranks->local(),
                                .timeout_ns = job.timeout_ns},
      CheckpointWriter::Listener{
          .on_part = [this](schema::CheckpointRow row) { run_.trace->Add(std::move(row)); },
          .on_outcome = [this](const CheckpointOutcome& outcome) { TakeOutcome(outcome); }});
  plan_.emplace(job.first_step, run_.ranks->size());
  for (const std::string& note : notes_) run_.on_message(note);
  from_.reset();
}

// On the writer's thread.
void RunCheckpoints::TakeOutcome(const CheckpointOutcome& outcome) {
  lost_.reset();
  if (outcome.folder.empty()) {
    lost_ = outcome;
  } else {
    run_.trace->Mark(outcome.step, words::MarkerKind::kCheckpoint, {.new_value = outcome.folder});
  }
  run_.on_message(outcome.message);
}

bool RunCheckpoints::HasCopyWith(const config::Config& config) const {
  return options_.device->copies_take_memory() &&
         (has_copies_ || footprint::WantsCheckpointCopy(config));
}

CheckpointHead RunCheckpoints::HeadOf(int64_t step, const Regime& regime) const {
  Ranks& ranks = *run_.ranks;
  // Of the steps before, also where `regime` has other takers: these go on behind them.
  const model::Sampler& sampler = ranks.work(0).sampler();
  const plan::Mesh& mesh = ranks.work(0).layout().mesh;
  const model::Sampler::Start next = sampler.StartOf(step);
  CheckpointHead head;
  head.keep = regime.config.GetInt("checkpoint.keep");
  checkpoint::Index& index = head.index;
  index = {.step = step,
           .num_ranks = ranks.size(),
           .tool_version = kVersion,
           .run = run_.id,
           .config = regime.config.Values(),
           .model = model::FieldsBesideKeys(ranks.job().model),
           .scalars = ranks.work(0).Scalars(),
           .data = {.seed = sampler.shape().seed,
                    .num_samples = sampler.shape().num_samples,
                    .num_takers = sampler.takers(),
                    .samples_per_step = sampler.shape().samples_per_step,
                    .first_step = sampler.shape().start.step,
                    .first_epoch = sampler.shape().start.epoch,
                    .first_used = sampler.shape().start.used,
                    .epoch = next.epoch,
                    .used = next.used,
                    .tokenizer = ranks.job().corpus->tokenizer,
                    .content = ranks.job().corpus->content}};
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

void RunCheckpoints::Save(int rank, int64_t step, const Regime& regime) {
  if (!at_start_.empty() && step == run_.ranks->job().first_step) {
    plan_->SetSaved(rank, step);
    if (rank == 0) run_.on_message(at_start_);
    return;
  }
  std::optional<CheckpointHead> head;
  if (rank == 0) head = HeadOf(step, regime);
  RankWork& work = run_.ranks->work(rank);
  writer_->Save(rank, {&work.layout(), work.units(), step, RefuseCopy(rank, regime)},
                std::move(head));
  if (writer_->CopyBytes(rank) > 0) has_copies_ = true;
  run_.trace->SetCopyBytes(rank, writer_->CopyBytes(rank), IsOffloaded(work.layout()));
  plan_->SetSaved(rank, step);
}

// With checkpoint.every there has been room for it from the start.
std::string RunCheckpoints::RefuseCopy(int rank, const Regime& regime) const {
  const int64_t limit_bytes = regime.config.GetInt("engine.memory_limit");
  const bool has_room = regime.checkpoint_every > 0 || writer_->CopyBytes(rank) > 0;
  if (limit_bytes == 0 || has_room || !options_.device->copies_take_memory()) return "";
  const plan::Schedule& schedule = *regime.schedule;
  const auto program = static_cast<size_t>(schedule.program_of_rank[static_cast<size_t>(rank)]);
  const int64_t needed_bytes = run_.bounds_with_copy(schedule)[program];
  if (needed_bytes <= limit_bytes) return "";
  return fmt::format("with a copy of its state it can need {}, engine.memory_limit is {}",
                     FormatBytes(needed_bytes), FormatBytes(limit_bytes));
}

void RunCheckpoints::ReleaseCopy(int rank) {
  if (writer_->CopyBytes(rank) == 0) return;
  writer_->Release(rank);
  has_copies_ = false;
  run_.trace->SetCopyBytes(rank, 0, /*is_on_host=*/false);
}

bool RunCheckpoints::SaveIfDue(int rank, int64_t step, const Regime& regime, bool is_end) {
  if (!plan_->IsDue(rank, step, regime.checkpoint_every, is_end)) return false;
  Save(rank, step, regime);
  return true;
}

void RunCheckpoints::Close(bool is_failed) {
  if (is_failed) writer_->Cancel();
  writer_.reset();
}

// Earlier ones may be lost: what the run was for is in the one of its end.
Status RunCheckpoints::CheckLast(int64_t steps, int64_t every) const {
  const bool is_of_end = lost_ && lost_->step == steps && plan_->IsDueAtEnd(steps, every);
  if (!is_of_end) return Status::Ok();
  std::vector<std::string> passed;
  const bool has_earlier = checkpoint::FindCheckpoint(path_, &passed).ok();
  return Status::Error(fmt::format(
      "the run has ended, and its result is lost: {}; make room or name another folder with "
      "checkpoint.path, and {}",
      lost_->message,
      has_earlier ? "go on from an earlier checkpoint with --resume" : "train again"));
}

}  // namespace shardscope::runtime
