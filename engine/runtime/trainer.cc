// The ranks' loop over steps, and how they agree on what is in force.
#include "engine/runtime/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/runtime/live_trainer.h"
#include "engine/runtime/ranks/thread_setup.h"
#include "engine/transport/between_steps.h"
#include "trace/base/check.h"
#include "trace/base/text.h"
#include "trace/base/time.h"

namespace shardscope::runtime {
namespace {

// Why training stands still before the step that `decision` is of; empty if it does not.
std::string_view PauseOf(const Decision& decision) {
  if (decision.pause) return Name(words::PauseCause::kUser);
  if (decision.checkpoint) return Name(words::PauseCause::kCheckpoint);
  return decision.changed.empty() ? std::string_view() : Name(words::PauseCause::kChange);
}

}  // namespace

Result<RunSummary> LiveTrainer::Run() {
  if (dump_) dump_->AddInitial(ranks_.get());
  Status status = ranks_->OnAll([this](int rank) { return RankLoop(rank); });
  RunSummary summary;
  if (const std::optional<StepReport> last = reports_->Last()) {
    summary.steps = last->step + 1;
    summary.last_loss = last->loss;
  }
  summary.stopped_early = summary.steps < ranks_->job().training.steps;
  if (summary.stopped_early) summary.stop_signal = steering_->signal();
  steering_->SetFinished();
  if (status.ok() && dump_) status = dump_->Write(ranks_.get(), summary.steps);
  if (!status.ok()) {
    for (const int rank : ranks_->local()) {
      if (ranks_->is_stuck()) trace_->AddUnfinished(rank);
    }
    trace_->Mark(summary.steps, "error", {.new_value = status.message()});
    folder_->Log(
        (is_leader() ? "error: " : fmt::format("rank {}: error: ", ranks_->first_local())) +
        status.message());
  }
  const Status finished = trace_->Finish();
  control_.reset();
  summary.folder = folder_->path();
  summary.trace_path = trace_->path();
  if (is_leader()) {
    folder_->Log(fmt::format("run ends after {}; trace in {}", Counted(summary.steps, "step"),
                             summary.trace_path));
  }
  SHARDSCOPE_RETURN_IF_ERROR(status);
  if (!finished.ok()) {
    // A training that may go on without its trace has not failed for lack of it.
    if (options_.config.Get("record.on_error") == "stop") return finished;
    Message(fmt::format("the trace is not whole ({} lost): {}",
                        Counted(trace_->NumDropped(), "record"), finished.message()));
  }
  return summary;
}

Status LiveTrainer::RankLoop(int rank) {
  AskForShortSlices();
  const int64_t steps = ranks_->job().training.steps;
  std::shared_ptr<const Regime> regime = Agree(rank, 0);
  for (int64_t step = 0; step < steps; ++step) {
    const bool is_new = entered_[static_cast<size_t>(rank)] != regime;
    SHARDSCOPE_RETURN_IF_ERROR(Enter(rank, step, regime));
    const std::string_view pause = is_new ? PauseOf(regime->decision) : "";
    while (regime->decision.pause) {
      Result<std::shared_ptr<const Regime>> next = WaitAndAgree(rank, step);
      if (!next.ok()) return next.status();
      regime = *next;
    }
    if (!pause.empty()) trace_->EndPause(rank, step, pause);
    if (regime->decision.stop) break;
    SHARDSCOPE_RETURN_IF_ERROR(RunStep(rank, step, *regime));
    regime = regimes_.At(next_regime_[static_cast<size_t>(rank)]);
  }
  return Status::Ok();
}

// One round of a paused run. Rank 0 waits for the user, the others for rank 0, which tells them
// often enough that they know it lives.
Result<std::shared_ptr<const Regime>> LiveTrainer::WaitAndAgree(int rank, int64_t step) {
  const Decision& pause = entered_[static_cast<size_t>(rank)]->decision;
  const int64_t beat_ns =
      std::min(kNsPerSecond, std::max<int64_t>(1, options_.config.GetInt("comm.timeout") / 4));
  bool goes_on = false;
  while (!goes_on) {
    const bool came_in = rank == 0 && steering_->WaitWhilePaused(pause, beat_ns);
    goes_on = ranks_->transport().Broadcast(rank, came_in ? 1 : 0) == 1;
  }
  std::shared_ptr<const Regime> regime = Agree(rank, step);
  SHARDSCOPE_RETURN_IF_ERROR(Enter(rank, step, regime));
  return regime;
}

Status LiveTrainer::RunStep(int rank, int64_t step, const Regime& regime) {
  RankWork& bodies = ranks_->work(rank);
  bodies.BeginStep(regime.config.GetFloat("train.lr"));
  SHARDSCOPE_RETURN_IF_ERROR(ranks_->runner(rank).RunStep(step));
  const StepTimes times = observer_->Take(rank);
  const schema::StepRow row = trace_->AddStep(rank, step, *regime.schedule, times.first_issue_ns);
  // On a GPU the ops of such a step have no times.
  if (!trace_->IsLeftOut(step)) MeasureBandwidth(step, times);
  ShareStep(rank, {.step = step,
                   .steps = ranks_->job().training.steps,
                   .loss = row.loss,
                   .grad_norm = row.grad_norm,
                   .tokens = row.tokens,
                   .step_ns = row.end_ns - row.start_ns,
                   .exposed_ns = times.exposed_ns,
                   .communication_ns = times.communication_ns,
                   .peak_bytes = bodies.TakePeakBytes()});
  return rank == ranks_->first_local() ? CheckTrace() : Status::Ok();
}

std::shared_ptr<const Regime> LiveTrainer::Agree(int rank, int64_t step) {
  const int64_t decided = rank == 0 ? Decide(step)->number : 0;
  const int64_t number = ranks_->transport().Broadcast(rank, decided);
  AgreeOnRegime(rank, number);
  return regimes_.At(number);
}

// The control op: all ranks have finished the previous step, and learn what the next one is.
void LiveTrainer::AtControl(int rank, int64_t step) {
  const auto index = static_cast<size_t>(rank);
  const Regime& regime = *entered_[index];
  trace_->EndCost(rank, {step, regime.number, MonotonicNs()});
  if (step + 1 < ranks_->job().training.steps) {
    next_regime_[index] = Agree(rank, step + 1)->number;
  } else {
    transport::Barrier(&ranks_->transport(), rank);
  }
  // Only here has no rank an op of this or another step to record.
  if (trace_->BeginWindow(rank, step, config::GetRecordSteps(regime.config))) {
    transport::Barrier(&ranks_->transport(), rank);
  }
  trace_->BeginCost(rank, {step, regime.number, MonotonicNs()});
}

Status LiveTrainer::Enter(int rank, int64_t step, const std::shared_ptr<const Regime>& regime) {
  std::shared_ptr<const Regime>& entered = entered_[static_cast<size_t>(rank)];
  if (entered != nullptr && entered->number == regime->number) return Status::Ok();
  if (entered == nullptr || entered->schedule != regime->schedule) {
    // The trace learns of a Schedule while no op is being recorded.
    transport::Barrier(&ranks_->transport(), rank);
    if (rank == ranks_->first_local()) {
      SHARDSCOPE_RETURN_IF_ERROR(RegisterSchedule(*regime->schedule));
    }
    transport::Barrier(&ranks_->transport(), rank);
    SHARDSCOPE_RETURN_IF_ERROR(ranks_->SetSchedule(rank, *regime->schedule));
  }
  if (rank == ranks_->first_local()) Apply(step, *regime);
  entered = regime;
  if (regime->decision.checkpoint) WriteCheckpoint(rank, step);
  return Status::Ok();
}

// Where the ranks are processes, each learns of all. Costs one more short message a step, at a time
// when all ranks are about to meet anyway.
void LiveTrainer::ShareStep(int rank, const StepReport& mine) {
  if (!has_processes()) return Collect(rank, mine);
  const std::vector<SharedStep> all = transport::GatherValues<SharedStep>(
      &ranks_->transport(), ranks_->size(), rank, {mine, steering_->signal()});
  for (int other = 0; other < ranks_->size(); ++other) {
    const SharedStep& one = all[static_cast<size_t>(other)];
    // Whichever process was told to stop: rank 0 decides for all.
    if (one.signal != 0) steering_->Interrupt(one.signal);
    Collect(other, one.report);
  }
}

// The last rank to come reports the step.
void LiveTrainer::Collect(int rank, const StepReport& mine) {
  const std::optional<StepReport> all = reports_->Add(rank, mine);
  if (!all || !options_.on_step) return;
  // No rank can finish the next step before this one goes on, so reports stay in order.
  const std::lock_guard message_lock(message_mutex_);
  options_.on_step(*all);
}

}  // namespace shardscope::runtime
