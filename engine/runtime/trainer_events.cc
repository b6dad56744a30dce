// What happens between steps: decisions, changed knobs, schedules, the bandwidth found.
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "engine/plan/memory.h"
#include "engine/plan/text.h"
#include "engine/runtime/live_trainer.h"
#include "trace/base/mutex.h"
#include "trace/base/time.h"
#include "trace/base/units.h"

namespace shardscope::runtime {

// Makes a new regime if anything is different from the one before.
std::shared_ptr<const Regime> LiveTrainer::Decide(int64_t step) {
  Decision decision = steering_->Decide(step);
  const std::shared_ptr<const Regime> before = regimes_.Newest();
  const auto has_flag = [](const Decision& d) { return d.stop || d.pause || d.checkpoint; };
  if (before != nullptr && decision.changed.empty() && !has_flag(decision) &&
      !has_flag(before->decision)) {
    return before;
  }
  Regime regime;
  regime.first_step = step;
  regime.config = steering_->config();
  regime.decision = std::move(decision);
  if (before != nullptr && regime.decision.changed.empty()) {
    regime.schedule = before->schedule;
  } else {
    Result<std::shared_ptr<const plan::Schedule>> schedule = ScheduleOf(regime.config);
    // It was built once when the change was accepted.
    if (!schedule.ok()) throw std::runtime_error(schedule.message());
    regime.schedule = *schedule;
  }
  return regimes_.Add(std::move(regime));
}

Status LiveTrainer::RegisterSchedule(const plan::Schedule& schedule) {
  if (trace_->HasSchedule(schedule)) return Status::Ok();
  // Some rank of the process also has the tables that they share.
  const int64_t number = trace_->AddSchedule(
      schedule, {.issued = plan::PredictLargestPeak(schedule),
                 .executed = BoundOf(schedule) + ranks_->shared_tensor_bytes()});
  if (!is_leader()) return Status::Ok();
  const Status status = folder_->WriteSchedule(number, plan::PrintSchedule(schedule));
  if (status.ok()) return status;
  if (options_.config.Get("record.on_error") == "stop") {
    return Status::Error(status.message() + " (record.on_error=stop)");
  }
  trace_->Add({.source = "schedules", .status = "partial", .reason = status.message()},
              /*dropped=*/1);
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
    trace_->Mark(step, "change", change);
    Message(
        fmt::format("step {}: {} {} -> {}", step, change.key, change.old_value, change.new_value));
  }
  if (link_changed && ranks_->transport().capabilities().has_link) {
    const int64_t latency_ns = config.GetInt("link.latency");
    const MutexLock lock(bandwidth_mutex_);
    auto_bandwidth_.reset();
    if (link.is_auto) {
      auto_bandwidth_ = std::make_unique<AutoBandwidth>(
          *regime.schedule, AutoBandwidth::Link{link.auto_share, latency_ns});
    } else {
      ranks_->transport().SetLink(link.bytes_per_second, latency_ns);
    }
  }
  options_.device->Apply(config);
  const std::shared_ptr<const Regime>& before =
      entered_[static_cast<size_t>(ranks_->first_local())];
  const bool was_paused = before != nullptr && before->decision.pause;
  if (regime.decision.pause && !was_paused) {
    trace_->Mark(step, "pause", {});
    Message(fmt::format("paused before step {}", step));
  }
  if (was_paused && !regime.decision.pause) trace_->Mark(step, "resume", {});
  if (regime.decision.stop) {
    trace_->Mark(step, "stop", {});
    Message(fmt::format("stopped before step {}", step));
  }
}

// Any rank's host thread, after its step.
void LiveTrainer::MeasureBandwidth(int64_t step, const StepTimes& times) {
  std::unique_ptr<AutoBandwidth> found;
  {
    const MutexLock lock(bandwidth_mutex_);
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

void LiveTrainer::Message(const std::string& text) {
  if (!is_leader()) return;
  const MutexLock lock(message_mutex_);
  folder_->Log(text);
  if (options_.on_message) options_.on_message(text);
}

void LiveTrainer::WriteCheckpoint(int rank, int64_t step) {
  const CheckpointOutcome outcome =
      runtime::WriteCheckpoint(ranks_.get(), rank, step, folder_->checkpoints());
  if (!outcome.folder.empty()) trace_->Mark(step, "checkpoint", {.new_value = outcome.folder});
  for (const std::string& message : outcome.messages) Message(message);
}

Status LiveTrainer::CheckTrace() {
  const Status status = trace_->WriterStatus();
  if (status.ok() || warned_of_trace_) return Status::Ok();
  if (options_.config.Get("record.on_error") == "stop") {
    return Status::Error("the trace cannot be written, and record.on_error=stop: " +
                         status.message());
  }
  warned_of_trace_ = true;
  Message("the trace cannot be written, training goes on without it: " + status.message());
  return Status::Ok();
}

}  // namespace shardscope::runtime
