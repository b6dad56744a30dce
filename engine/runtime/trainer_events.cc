// What happens between steps: decisions, changed knobs, schedules, the bandwidth found,
// checkpoints, and what is written when the run ends.
#include <fmt/format.h>

#include <ATen/ops/tensor.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "engine/model/reference_model.h"
#include "engine/plan/memory.h"
#include "engine/plan/text.h"
#include "engine/runtime/live_trainer.h"
#include "engine/transport/between_steps.h"
#include "trace/base/counted.h"
#include "trace/base/time.h"
#include "trace/base/units.h"

namespace shardscope::runtime {

// Makes a new regime if anything is different from the one before.
std::shared_ptr<const Regime> LiveTrainer::Decide(int64_t step) {
  Decision decision = steering_->Decide(step);
  std::shared_ptr<const Regime> before;
  {
    const std::lock_guard lock(mutex_);
    if (!regimes_.empty()) before = regimes_.back();
  }
  const auto has_flag = [](const Decision& d) { return d.stop || d.pause || d.checkpoint; };
  if (before != nullptr && decision.changed.empty() && !has_flag(decision) &&
      !has_flag(before->decision)) {
    return before;
  }
  auto regime = std::make_shared<Regime>();
  regime->first_step = step;
  regime->config = steering_->config();
  regime->decision = std::move(decision);
  if (before != nullptr && regime->decision.changed.empty()) {
    regime->schedule = before->schedule;
  } else {
    Result<std::shared_ptr<const plan::Schedule>> schedule = ScheduleOf(regime->config);
    // It was built once when the change was accepted.
    if (!schedule.ok()) throw std::runtime_error(schedule.message());
    regime->schedule = *schedule;
  }
  return AddRegime(std::move(regime));
}

std::shared_ptr<const Regime> LiveTrainer::AddRegime(std::shared_ptr<Regime> regime) {
  const std::lock_guard lock(mutex_);
  // A Schedule that ran before is the same object, so that the trace has it once.
  for (const std::shared_ptr<const Regime>& other : regimes_) {
    if (other->schedule != regime->schedule && *other->schedule != *regime->schedule) continue;
    regime->schedule = other->schedule;
    break;
  }
  regime->number = static_cast<int64_t>(regimes_.size());
  regimes_.push_back(regime);
  return regime;
}

Status LiveTrainer::RegisterSchedule(const plan::Schedule& schedule) {
  int64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    if (schedule_ids_.contains(&schedule)) return Status::Ok();
    number = static_cast<int64_t>(schedule_ids_.size());
    // Some rank of the process also has the tables that they share.
    const executor::PredictedPeaks predicted{
        .issued = plan::PredictLargestPeak(schedule),
        .executed = BoundOf(schedule) + ranks_->shared_tensor_bytes()};
    schedule_ids_[&schedule] = trace_->RegisterSchedule(schedule, ranks_->local(), predicted);
  }
  if (!is_leader()) return Status::Ok();
  const Status status = folder_->WriteSchedule(number, plan::PrintSchedule(schedule));
  if (status.ok()) return status;
  if (options_.config.Get("record.on_error") == "stop") {
    return Status::Error(status.message() + " (record.on_error=stop)");
  }
  recorder_->Add(schema::CapabilityRow{
      .source = "schedules", .status = "partial", .reason = status.message(), .dropped = 1});
  Message(status.message() + "; the training goes on without it");
  return Status::Ok();
}

// One rank of each process, before the first step of the regime.
void LiveTrainer::Apply(int64_t step, const Regime& regime) {
  const config::Config& config = regime.config;
  const config::LinkBandwidth link = config::GetLinkBandwidth(config);
  const bool is_first = regime.number == 0;
  bool link_changed = is_first;
  for (const ChangedKey& change : regime.decision.changed) {
    link_changed = link_changed || change.key.starts_with("link.");
    Mark(step, "change", change);
    Message(
        fmt::format("step {}: {} {} -> {}", step, change.key, change.old_value, change.new_value));
  }
  if (link_changed && ranks_->transport().capabilities().has_link) {
    const int64_t latency_ns = config.GetInt("link.latency");
    const std::lock_guard lock(mutex_);
    auto_bandwidth_.reset();
    if (link.is_auto) {
      auto_bandwidth_ = std::make_unique<AutoBandwidth>(
          *regime.schedule, AutoBandwidth::Link{link.auto_share, latency_ns});
    } else {
      ranks_->transport().SetLink(link.bytes_per_second, latency_ns);
    }
  }
  ranks_->slots().SetSlots(static_cast<int>(config::GetComputeSlots(config)));
  const std::shared_ptr<const Regime>& before =
      entered_[static_cast<size_t>(ranks_->first_local())];
  const bool was_paused = before != nullptr && before->decision.pause;
  if (regime.decision.pause && !was_paused) {
    Mark(step, "pause", {});
    Message(fmt::format("paused before step {}", step));
  }
  if (was_paused && !regime.decision.pause) Mark(step, "resume", {});
  if (regime.decision.stop) {
    Mark(step, "stop", {});
    Message(fmt::format("stopped before step {}", step));
  }
}

// Any rank's host thread, after its step.
void LiveTrainer::MeasureBandwidth(int64_t step, const StepTimes& times) {
  std::unique_ptr<AutoBandwidth> found;
  {
    const std::lock_guard lock(mutex_);
    if (auto_bandwidth_ == nullptr) return;
    auto_bandwidth_->Add(step, times);
    if (!auto_bandwidth_->IsReady(ranks_->size())) return;
    found = std::move(auto_bandwidth_);
  }
  const std::optional<double> rate = found->BytesPerSecond();
  if (!rate) {
    Message(
        "link.bandwidth=auto: a block's all-gather sends nothing, or its latency alone is too "
        "long; the rate stays as it is");
    return;
  }
  const config::KeyInfo& key = *config::FindKey("link.bandwidth");
  const double allowed = std::clamp(*rate, key.minimum, key.maximum);
  const std::string text = fmt::format("{:.0f}kB/s", std::max(1.0, allowed / 1e3));
  const Status status = steering_->Change({{"link.bandwidth", text}});
  if (!status.ok()) {
    Message("link.bandwidth=auto: " + status.message());
    return;
  }
  Message(fmt::format("link.bandwidth=auto: a block's forward takes {}, so the link gets {}",
                      FormatDuration(found->forward_ns()), FormatBandwidth(allowed)));
  // run.toml then says what a later run has to be given to be the same.
  config::Config written = options_.config;
  Status rewritten = written.Set("link.bandwidth", text);
  if (rewritten.ok()) rewritten = WriteConfig(std::move(written));
  if (!rewritten.ok()) Message(rewritten.message());
}

// A run has each marker once, in the leader's trace; only an error is each process's own.
void LiveTrainer::Mark(int64_t step, const std::string& kind, const ChangedKey& change) {
  if (!is_leader() && kind != "error") return;
  schema::MarkerRow row;
  row.time_ns = MonotonicNs();
  row.step = step;
  row.kind = kind;
  row.key = change.key;
  row.old_value = change.old_value;
  row.new_value = change.new_value;
  recorder_->Add(std::move(row));
}

void LiveTrainer::Message(const std::string& text) {
  if (!is_leader()) return;
  const std::lock_guard lock(message_mutex_);
  folder_->Log(text);
  if (options_.on_message) options_.on_message(text);
}

// Every rank its own rows of parameters and moments, without padding, so that another number of
// ranks can read them.
Status LiveTrainer::WriteShards(int rank, int64_t step, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  model::SafetensorsWriter writer;
  writer.Add("step", at::tensor(std::vector<int64_t>{step}, at::kLong));
  const Job& job = ranks_->job();
  RankWork& bodies = ranks_->bodies(rank);
  for (size_t index = 0; index < job.description.units.size(); ++index) {
    ShardedUnit& unit = bodies.unit(index);
    for (const ParameterLayout& layout : unit.layout().parameters()) {
      const int place = job.shard_ranks == 1 ? 0 : rank;
      const int64_t rows = plan::OwnedRows(layout.parameter, job.shard_ranks, place);
      const auto slice = [&](const at::Tensor& shard) {
        return shard.narrow(0, layout.shard_offset, rows * layout.row_elements)
            .view({rows, layout.row_elements})
            .cpu();
      };
      const std::string& name = layout.parameter.name;
      writer.Add("parameter." + name, slice(unit.parameters()));
      writer.Add("first_moment." + name, slice(unit.first_moment()));
      writer.Add("second_moment." + name, slice(unit.second_moment()));
    }
  }
  return writer.Write(fmt::format("{}/rank-{}-of-{}.safetensors", folder, rank, ranks_->size()));
}

// checkpoints/step-<k>/rank-<r>-of-<n>.safetensors, all of them or none.
void LiveTrainer::WriteCheckpoint(int rank, int64_t step) {
  const std::string folder = fmt::format("{}/step-{}", folder_->checkpoints(), step);
  const std::string partial = folder + ".partial";
  const Status mine = WriteShards(rank, step, partial);
  // The training is worth more than its checkpoint.
  if (!mine.ok()) Message("checkpoint: " + mine.message());
  const std::vector<int64_t> written = transport::GatherValues<int64_t>(
      &ranks_->transport(), ranks_->size(), rank, mine.ok() ? 1 : 0);
  if (rank != 0) return;
  const auto num_written = std::count(written.begin(), written.end(), 1);
  std::error_code error;
  if (num_written == ranks_->size()) {
    std::filesystem::remove_all(folder, error);  // of the same step: the run was paused there
    std::filesystem::rename(partial, folder, error);
    if (!error) {
      Mark(step, "checkpoint", {.new_value = folder});
      return Message(fmt::format("checkpoint before step {} in {}", step, folder));
    }
    Message(fmt::format("checkpoint: cannot rename {}: {}", partial, error.message()));
  }
  std::filesystem::remove_all(partial, error);
  Message(fmt::format("no checkpoint before step {}: {} of {} could be written", step, num_written,
                      Counted(ranks_->size(), "rank")));
}

Status LiveTrainer::CheckRecorder() {
  const Status status = recorder_->WriterStatus();
  if (status.ok() || warned_of_recorder_) return Status::Ok();
  if (options_.config.Get("record.on_error") == "stop") {
    return Status::Error("the trace cannot be written, and record.on_error=stop: " +
                         status.message());
  }
  warned_of_recorder_ = true;
  Message("the trace cannot be written, training goes on without it: " + status.message());
  return Status::Ok();
}

void LiveTrainer::AddParameters(const std::string& prefix, model::SafetensorsWriter* writer) {
  for (const plan::Parameter& parameter : model::AllParameters(ranks_->job().model)) {
    writer->Add(prefix + parameter.name, ranks_->FullParameter(parameter.name));
  }
}

Status LiveTrainer::WriteDump() {
  const Job& job = ranks_->job();
  const int64_t samples = job.training.batch * job.training.micro_batches;
  for (int64_t step = 0; step < done_.steps; ++step) {
    for (int rank = 0; rank < ranks_->size(); ++rank) {
      const auto& tokens = ranks_->bodies(rank).kept_batches()[static_cast<size_t>(step)];
      dump_.Add(fmt::format("batch.{}.{}", step, rank),
                at::tensor(tokens, at::kLong).view({samples, job.model.seq + 1}));
    }
  }
  AddParameters("final.", &dump_);
  return dump_.Write(options_.dump_path);
}

}  // namespace shardscope::runtime
