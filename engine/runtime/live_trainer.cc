// The ranks' loop over steps, how they agree on what is in force, and what happens between steps.
#include "engine/runtime/live_trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "engine/plan/memory.h"
#include "engine/plan/text.h"
#include "engine/runtime/ranks/initial_state.h"
#include "engine/runtime/ranks/thread_setup.h"
#include "engine/transport/between_steps.h"
#include "trace/base/check.h"
#include "trace/base/mutex.h"
#include "trace/base/text.h"
#include "trace/base/time.h"
#include "trace/base/units.h"
#include "trace/base/words.h"

namespace shardscope::runtime {
namespace {

// Why training stands still before the step that `decision` is of; empty if it does not.
std::string_view PauseOf(const Decision& decision) {
  if (decision.pause) return Name(words::PauseCause::kUser);
  if (decision.checkpoint) return Name(words::PauseCause::kCheckpoint);
  return decision.changed.empty() ? std::string_view() : Name(words::PauseCause::kChange);
}

// Keys that may differ: the leader alone has a socket.
bool IsShared(const std::string& key) { return key != "run.control_socket"; }

}  // namespace

Result<RunSummary> LiveTrainer::Run() {
  if (dump_) AddParametersToDump("init.");
  Status status = ranks_->OnAll([this](int rank) { return RankLoop(rank); });
  checkpoints_.Close(!status.ok());
  RunSummary summary{.steps = ranks_->job().first_step};
  summary.last = reports_->Last();
  if (summary.last) summary.steps = summary.last->step + 1;
  summary.stopped_early = summary.steps < ranks_->job().training.steps;
  if (summary.stopped_early) summary.stop_signal = steering_->signal();
  steering_->SetFinished();
  if (status.ok() && dump_) status = WriteDump(summary.steps);
  if (status.ok()) {
    status = checkpoints_.CheckLast(summary.steps, regimes_.Newest()->checkpoint_every);
  }
  if (!status.ok()) RecordError(summary.steps, status);
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
    if (stops_without_trace_) return finished;
    Message(fmt::format("the trace is not whole ({} lost): {}",
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
      // Stages between the first and the last load none.
      if (batches.empty()) continue;
      dump_->AddBatch(step, rank, batches[static_cast<size_t>(step)]);
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
  folder_->Log((is_leader() ? "error: " : fmt::format("rank {}: error: ", ranks_->first_local())) +
               error.message());
}

Status LiveTrainer::RankLoop(int rank) {
  AskForShortSlices();
  const int64_t steps = ranks_->job().training.steps;
  SHARDSCOPE_RETURN_IF_ERROR(CheckInitialState(rank));
  int64_t step = ranks_->job().first_step;
  std::shared_ptr<const Regime> regime = Agree(rank, step);
  for (; step < steps; ++step) {
    SHARDSCOPE_ASSIGN_OR_RETURN(regime, EnterStep(rank, step, regime));
    if (regime->decision.stop) break;
    SHARDSCOPE_ASSIGN_OR_RETURN(const bool goes_on,
                                evaluations_->RunIfDue(rank, step, *regime, /*is_end=*/false));
    if (!goes_on) {
      regime = Agree(rank, step);  // to stop
      SHARDSCOPE_RETURN_IF_ERROR(Enter(rank, step, regime));
      break;
    }
    SHARDSCOPE_RETURN_IF_ERROR(RunStep(rank, step, *regime));
    regime = regimes_.At(of_rank_[static_cast<size_t>(rank)].next_regime);
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

// All ranks come to the same.
Status LiveTrainer::CheckInitialState(int rank) {
  transport::Transport& transport = ranks_->transport();
  const InitialState mine = InitialStateOf(ranks_->job(), rank, &ranks_->work(rank));
  const Status status = CheckInitialStates(
      transport::GatherValues(&transport, ranks_->size(), rank, mine, "initial state"));
  // Those whose messages are still under way when this process goes get it so.
  if (!status.ok() && has_processes()) transport.Abort(status.message());
  return status;
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
  std::shared_ptr<const Regime> regime = Agree(rank, step);
  SHARDSCOPE_RETURN_IF_ERROR(Enter(rank, step, regime));
  return regime;
}

Status LiveTrainer::RunStep(int rank, int64_t step, const Regime& regime) {
  RankWork& bodies = ranks_->work(rank);
  bodies.BeginStep(regime.learning_rate);
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
  // They have agreed on the step after it.
  if (evaluations_->IsRunning(rank)) return;
  const Regime& regime = *of_rank_[index].entered;
  // What an evaluation has taken is not the step's.
  const int64_t number = evaluations_->WasBefore(rank, step) ? -1 : regime.number;
  trace_->EndMeasuredStep(rank, {step, number, MonotonicNs()});
  if (step + 1 < ranks_->job().training.steps) {
    of_rank_[index].next_regime = Agree(rank, step + 1)->number;
  } else {
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
    // The trace learns of a Schedule while no op is being recorded.
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
  const MutexLock message_lock(message_mutex_);
  options_.on_step(*all);
}

// Makes a new regime if anything is different from the one before.
std::shared_ptr<const Regime> LiveTrainer::Decide(int64_t step) {
  Decision decision = steering_->Decide(step);
  for (const std::string& refused : decision.refused) Message(refused);
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

executor::PredictedPeaks LiveTrainer::PredictPeaks(const Regime& regime) const {
  const plan::Schedule& schedule = *regime.schedule;
  const int64_t shared_bytes = ranks_->shared_tensor_bytes();
  const std::vector<int64_t> issued = plan::PredictPeaks(schedule);
  const std::vector<int64_t> executed = BoundsOf(schedule, checkpoints_.HasCopyWith(regime.config));
  executor::PredictedPeaks peaks;
  // Some rank of the process also has the tables that they share: here that of the most.
  peaks.largest = {*std::ranges::max_element(issued),
                   *std::ranges::max_element(executed) + shared_bytes};
  for (int rank = 0; rank < ranks_->size(); ++rank) {
    const auto program = static_cast<size_t>(schedule.program_of_rank[static_cast<size_t>(rank)]);
    const bool has_tables = rank == ranks_->first_local();
    peaks.by_rank.push_back({issued[program], executed[program] + (has_tables ? shared_bytes : 0)});
  }
  return peaks;
}

Status LiveTrainer::RegisterSchedule(const Regime& regime) {
  const plan::Schedule& schedule = *regime.schedule;
  if (trace_->HasSchedule(schedule)) return Status::Ok();
  const int64_t number = trace_->AddSchedule(schedule, PredictPeaks(regime));
  if (!is_leader()) return Status::Ok();
  const Status status = folder_->WriteSchedule(number, plan::PrintSchedule(schedule));
  if (status.ok()) return status;
  if (stops_without_trace_) {
    return Status::Error(status.message() + " (record.on_error=stop)");
  }
  trace_->Add({.source = "schedules",
               .status = words::CapabilityStatus::kPartial,
               .reason = status.message()},
              /*dropped=*/1);
  Message(status.message() + "; the training goes on without it");
  return Status::Ok();
}

// One rank of each process, before the first step of the regime.
void LiveTrainer::Apply(int64_t step, const Regime& regime) {
  bool link_changed = regime.number == 0;
  for (const ChangedKey& change : regime.decision.changed) {
    link_changed = link_changed || change.key.starts_with("link.");
    trace_->Mark(step, words::MarkerKind::kChange, change);
    Message(
        fmt::format("step {}: {} {} -> {}", step, change.key, change.old_value, change.new_value));
  }
  measured_->Enter(regime, link_changed);
  options_.device->Apply(regime.config);
  const std::shared_ptr<const Regime>& before =
      of_rank_[static_cast<size_t>(ranks_->first_local())].entered;
  const bool was_paused = before != nullptr && before->decision.pause;
  if (regime.decision.pause && !was_paused) {
    trace_->Mark(step, words::MarkerKind::kPause, {});
    Message(fmt::format("paused before step {}", step));
  }
  if (was_paused && !regime.decision.pause) trace_->Mark(step, words::MarkerKind::kResume, {});
  if (regime.decision.stop) {
    trace_->Mark(step, words::MarkerKind::kStop, {});
    Message(fmt::format("stopped before step {}", step));
  }
}

void LiveTrainer::Message(const std::string& text) {
  if (!is_leader()) return;
  const MutexLock lock(message_mutex_);
  folder_->Log(text);
  if (options_.on_message) options_.on_message(text);
}

Status LiveTrainer::CheckTrace() {
  const Status status = trace_->WriterStatus();
  if (status.ok() || warned_of_trace_) return Status::Ok();
  if (stops_without_trace_) {
    return Status::Error("the trace cannot be written, and record.on_error=stop: " +
                         status.message());
  }
  warned_of_trace_ = true;
  Message("the trace cannot be written, training goes on without it: " + status.message());
  return Status::Ok();
}

// Paths and values are single lines.
Status LiveTrainer::AgreeOnRun() {
  if (!has_processes()) return Status::Ok();
  std::string text;
  if (is_leader()) text = folder_->path() + "\n" + run_id_ + "\n";
  if (is_leader()) {
    for (const auto& [key, value] : options_.config.Values()) {
      if (IsShared(key)) text += key + "=" + value + "\n";
    }
    text += ranks_->job().corpus->content + "\n";
  }
  const int rank = options_.launch->rank;
  text = transport::BroadcastText(&ranks_->transport(), ranks_->size(), rank, text);
  if (!is_leader()) SHARDSCOPE_RETURN_IF_ERROR(TakeRun(text));
  // None begins before all have agreed.
  transport::Barrier(&ranks_->transport(), rank);
  return Status::Ok();
}

// What the leader says of the run, where this process follows.
Status LiveTrainer::TakeRun(std::string_view text) {
  const std::string path(TakeField(&text, '\n'));
  run_id_ = TakeField(&text, '\n');
  for (const auto& [key, value] : options_.config.Values()) {
    if (!IsShared(key)) continue;
    const std::string mine = key + "=" + value;
    const std::string leaders(TakeField(&text, '\n'));
    if (mine != leaders) {
      return Status::Error(fmt::format(
          "rank {} was given {}, rank 0 {}: all processes of a run need the same settings{}",
          options_.launch->rank, mine, leaders,
          config::FindKey(key)->is_path
              ? "; a relative path is one in the folder where a process starts: give absolute ones"
              : ""));
    }
  }
  // Also where no key names them, or a path leads elsewhere on another machine.
  if (TakeField(&text, '\n') != ranks_->job().corpus->content) {
    return Status::Error(fmt::format(
        "rank {} reads other data than rank 0: all processes of a run need the same; set data.path "
        "to the absolute path of a file or folder that all of them see",
        options_.launch->rank));
  }
  Result<RunFolder> folder = RunFolder::Attach(path);
  if (!folder.ok()) return folder.status();
  folder_ = std::move(folder).value();
  return Status::Ok();
}

// All processes get all regimes, in order: what they count is the same everywhere.
void LiveTrainer::AgreeOnRegime(int rank, int64_t number) {
  if (!has_processes() || number < num_agreed_) return;
  ++num_agreed_;
  const std::shared_ptr<const Regime> last = number > 0 ? regimes_.At(number - 1) : nullptr;
  const std::string mine = is_leader() ? PrintRegime(*regimes_.At(number), last.get()) : "";
  const std::string text =
      transport::BroadcastText(&ranks_->transport(), ranks_->size(), rank, mine);
  if (is_leader()) return;
  Result<Regime> regime = ParseRegime(text, last == nullptr ? options_.config : last->config);
  if (!regime.ok()) throw std::runtime_error(regime.message());
  const bool is_written = !regime->config.Get("schedule.file").empty();
  if (regime->schedule == nullptr && is_written) {
    regime->schedule = last->schedule;  // else it would have been told
  } else if (regime->schedule == nullptr) {
    // Built from the same keys as the leader's, hence the same.
    Result<std::shared_ptr<const plan::Schedule>> schedule = ScheduleOf(regime->config);
    if (!schedule.ok()) throw std::runtime_error(schedule.message());
    regime->schedule = *schedule;
  }
  regimes_.Add(std::move(regime).value());
}

}  // namespace shardscope::runtime
