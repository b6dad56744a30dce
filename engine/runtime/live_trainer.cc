// The ranks' loop over steps, and what happens between steps.
#include "engine/runtime/live_trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "engine/plan/text.h"
#include "engine/runtime/ranks/thread_setup.h"
#include "engine/transport/between_steps.h"
#include "trace/base/text.h"
#include "trace/base/time.h"
#include "trace/base/words.h"

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
  if (dump_) AddParametersToDump("init.");
  Status status = ranks_->OnAll([this](int rank) { return RankLoop(rank); });
  checkpoints_.Close(!status.ok());
  RunSummary summary{.steps = ranks_->job().first_step};
  summary.last = messages_->LastStep();
  if (summary.last) summary.steps = summary.last->step + 1;
  summary.stopped_early = summary.steps < ranks_->job().training.steps;
  if (summary.stopped_early) summary.stop_signal = steering_->signal();
  steering_->SetFinished();
  if (status.ok() && dump_) status = WriteDump(summary.steps);
  if (status.ok()) {
    status = checkpoints_.CheckLast(summary.steps, agreement_->Newest()->checkpoint_every);
  }
  if (!status.ok()) RecordError(summary.steps, status);
  const Status finished = trace_->Finish();
  control_.reset();
  summary.folder = folder_->path();
  summary.trace_path = trace_->path();
  if (is_leader()) {
    messages_->Log(fmt::format("run ends after {}; trace in {}", Counted(summary.steps, "step"),
                               summary.trace_path));
  }
  SHARDSCOPE_RETURN_IF_ERROR(status);
  if (!finished.ok()) {
    // A training that may go on without its trace has not failed for lack of it.
    if (trace_->stops_on_error()) return finished;
    messages_->Say(fmt::format("the trace is not whole ({} lost): {}",
                               Counted(trace_->NumDropped(), "record"), finished.message()));
  }
  return summary;
}

void LiveTrainer::AddParametersToDump(const std::string& prefix) {
  dump_->AddParameters(prefix,
                       [this](const std::string& name) { return ranks_->FullParameter(name); });
}

Status LiveTrainer::WriteDump(int64_t end_step) {
  for (int64_t step = ranks_->job().first_step; step < end_step; ++step) {
    for (int rank = 0; rank < ranks_->size(); ++rank) {
      const auto& batches = ranks_->work(rank).kept_batches();
      const auto index = static_cast<size_t>(step);
      // Stages between the first and the last load none, as long as the ranks are stages.
      if (index >= batches.size() || batches[index].empty()) continue;
      dump_->AddBatch(rank, step, batches[index]);
    }
  }
  AddParametersToDump("final.");
  return dump_->Write();
}

void LiveTrainer::RecordError(int64_t step, const Status& error) {
  if (ranks_->is_stuck()) {
    for (const int rank : ranks_->local()) trace_->AddUnfinished(rank);
  }
  trace_->Mark(step, words::MarkerKind::kError, {.new_value = error.message()});
  messages_->Log(
      (is_leader() ? "error: " : fmt::format("rank {}: error: ", ranks_->first_local())) +
      error.message());
}

Status LiveTrainer::RankLoop(int rank) {
  AskForShortSlices();
  const int64_t steps = ranks_->job().training.steps;
  SHARDSCOPE_RETURN_IF_ERROR(agreement_->CheckInitialState(rank));
  int64_t step = ranks_->job().first_step;
  std::shared_ptr<const Regime> regime = agreement_->Agree(rank, step);
  for (; step < steps; ++step) {
    SHARDSCOPE_ASSIGN_OR_RETURN(regime, EnterStep(rank, step, regime));
    if (regime->decision.stop) break;
    SHARDSCOPE_ASSIGN_OR_RETURN(const bool goes_on,
                                evaluations_->RunIfDue(rank, step, *regime, /*is_end=*/false));
    if (!goes_on) {
      regime = agreement_->Agree(rank, step);  // to stop
      SHARDSCOPE_RETURN_IF_ERROR(Enter(rank, step, regime));
      break;
    }
    SHARDSCOPE_RETURN_IF_ERROR(RunStep(rank, step, *regime));
    regime = agreement_->At(of_rank_[static_cast<size_t>(rank)].next_regime);
  }
  if (step == steps) {
    SHARDSCOPE_RETURN_IF_ERROR(
        evaluations_->RunIfDue(rank, step, *regime, /*is_end=*/true).status());
  }
  checkpoints_.SaveIfDue(rank, step, *regime, /*is_end=*/true);
  return Status::Ok();
}

Result<std::shared_ptr<const Regime>> LiveTrainer::EnterStep(int rank, int64_t step,
                                                             std::shared_ptr<const Regime> regime) {
  const bool is_new = of_rank_[static_cast<size_t>(rank)].entered != regime;
  SHARDSCOPE_RETURN_IF_ERROR(Enter(rank, step, regime));
  std::string_view pause = is_new ? PauseOf(regime->decision) : "";
  const bool saves = checkpoints_.SaveIfDue(rank, step, *regime, regime->decision.stop);
  if (saves && pause.empty()) pause = Name(words::PauseCause::kCheckpoint);
  while (regime->decision.pause) {
    SHARDSCOPE_ASSIGN_OR_RETURN(regime, WaitAndAgree(rank, step));
  }
  if (!pause.empty()) trace_->EndPause(rank, step, pause);
  return regime;
}

// One round of a paused run. Rank 0 waits for the user, the others for rank 0, which tells them
// often enough to show that it lives.
Result<std::shared_ptr<const Regime>> LiveTrainer::WaitAndAgree(int rank, int64_t step) {
  const Decision& pause = of_rank_[static_cast<size_t>(rank)].entered->decision;
  const int64_t beat_ns =
      std::min(kNsPerSecond, std::max<int64_t>(1, ranks_->job().timeout_ns / 4));
  bool goes_on = false;
  while (!goes_on) {
    const bool came_in = rank == 0 && steering_->WaitWhilePaused(pause, beat_ns);
    goes_on = ranks_->transport().Broadcast(rank, came_in ? 1 : 0) == 1;
  }
  std::shared_ptr<const Regime> regime = agreement_->Agree(rank, step);
  SHARDSCOPE_RETURN_IF_ERROR(Enter(rank, step, regime));
  return regime;
}

Status LiveTrainer::RunStep(int rank, int64_t step, const Regime& regime) {
  RankWork& bodies = ranks_->work(rank);
  bodies.BeginStep(step, regime.learning_rate);
  SHARDSCOPE_RETURN_IF_ERROR(ranks_->runner(rank).RunStep(step));
  const StepTimes times = observer_->Take(rank);
  const schema::StepRow row = trace_->AddStep(rank, step, *regime.schedule, times.first_issue_ns);
  // On a GPU the ops of such a step have no times.
  if (!trace_->IsUnrecorded(step)) {
    measured_->Add(step, times);
  }
  ShareStep(rank, {.step = step,
                   .steps = ranks_->job().training.steps,
                   .loss = row.loss,
                   .counts = bodies.outcome().counts,
                   .grad_norm = row.grad_norm,
                   .tokens = row.tokens,
                   .step_ns = row.end_ns - row.start_ns,
                   .exposed_ns = times.exposed_ns,
                   .communication_ns = times.communication_ns,
                   .peak_bytes = bodies.TakePeakBytes()});
  if (rank != ranks_->first_local()) return Status::Ok();
  return trace_->CheckWriter([this](const std::string& text) { messages_->Say(text); });
}

// The control op: all ranks have finished the previous step, and agree on the next one.
void LiveTrainer::AtControl(int rank, int64_t step) {
  const auto index = static_cast<size_t>(rank);
  // They have agreed on the step after it.
  if (evaluations_->IsRunning(rank)) return;
  const Regime& regime = *of_rank_[index].entered;
  // What an evaluation has taken is not the step's.
  const int64_t number = evaluations_->WasBefore(rank, step) ? -1 : regime.number;
  trace_->EndMeasuredStep(rank, {step, number, MonotonicNs()});
  if (step + 1 < ranks_->job().training.steps) {
    of_rank_[index].next_regime = agreement_->Agree(rank, step + 1)->number;
  } else {
    // What comes after the last step is of its regime, which a pause before it may have changed.
    of_rank_[index].next_regime = regime.number;
    transport::Barrier(&ranks_->transport(), rank);
  }
  // Only here has no rank an op of this or another step to record.
  if (trace_->BeginWindow(rank, step, regime.record_steps)) {
    transport::Barrier(&ranks_->transport(), rank);
  }
  trace_->BeginMeasuredStep(rank, {step, regime.number, MonotonicNs()});
}

Status LiveTrainer::Enter(int rank, int64_t step, const std::shared_ptr<const Regime>& regime) {
  std::shared_ptr<const Regime>& entered = of_rank_[static_cast<size_t>(rank)].entered;
  if (entered != nullptr && entered->number == regime->number) return Status::Ok();
  if (entered == nullptr || entered->schedule != regime->schedule) {
    // A Schedule goes into the trace while no op is being recorded.
    transport::Barrier(&ranks_->transport(), rank);
    if (rank == ranks_->first_local()) {
      SHARDSCOPE_RETURN_IF_ERROR(RegisterSchedule(*regime));
    }
    transport::Barrier(&ranks_->transport(), rank);
    const StateLayout before = ranks_->work(rank).layout();
    if (StateLayoutOf(*regime->schedule) != before) checkpoints_.ReleaseCopy(rank);
    SHARDSCOPE_RETURN_IF_ERROR(ranks_->SetSchedule(rank, *regime->schedule));
    const StateLayout& after = ranks_->work(rank).layout();
    if (after != before) trace_->MoveState(rank, before, after);
  }
  ranks_->SetLateness(rank, config::GetLateness(regime->config));
  ranks_->SetLinks(rank, config::GetDimensionLinks(regime->config));
  ranks_->SetHostLink(rank, config::GetHostLink(regime->config));
  if (rank == ranks_->first_local()) Apply(step, *regime);
  entered = regime;
  if (regime->decision.checkpoint) checkpoints_.Save(rank, step, *regime);
  return Status::Ok();
}

// Where the ranks are processes, each gets all reports: one more short message a step, at a time
// when all ranks are about to meet anyway.
void LiveTrainer::ShareStep(int rank, const StepReport& mine) {
  if (!options_.launch) return messages_->AddStep(rank, mine);
  const std::vector<SharedStep> all = transport::GatherValues<SharedStep>(
      &ranks_->transport(), ranks_->size(), rank, {mine, steering_->signal()});
  for (int other = 0; other < ranks_->size(); ++other) {
    const SharedStep& one = all[static_cast<size_t>(other)];
    // Whichever process was told to stop: rank 0 decides for all.
    if (one.signal != 0) steering_->Interrupt(one.signal);
    messages_->AddStep(other, one.report);
  }
}

Status LiveTrainer::RegisterSchedule(const Regime& regime) {
  const plan::Schedule& schedule = *regime.schedule;
  if (trace_->HasSchedule(schedule)) return Status::Ok();
  const int64_t number = trace_->AddSchedule(schedule, checks_->PredictPeaks(regime));
  if (!is_leader()) return Status::Ok();
  const Status status = folder_->WriteSchedule(number, plan::PrintSchedule(schedule));
  if (status.ok()) return status;
  if (trace_->stops_on_error()) {
    return Status::Error(status.message() + " (record.on_error=stop)");
  }
  trace_->Add({.source = "schedules",
               .status = words::CapabilityStatus::kPartial,
               .reason = status.message()},
              /*dropped=*/1);
  messages_->Say(status.message() + "; the training goes on without it");
  return Status::Ok();
}

// One rank of each process, before the first step of the regime.
void LiveTrainer::Apply(int64_t step, const Regime& regime) {
  bool link_changed = regime.number == 0;
  for (const ChangedKey& change : regime.decision.changed) {
    link_changed = link_changed || change.key.starts_with("link.");
    trace_->Mark(step, words::MarkerKind::kChange, change);
    messages_->Say(
        fmt::format("step {}: {} {} -> {}", step, change.key, change.old_value, change.new_value));
  }
  measured_->Enter(regime, link_changed);
  options_.device->Apply(regime.config);
  const std::shared_ptr<const Regime>& before =
      of_rank_[static_cast<size_t>(ranks_->first_local())].entered;
  const bool was_paused = before != nullptr && before->decision.pause;
  if (regime.decision.pause && !was_paused) {
    trace_->Mark(step, words::MarkerKind::kPause, {});
    messages_->Say(fmt::format("paused before step {}", step));
  }
  if (was_paused && !regime.decision.pause) trace_->Mark(step, words::MarkerKind::kResume, {});
  if (regime.decision.stop) {
    trace_->Mark(step, words::MarkerKind::kStop, {});
    messages_->Say(fmt::format("stopped before step {}", step));
  }
}

}  // namespace shardscope::runtime
