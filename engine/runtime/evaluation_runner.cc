#include "engine/runtime/evaluation_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "engine/transport/between_steps.h"
#include "trace/base/text.h"
#include "trace/base/time.h"
#include "trace/base/units.h"

namespace shardscope::runtime {
namespace {

// op_run.step of the first batch of a run; those that follow count down.
constexpr int64_t kFirstBatch = -2;

}  // namespace

// Built once for each policy, and kept: the trace borrows them.
Result<std::shared_ptr<const plan::Schedule>> EvaluationRunner::ScheduleOf(
    const config::Config& config) {
  const plan::Policy policy = config::ToPolicy(config);
  const Job& job = ranks_.job();
  const MutexLock lock(mutex_);
  const auto found =
      std::ranges::find(schedules_, policy, [](const auto& one) { return one.first; });
  if (found != schedules_.end()) return found->second;
  SHARDSCOPE_ASSIGN_OR_RETURN(
      plan::Schedule schedule,
      plan::BuildEvaluation(model::DescribeModel(job.model, policy.units, job.training.batch),
                            policy));
  schedules_.emplace_back(policy, std::make_shared<const plan::Schedule>(std::move(schedule)));
  return schedules_.back().second;
}

// The same on all ranks.
int64_t EvaluationRunner::CountedTargets() {
  const MutexLock lock(mutex_);
  if (!targets_) targets_ = ranks_.job().held_out->CountedTargets();
  return *targets_;
}

Result<bool> EvaluationRunner::RunIfDue(int rank, int64_t step, const Regime& regime, bool is_end) {
  const HeldOut* held_out = ranks_.job().held_out.get();
  int64_t& last = At(rank).step;
  if (held_out == nullptr || last == step || (!is_end && !held_out->IsDue(step))) return true;
  last = step;
  SHARDSCOPE_ASSIGN_OR_RETURN(const auto schedule, ScheduleOf(regime.config));
  // A Schedule goes into the trace while no op is being recorded.
  transport::Barrier(&ranks_.transport(), rank);
  if (rank == ranks_.first_local()) {
    Regime evaluates = regime;
    evaluates.schedule = schedule;
    SHARDSCOPE_RETURN_IF_ERROR(listeners_.on_schedule(evaluates));
  }
  transport::Barrier(&ranks_.transport(), rank);
  SHARDSCOPE_RETURN_IF_ERROR(ranks_.SetSchedule(rank, *schedule));
  SHARDSCOPE_ASSIGN_OR_RETURN(const bool is_whole, Run(rank, step, *schedule));
  SHARDSCOPE_RETURN_IF_ERROR(ranks_.SetSchedule(rank, *regime.schedule));
  listeners_.trace->EndPause(rank, step, Name(words::PauseCause::kEvaluation));
  return is_whole;
}

bool EvaluationRunner::AgreeToStop(int rank) {
  const StopRequest mine = {.signal = listeners_.steering->signal(),
                            .stops = listeners_.steering->is_stopping()};
  bool stops = false;
  for (const StopRequest& one :
       transport::GatherValues(&ranks_.transport(), ranks_.size(), rank, mine, "evaluation")) {
    // Rank 0, which decides for all, may not have got the signal itself.
    if (one.signal != 0) listeners_.steering->Interrupt(one.signal);
    stops = stops || one.stops;
  }
  return stops;
}

Result<bool> EvaluationRunner::Run(int rank, int64_t step, const plan::Schedule& schedule) {
  const Job& job = ranks_.job();
  RankWork& work = ranks_.work(rank);
  OfRank& evaluated = At(rank);
  const int64_t batch_samples =
      job.training.batch * job.training.micro_batches * schedule.mesh.SizeOf(plan::kDataDimensions);
  const int64_t batches = job.held_out->NumBatches(batch_samples);
  EvaluationTimes row{.first_batch = kFirstBatch - evaluated.batches,
                      .batches = batches,
                      .start_ns = MonotonicNs()};
  double sum = 0;
  int64_t batch = 0;
  evaluated.is_running = true;
  // Ranks meet before each batch, as a forward alone may have no collective.
  for (; batch < batches && !AgreeToStop(rank); ++batch) {
    work.BeginEvaluation({.first = batch * batch_samples, .end = job.held_out->num_samples});
    SHARDSCOPE_RETURN_IF_ERROR(ranks_.runner(rank).RunStep(kFirstBatch - evaluated.batches++));
    listeners_.trace->EndBatch(rank);
    sum += work.outcome().loss;
    listeners_.observer->Take(rank);  // not the next step's
  }
  evaluated.is_running = false;
  work.TakePeakBytes();  // nor is this
  if (batch < batches) {
    if (rank == 0) {
      listeners_.on_message(fmt::format("evaluation before step {}: stopped after {} of {} batches",
                                        step, batch, batches));
    }
    return false;
  }
  double of_all = 0;
  for (const double one :
       transport::GatherValues(&ranks_.transport(), ranks_.size(), rank, sum, "evaluation")) {
    of_all += one;
  }
  row.end_ns = MonotonicNs();
  row.tokens = CountedTargets();
  row.loss = of_all / static_cast<double>(row.tokens);
  listeners_.trace->AddEvaluation(rank, step, schedule, row);
  if (rank == 0) {
    listeners_.on_message(fmt::format("evaluation before step {}: loss {:.4f} over {} in {}", step,
                                      row.loss, Counted(row.tokens, "token"),
                                      FormatDuration(row.end_ns - row.start_ns)));
  }
  return true;
}

}  // namespace shardscope::runtime
