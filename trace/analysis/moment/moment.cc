#include "trace/analysis/moment/moment.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "trace/analysis/no_such_steps.h"
#include "trace/analysis/op_share.h"
#include "trace/analysis/scope.h"
#include "trace/base/enum_count.h"
#include "trace/base/units.h"
#include "trace/query/step_times.h"

namespace shardscope::analysis {
namespace {

using query::MemoryCategory;

constexpr std::string_view kStep = "step=";

struct StepNumbers {
  int32_t first = INT32_MAX;
  int32_t last = -1;

  void Take(int32_t step) {
    first = std::min(first, step);
    last = std::max(last, step);
  }
};

// The steps that the range touches, unfinished ones too.
StepNumbers StepsOf(const query::Snapshot& snapshot, Interval range) {
  StepNumbers steps;
  for (const query::RankRows& rows : snapshot.ranks) {
    for (const query::Step& step : query::StepsThatTouch(rows, range)) steps.Take(step.step);
    const bool is_behind = rows.steps.empty() || rows.steps.back().end_ns < range.end_ns;
    if (is_behind) steps.Take(rows.steps.empty() ? 0 : rows.steps.back().step + 1);
  }
  if (steps.last >= 0) steps.last = std::min(steps.last, steps.first + kMostMomentSteps - 1);
  return steps;
}

RunningOp RunningOf(const IndexedRun& indexed, int64_t time_ns) {
  const query::OpRun& run = indexed.run;
  RunningOp running;
  running.op_run = run.id;
  running.op = indexed.op;
  running.started_ns = run.started_ns;
  running.ended_ns = run.ended_ns;
  running.done = static_cast<double>(time_ns - run.started_ns) /
                 static_cast<double>(run.ended_ns - run.started_ns);
  return running;
}

bool Runs(const query::OpRun& run, int64_t time_ns) {
  return run.started_ns <= time_ns && time_ns < run.ended_ns;
}

// "4.2ms" of "step=3+4.2ms"; none: its start.
std::optional<int64_t> ParseOffset(std::string_view text) {
  if (text.empty()) return 0;
  if (text.front() != '+') return std::nullopt;
  return ParseDuration(text.substr(1));
}

}  // namespace

std::string_view Name(RankState state) {
  static constexpr auto kNames = std::to_array<std::string_view>(
      {"nothing", "between_steps", "computes", "waits", "waits_for_slot", "no_compute"});
  static_assert(kNames.size() == kCountOf<RankState>);
  return kNames[static_cast<size_t>(state)];
}

Moments::Moments(query::SnapshotPtr snapshot, Interval range)
    : snapshot_(std::move(snapshot)), range_(range) {
  const StepNumbers steps = StepsOf(*snapshot_, range_);
  for (const query::RankRows& rows : snapshot_->ranks) ranks_.emplace_back().rows = &rows;
  const auto rank_of = [&](int32_t rank) -> Rank& {
    return *std::ranges::find_if(ranks_, [&](const Rank& it) { return it.rows->rank == rank; });
  };
  for (StepIndex& step : IndexSteps(*snapshot_, steps.first, steps.last)) {
    rank_of(step.rank).steps.push_back(std::move(step));
  }
  for (Stall& stall : Stalls(*snapshot_, steps.first, steps.last)) {
    rank_of(stall.rank).stalls.push_back(std::move(stall));
  }
  for (CollectiveRun& run : Collectives(*snapshot_, steps.first, steps.last)) {
    const std::pair key(run.rank, run.op_run);
    collectives_.insert_or_assign(key, std::move(run));
  }
  for (Rank& rank : ranks_) {
    std::ranges::stable_sort(rank.stalls, {}, &Stall::start_ns);
    TakeMemory(&rank);
  }
  TakeBoundaries();
}

void Moments::TakeMemory(Rank* rank) const {
  for (const query::MemoryEvent& event : rank->rows->memory) {
    if (event.executed_ns > range_.end_ns) continue;
    const auto unit = static_cast<uint16_t>(event.unit);
    if (event.executed_ns < range_.start_ns) {
      rank->live_before[{event.category, unit}] += event.bytes;
    } else {
      rank->changes.push_back({event.executed_ns, event.bytes, event.category, unit});
    }
  }
  std::ranges::stable_sort(rank->changes, {}, &Change::time_ns);
}

void Moments::TakeBoundaries() {
  boundaries_ = {range_.start_ns, range_.end_ns};
  for (const Rank& rank : ranks_) {
    for (const StepIndex& step : rank.steps) {
      for (const IndexedRun& run : step.runs) {
        if (ShareOf(*run.op) == OpShare::kNone) continue;
        for (const int64_t time_ns : {run.run.started_ns, run.run.ended_ns}) {
          if (time_ns > range_.start_ns && time_ns < range_.end_ns) boundaries_.push_back(time_ns);
        }
      }
    }
  }
  std::sort(boundaries_.begin(), boundaries_.end());
  boundaries_.erase(std::unique(boundaries_.begin(), boundaries_.end()), boundaries_.end());
}

Moment Moments::At(int64_t time_ns) const {
  Moment moment;
  moment.time_ns = time_ns;
  for (const Rank& rank : ranks_) moment.ranks.push_back(MomentOf(rank, time_ns));
  return moment;
}

// The ops of a step end with it, those of one that is not finished with what is recorded.
const StepIndex* Moments::StepAt(const Rank& rank, int64_t time_ns) {
  for (const StepIndex& step : rank.steps) {
    if (time_ns < step.start_ns) continue;
    int64_t end_ns = step.end_ns;
    if (!step.finished) {
      for (const IndexedRun& run : step.runs) end_ns = std::max(end_ns, run.run.ended_ns);
    }
    if (time_ns < end_ns) return &step;
  }
  return nullptr;
}

RankMoment Moments::MomentOf(const Rank& rank, int64_t time_ns) const {
  RankMoment moment;
  moment.rank = rank.rows->rank;
  AddMemory(rank, time_ns, &moment);
  if (time_ns < range_.start_ns || time_ns > range_.end_ns) return moment;
  const StepIndex* step = StepAt(rank, time_ns);
  if (step == nullptr) {
    const query::RowList<query::Step>& steps = rank.rows->steps;
    const bool is_between =
        !steps.empty() && steps[0].start_ns <= time_ns && time_ns < steps.back().end_ns;
    if (is_between) moment.state = RankState::kBetweenSteps;
    return moment;
  }
  moment.step = step->step;
  moment.step_start_ns = step->start_ns;
  AddOps(*step, time_ns, &moment);
  moment.state = moment.compute.empty() ? RankState::kNoCompute : RankState::kComputes;
  if (moment.compute.empty()) AddStall(rank, *step, time_ns, &moment);
  return moment;
}

void Moments::AddOps(const StepIndex& step, int64_t time_ns, RankMoment* moment) const {
  for (const IndexedRun& run : step.runs) {
    if (run.run.started_ns > time_ns) break;
    if (!Runs(run.run, time_ns)) continue;
    RunningOp running = RunningOf(run, time_ns);
    switch (ShareOf(*run.op)) {
      case OpShare::kNone:
        break;
      case OpShare::kCompute:
        moment->compute.push_back(running);
        break;
      case OpShare::kCopy:
        moment->copies.push_back(running);
        break;
      case OpShare::kCommunication: {
        const auto found = collectives_.find({step.rank, run.run.id});
        const bool is_awaited =
            found != collectives_.end() && time_ns < found->second.last_arrival_ns;
        if (is_awaited) running.awaited_rank = found->second.last_rank;
        moment->communication.push_back(running);
        break;
      }
    }
  }
}

void Moments::AddStall(const Rank& rank, const StepIndex& step, int64_t time_ns,
                       RankMoment* moment) const {
  const auto stall = std::ranges::find_if(
      rank.stalls, [&](const Stall& it) { return it.start_ns <= time_ns && time_ns < it.end_ns; });
  if (stall == rank.stalls.end()) return;
  moment->stall = *stall;
  if (stall->cause == StallCause::kSlot) {
    moment->state = RankState::kWaitsForSlot;
    return;
  }
  const auto awaited = std::ranges::find_if(
      step.runs, [&](const IndexedRun& it) { return it.run.id == stall->blocking_op_run; });
  if (awaited == step.runs.end()) return;
  moment->state = RankState::kWaits;
  moment->awaited = awaited->op;
}

void Moments::AddMemory(const Rank& rank, int64_t time_ns, RankMoment* moment) const {
  moment->has_memory = !rank.rows->memory.empty() && time_ns >= range_.start_ns;
  if (!moment->has_memory) return;
  std::map<UnitKey, int64_t> live = rank.live_before;
  for (const Change& change : rank.changes) {
    if (change.time_ns > time_ns) break;
    live[{change.category, change.unit}] += change.bytes;
  }
  for (const auto& [key, bytes] : live) {
    if (bytes == 0) continue;
    moment->live[static_cast<size_t>(key.first)] += bytes;
    moment->live_bytes += InTotal(key.first, bytes);
    moment->live_of_units[{key.first, snapshot_->memory_units[key.second]}] = bytes;
  }
}

Result<Interval> TimesOfStep(const query::Snapshot& snapshot, int32_t step) {
  if (const auto times = query::TimesOfSteps(snapshot, step, step)) return *times;
  StepNumbers all;
  for (const query::RankRows& rank : snapshot.ranks) {
    for (const query::Step& row : rank.steps) all.Take(row.step);
  }
  return NoSuchSteps(step, step, all.first, all.last);
}

int32_t FinishedStepAt(const query::Snapshot& snapshot, int64_t time_ns) {
  for (const query::RankRows& rank : snapshot.ranks) {
    const query::Step* const step = query::StepAt(rank, time_ns);
    if (step != nullptr) return step->step;
  }
  return -1;
}

std::optional<int32_t> StepOfMoment(std::string_view text) {
  if (!text.starts_with(kStep)) return std::nullopt;
  text.remove_prefix(kStep.size());
  return ParseStep(text.substr(0, text.find('+')));
}

Result<int64_t> ParseMoment(const query::Snapshot& snapshot, std::string_view text) {
  const auto malformed = [&text] {
    return Status::Error(fmt::format(
        "{}: give a time from the start of the run, as 12.5s, or in a step, as step=3+4.2ms",
        text));
  };
  int64_t start_ns = snapshot.RunStartNs();
  std::optional<int64_t> offset_ns;
  if (text.starts_with(kStep)) {
    const std::optional<int32_t> step = StepOfMoment(text);
    if (!step) return malformed();
    offset_ns = ParseOffset(text.substr(std::min(text.find('+'), text.size())));
    if (!offset_ns) return malformed();
    const Result<Interval> times = TimesOfStep(snapshot, *step);
    const auto elsewhere = snapshot.part ? snapshot.part->StartOf(*step) : std::nullopt;
    if (!times.ok() && !elsewhere) return times.status();
    start_ns = times.ok() ? times->start_ns : *elsewhere;
  } else {
    offset_ns = ParseDuration(text);
  }
  if (!offset_ns) return malformed();
  if (*offset_ns > snapshot.RunEndNs() - start_ns) {
    return Status::Error(fmt::format("{}: the run ends {} from its start", text,
                                     FormatDuration(snapshot.RunEndNs() - snapshot.RunStartNs())));
  }
  return start_ns + *offset_ns;
}

Result<int64_t> ParseMomentOf(std::string_view option, const query::Snapshot& snapshot,
                              std::string_view text) {
  Result<int64_t> time_ns = ParseMoment(snapshot, text);
  if (!time_ns.ok()) return Status::Error(fmt::format("{} {}", option, time_ns.message()));
  return time_ns;
}

}  // namespace shardscope::analysis
