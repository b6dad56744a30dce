#include "engine/runtime/checkpoint/checkpoint_writer.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <new>
#include <system_error>
#include <utility>

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/folder.h"
#include "trace/base/input_file.h"
#include "trace/base/output_file.h"
#include "trace/base/text.h"
#include "trace/base/time.h"
#include "trace/base/units.h"

namespace shardscope::runtime {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostRankIndexBytes = size_t{1} << 28;
constexpr std::chrono::milliseconds kPoll(5);
// Ranks compute on all cores: the writer takes what they leave, as it has the time of many steps.
constexpr int kNiceness = 10;
constexpr int64_t kGraceNs = 5 * kNsPerSecond;

}  // namespace

CheckpointWriter::CheckpointWriter(Options options, Listener listener)
    : options_(std::move(options)),
      listener_(std::move(listener)),
      slots_(options_.local.size()),
      thread_([this] { Work(); }) {}

CheckpointWriter::~CheckpointWriter() {
  {
    const MutexLock lock(mutex_);
    is_ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void CheckpointWriter::Cancel() {
  const MutexLock lock(mutex_);
  cancelled_ns_ = MonotonicNs();
}

bool CheckpointWriter::IsTooLate(int64_t deadline_ns) const {
  const int64_t now_ns = MonotonicNs();
  const MutexLock lock(mutex_);
  return (options_.timeout_ns > 0 && now_ns > deadline_ns) ||
         (cancelled_ns_ > 0 && now_ns > cancelled_ns_ + kGraceNs);
}

void CheckpointWriter::Save(int rank, const State& state, std::optional<CheckpointHead> head) {
  Slot& slot = At(rank);
  const int64_t start_ns = MonotonicNs();
  {
    MutexLock lock(mutex_);
    while (is_writing_ || slot.is_taken) changed_.wait(lock);
  }
  slot.row = {.rank = rank, .step = state.step, .start_ns = start_ns, .copy_ns = MonotonicNs()};
  slot.row.error = state.refusal;
  try {
    if (state.refusal.empty()) slot.snapshot.Take(*state.layout, rank, state.units);
  } catch (const std::bad_alloc&) {
    slot.row.error = "there is no memory for a copy of its state";
  }
  slot.row.copied_ns = MonotonicNs();
  const MutexLock lock(mutex_);
  slot.is_taken = true;
  if (head) head_ = std::move(head);
  if (++num_taken_ < slots_.size()) return;
  step_ = state.step;
  ++number_;
  is_writing_ = true;
  changed_.notify_all();
}

void CheckpointWriter::Release(int rank) {
  Slot& slot = At(rank);
  MutexLock lock(mutex_);
  while (is_writing_ || slot.is_taken) changed_.wait(lock);
  slot.snapshot = Snapshot();
}

void CheckpointWriter::Work() {
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNiceness);
  while (true) {
    {
      MutexLock lock(mutex_);
      while (!is_writing_ && !is_ending_) changed_.wait(lock);
      if (!is_writing_) return;
    }
    Write();
    const MutexLock lock(mutex_);
    for (Slot& slot : slots_) slot.is_taken = false;
    num_taken_ = 0;
    is_writing_ = false;
    changed_.notify_all();
  }
}

std::string CheckpointWriter::FileName(int rank, std::string_view ending) const {
  return fmt::format("rank-{}-of-{}.{}", rank, options_.num_ranks, ending);
}

void CheckpointWriter::Write() {
  const int64_t start_ns = MonotonicNs();
  // Of its own even where an earlier one of this step was lost, and other processes still write.
  const std::string partial = checkpoint::PartialFolder(options_.root, step_, number_);
  std::error_code error;
  fs::create_directories(partial, error);
  Written written;
  for (const int rank : options_.local) {
    // Its files could only say that their folder is not there.
    std::string& lost = At(rank).row.error;
    if (error && lost.empty()) lost = fmt::format("cannot create {}: {}", partial, error.message());
    WriteRank(rank, partial, &written);
  }
  if (!is_leader()) return;
  TakeOthers(partial, &written);
  CheckpointOutcome outcome{.step = step_};
  std::vector<std::string> errors = std::move(written.errors);
  const bool is_of_rank = !errors.empty();
  std::string aside;
  const int num_written = options_.num_ranks - static_cast<int>(errors.size());
  int64_t bytes = 0;
  for (const checkpoint::FileEntry& file : written.index.files) bytes += file.bytes;
  if (!is_of_rank) {
    const Status status = Complete(partial, std::move(written), &aside);
    if (!status.ok()) errors.push_back(status.message());
  }
  if (errors.empty()) {
    outcome.folder = checkpoint::StepFolder(options_.root, step_);
    outcome.message =
        fmt::format("checkpoint before step {} in {}: {}, written in {}{}", step_, outcome.folder,
                    FormatBytes(bytes), FormatDuration(MonotonicNs() - start_ns), aside);
    RemoveOld(outcome.folder);
  } else {
    const std::string why = is_of_rank
                                ? fmt::format("{} of {} could be written ({})", num_written,
                                              Counted(options_.num_ranks, "rank"), errors.front())
                                : errors.front();
    outcome.message = fmt::format("no checkpoint before step {}: {}", step_, why);
    fs::remove_all(partial, error);
  }
  listener_.on_outcome(outcome);
}

void CheckpointWriter::WriteRank(int rank, const std::string& partial, Written* written) {
  Slot& slot = At(rank);
  const std::string data = FileName(rank, "safetensors");
  Result<checkpoint::Index> index =
      slot.row.error.empty() ? slot.snapshot.Write(partial, data) : Status::Error(slot.row.error);
  Status status = index.status();
  if (status.ok() && !is_leader()) {
    status = WriteFile(partial + "/" + FileName(rank, "json"), checkpoint::PrintIndex(*index));
  }
  slot.row.written_ns = MonotonicNs();
  slot.row.error = status.ok() ? "" : status.message();
  if (status.ok()) {
    for (const checkpoint::FileEntry& file : index->files) slot.row.bytes += file.bytes;
  }
  listener_.on_part(slot.row);
  if (status.ok()) {
    checkpoint::Merge(std::move(index).value(), &written->index);
    return;
  }
  written->errors.push_back(fmt::format("rank {}: {}", rank, status.message()));
  std::error_code ignored;
  fs::remove(partial + "/" + data, ignored);  // makes room
  if (is_leader()) return;
  // In one step, as the others: the leader reads it as soon as it is there. A disk without room for
  // the reason still takes an empty file; where there can be none, the leader waits in vain.
  const std::string failed = partial + "/" + FileName(rank, "failed");
  if (!WriteFile(failed, status.message()).ok()) {
    const std::ofstream empty(failed);
  }
}

// Ranks of other processes, each as soon as it has written.
void CheckpointWriter::TakeOthers(const std::string& partial, Written* written) {
  const int64_t deadline_ns = MonotonicNs() + options_.timeout_ns;
  for (int rank = 0; rank < options_.num_ranks; ++rank) {
    if (std::ranges::count(options_.local, rank) > 0) continue;
    const std::string done = partial + "/" + FileName(rank, "json");
    const std::string failed = partial + "/" + FileName(rank, "failed");
    std::error_code error;
    const auto fail = [&](const std::string& why) {
      written->errors.push_back(fmt::format("rank {}: {}", rank, why));
    };
    while (!fs::exists(done, error) && !fs::exists(failed, error) && !IsTooLate(deadline_ns)) {
      std::this_thread::sleep_for(kPoll);
    }
    if (!fs::exists(done, error)) {
      const Result<std::string> why = ReadFile(failed, kMostRankIndexBytes);
      const bool has_reason = why.ok() && !why->empty();
      fail(has_reason ? *why
           : why.ok() ? "nothing could be written, not even why"
                      : "it has written nothing in time");
      continue;
    }
    const Result<std::string> text = ReadFile(done, kMostRankIndexBytes);
    Result<checkpoint::Index> index =
        text.ok() ? checkpoint::ParseRankIndex(*text, done) : text.status();
    if (index.ok()) {
      checkpoint::Merge(std::move(index).value(), &written->index);
    } else {
      fail(index.message());
    }
    fs::remove(done, error);
  }
}

Status CheckpointWriter::Complete(const std::string& partial, Written written, std::string* aside) {
  const std::string folder = checkpoint::StepFolder(options_.root, step_);
  std::error_code error;
  if (fs::exists(folder, error) && std::ranges::find(made_, folder) == made_.end()) {
    const Status whole = checkpoint::Checkpoint::Open(folder).status();
    if (whole.ok()) {
      return Status::Error(folder +
                           " is there already, and not of this run: move it away, or name another "
                           "folder with checkpoint.path");
    }
    // Nothing can be gone on from it.
    SHARDSCOPE_ASSIGN_OR_RETURN(const std::string moved, checkpoint::MoveAside(folder));
    *aside = fmt::format("; what was there is now {} ({})", moved, whole.message());
  }
  checkpoint::Index index = std::move(head_->index);
  index.files = std::move(written.index.files);
  index.parameters = std::move(written.index.parameters);
  SHARDSCOPE_ASSIGN_OR_RETURN(checkpoint::FileEntry toml,
                              checkpoint::WriteText(partial + "/run.toml", head_->toml));
  index.files.push_back(std::move(toml));
  const Result<checkpoint::FileEntry> file = checkpoint::WriteText(
      partial + "/" + std::string(checkpoint::kIndexName), checkpoint::PrintIndex(index));
  if (!file.ok()) return file.status();
  return checkpoint::Publish(partial, folder);
}

// Only what this run has written, and only once there are newer ones.
void CheckpointWriter::RemoveOld(const std::string& newest) {
  std::erase(made_, newest);
  made_.push_back(newest);
  while (head_->keep > 0 && std::ssize(made_) > head_->keep) {
    checkpoint::RemoveCheckpoint(made_.front());
    made_.pop_front();
  }
}

}  // namespace shardscope::runtime
