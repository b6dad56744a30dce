#include "engine/runtime/run_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/footprint/out_of_memory.h"
#include "engine/footprint/unlisted_memory.h"
#include "engine/plan/memory.h"
#include "engine/plan/policy.h"
#include "engine/runtime/ranks/faulty_bodies.h"
#include "engine/runtime/units/state_move.h"

namespace shardscope::runtime {

RunChecks::RunChecks(Ranks* ranks, const RunCheckpoints& checkpoints, EvaluationRunner* evaluations)
    : ranks_(*ranks),
      checkpoints_(checkpoints),
      evaluations_(*evaluations),
      schedules_([&job = ranks->job()](const auto& units) {
        return model::DescribeModel(job.model, units, job.training.batch);
      }) {}

Result<std::shared_ptr<const plan::Schedule>> RunChecks::ScheduleOf(const config::Config& config,
                                                                    bool reads) {
  const plan::Policy policy = config::ToPolicy(config);
  SHARDSCOPE_RETURN_IF_ERROR(model::CheckUnits(ranks_.job().model, policy.units));
  const std::string& path = config.Get("schedule.file");
  if (path.empty()) return schedules_.Get(policy);
  auto written = schedules_.GetWritten(path, policy, reads);
  if (written.ok()) return written;
  return Status::Error(fmt::format(
      "schedule.file: {}; leave it empty (schedule.file=) to train with what strategy and prefetch "
      "give",
      written.message()));
}

Status RunChecks::CheckStart(const config::Config& config) {
  const Result<std::shared_ptr<const plan::Schedule>> schedule = ScheduleOf(config);
  if (!schedule.ok()) return schedule.status();
  const footprint::Question question{.limit_bytes = config.GetInt("engine.memory_limit")};
  SHARDSCOPE_RETURN_IF_ERROR(CheckLimit(config, **schedule, question));
  SHARDSCOPE_RETURN_IF_ERROR(CheckEvaluation(config, question));
  for (const config::Fault& fault : ranks_.job().faults) {
    SHARDSCOPE_RETURN_IF_ERROR(CheckFault(fault, **schedule));
  }
  config::Config at_step = config;
  at_step.ClearChanges();  // copied with every change otherwise
  for (const config::Change& change : config.changes()) {
    const config::Config before = at_step;
    Status status = config::ApplyLive(change.set, &at_step);
    if (status.ok()) status = CheckChange(before, at_step);
    if (!status.ok()) {
      return Status::Error(fmt::format("change at step {}: {}", change.step, status.message()));
    }
  }
  return Status::Ok();
}

Status RunChecks::CheckChange(const config::Config& before, const config::Config& after) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const auto from, ScheduleOf(before));
  const std::string& path = after.Get("schedule.file");
  const bool is_other_file = path != before.Get("schedule.file");
  if (!path.empty() && !is_other_file && config::ToPolicy(before) != config::ToPolicy(after)) {
    return Status::Error(fmt::format(
        "that would change nothing: schedule.file={} says what is issued when; set schedule.file= "
        "(empty) too",
        path));
  }
  SHARDSCOPE_ASSIGN_OR_RETURN(const auto to, ScheduleOf(after, /*reads=*/is_other_file));
  const StateLayout layout_before = StateLayoutOf(*from);
  const auto bytes_of_move = [&](const plan::Schedule& schedule) -> int64_t {
    const StateLayout layout = StateLayoutOf(schedule);
    if (layout == layout_before) return 0;
    return BytesOfMove(layout_before, layout, ranks_.job().master);
  };
  const int64_t limit_bytes = after.GetInt("engine.memory_limit");
  footprint::Question question{.limit_bytes = limit_bytes, .only_live = true, .in_force = &before};
  question.needed = [&](const config::Config& config) -> Result<int64_t> {
    SHARDSCOPE_ASSIGN_OR_RETURN(const footprint::Footprint footprint, FootprintWith(config));
    return std::max(footprint.needed_bytes(), bytes_of_move(footprint.schedule));
  };
  SHARDSCOPE_RETURN_IF_ERROR(CheckLimit(after, *to, question));
  const int64_t needed_bytes = bytes_of_move(*to);
  if (limit_bytes == 0 || needed_bytes <= limit_bytes) {
    SHARDSCOPE_RETURN_IF_ERROR(CheckEvaluation(after, question));
    if (!path.empty()) schedules_.KeepWritten(path, to);
    return Status::Ok();
  }
  return Status::Error(
      footprint::StateMoveText(after, {from->name, to->name, needed_bytes}, question));
}

std::vector<int64_t> RunChecks::BoundsOf(const plan::Schedule& schedule, bool has_copy) const {
  plan::Unlisted unlisted = ranks_.UnlistedMemory(schedule);
  if (has_copy) {
    unlisted = footprint::WithCheckpointCopy(std::move(unlisted), schedule, ranks_.job().master);
  }
  return plan::BoundPeaks(schedule, unlisted);
}

executor::PredictedPeaks RunChecks::PredictPeaks(const Regime& regime) const {
  const plan::Schedule& schedule = *regime.schedule;
  const int64_t shared_bytes = ranks_.shared_tensor_bytes();
  const std::vector<int64_t> issued = plan::PredictPeaks(schedule);
  const std::vector<int64_t> executed = BoundsOf(schedule, checkpoints_.HasCopyWith(regime.config));
  executor::PredictedPeaks peaks;
  // Some rank of the process also has the tables that they share: here that of the most.
  peaks.largest = {*std::ranges::max_element(issued),
                   *std::ranges::max_element(executed) + shared_bytes};
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    const auto program = static_cast<size_t>(schedule.program_of_rank[static_cast<size_t>(rank)]);
    const bool has_tables = rank == ranks_.first_local();
    peaks.by_rank.push_back({issued[program], executed[program] + (has_tables ? shared_bytes : 0)});
  }
  return peaks;
}

std::string RunChecks::ExplainOutOfMemory(const config::Config& config, int64_t wanted_bytes) {
  const Result<footprint::Footprint> footprint = FootprintWith(config);
  if (!footprint.ok()) return footprint.message();
  // What the bound does not contain is there with other keys too.
  const int64_t unknown_bytes = std::max<int64_t>(0, wanted_bytes - footprint->needed_bytes());
  const footprint::Question question{.limit_bytes =
                                         config.GetInt("engine.memory_limit") - unknown_bytes};
  return footprint::PeakText(*footprint) + ". " +
         footprint::AdviceText(footprint::Advise(config, footprint->needed_bytes(), question),
                               question.limit_bytes);
}

Status RunChecks::CheckLimit(const config::Config& config, const plan::Schedule& schedule,
                             const footprint::Question& question) {
  const int64_t limit_bytes = question.limit_bytes;
  if (limit_bytes == 0) return Status::Ok();
  const std::vector<int64_t> bounds = BoundsOf(schedule, checkpoints_.HasCopyWith(config));
  if (*std::ranges::max_element(bounds) <= limit_bytes) return Status::Ok();
  SHARDSCOPE_ASSIGN_OR_RETURN(const footprint::Footprint footprint, FootprintWith(config));
  return Status::Error(footprint::OutOfMemoryText(config, footprint, question));
}

Status RunChecks::CheckEvaluation(const config::Config& config,
                                  const footprint::Question& question) {
  if (!evaluations_.HasData()) return Status::Ok();
  SHARDSCOPE_ASSIGN_OR_RETURN(const auto schedule, evaluations_.ScheduleOf(config));
  if (question.limit_bytes == 0) return Status::Ok();
  const std::vector<int64_t> bounds = BoundsOf(*schedule, checkpoints_.HasCopyWith(config));
  if (*std::ranges::max_element(bounds) <= question.limit_bytes) return Status::Ok();
  const auto footprint_of = [&](const config::Config& other) {
    return footprint::EvaluationFootprintOf(other, CopyWith(other));
  };
  SHARDSCOPE_ASSIGN_OR_RETURN(const footprint::Footprint footprint, footprint_of(config));
  // With what fits there is room for the steps, too.
  footprint::Question both = question;
  both.needed = [&](const config::Config& other) -> Result<int64_t> {
    SHARDSCOPE_ASSIGN_OR_RETURN(const int64_t needed_bytes, question.needed(other));
    SHARDSCOPE_ASSIGN_OR_RETURN(const footprint::Footprint evaluates, footprint_of(other));
    return std::max(needed_bytes, evaluates.needed_bytes());
  };
  return Status::Error(footprint::OutOfMemoryText(config, footprint, both) + "; " +
                       footprint::out_of_memory::kNoEvaluation);
}

Result<footprint::Footprint> RunChecks::FootprintWith(const config::Config& config) {
  const footprint::CheckpointCopy copy = CopyWith(config);
  if (config.Get("schedule.file").empty()) return footprint::FootprintOf(config, copy);
  SHARDSCOPE_ASSIGN_OR_RETURN(const auto written, ScheduleOf(config));
  return footprint::FootprintOf(config, copy, written.get());
}

footprint::CheckpointCopy RunChecks::CopyWith(const config::Config& config) const {
  return checkpoints_.HasCopyWith(config) ? footprint::CheckpointCopy::kThere
                                          : footprint::CheckpointCopy::kIfWanted;
}

}  // namespace shardscope::runtime
