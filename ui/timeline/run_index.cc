#include "ui/timeline/run_index.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "trace/analysis/steps/breakdown.h"
#include "trace/base/parallel.h"
#include "trace/query/find_op_run.h"
#include "trace/query/step_times.h"

namespace shardscope::timeline {
namespace {

using query::IsCommunication;
using query::IsCompute;
using query::OpClass;

// Of a loaded run: the intervals of all its ops at once would be tens of megabytes. And of so many
// the longest is kept.
constexpr size_t kStepsAtATime = 64;

constexpr size_t kRowsToLookAhead = 16;  // cheaper than a search

constexpr size_t kRowsBetweenLooks = 4096;  // at whether the index is still wanted

// Of all indices: another run's is never equal, nor that of the same run when all of it is read.
uint64_t NextVersion() {
  static std::atomic<uint64_t> newest = 0;
  return ++newest;
}

// The unit's part of "block3.mlp".
std::string UnitName(const query::PlanOp& op) {
  const std::string& name = op.unit.empty() ? op.segment : op.unit;
  return name.substr(0, name.find('.'));
}

Span SpanOf(const query::OpRun& run, uint32_t row, OpClass op_class, uint8_t shade) {
  return {run.started_ns, std::max(run.started_ns, run.ended_ns), row, op_class, shade, false};
}

// The newest step whose rows have surely all come: rows of one step come from several threads, so
// while the run is live that is the one before the newest that all ranks finished.
int32_t SettledStep(const query::Snapshot& snapshot) {
  const int32_t newest = query::NewestStepOfAll(snapshot);
  return query::MayGrow(snapshot.state) ? std::max(newest - 1, -1) : newest;
}

bool Receives(LaneKind kind) {
  return kind == LaneKind::kReceiveActivation || kind == LaneKind::kReceiveGradient;
}

int64_t EndOfStep(const query::RankRows& rows, int32_t step) {
  const auto found =
      std::lower_bound(rows.steps.begin(), rows.steps.end(), step,
                       [](const query::Step& row, int32_t wanted) { return row.step < wanted; });
  return found == rows.steps.end() ? INT64_MIN : found->end_ns;
}

// Steps of any rank that touch `range`, and those that go on behind the last finished one.
std::pair<int32_t, int32_t> StepsIn(const query::Snapshot& snapshot, Range range) {
  std::pair<int32_t, int32_t> steps{INT32_MAX, -1};
  for (const query::RankRows& rows : snapshot.ranks) {
    const auto [first, last] = query::StepsThatTouch(rows, {range.start_ns, range.end_ns});
    if (first != last) {
      steps.first = std::min(steps.first, first->step);
      steps.second = std::max(steps.second, (last - 1)->step);
    }
    if (last == rows.steps.end()) {
      const int32_t unfinished = rows.steps.empty() ? 0 : rows.steps.back().step + 1;
      steps.first = std::min(steps.first, unfinished);
      steps.second = std::max(steps.second, unfinished);
    }
  }
  return steps;
}

// Communication minus compute in [from_ns, until_ns), from the columns, so that it costs what is
// new.
std::vector<Interval> Exposed(const RankIndex& rank, int64_t from_ns, int64_t until_ns) {
  std::vector<Interval> communication;
  std::vector<Interval> compute;
  for (const SpanColumn& column : rank.columns) {
    if (&column == &rank.column(LaneKind::kExposed)) continue;
    const size_t last = column.FirstStartingAt(until_ns);
    for (size_t at = column.FirstTouching(from_ns); at < last; ++at) {
      if (column.IsInstant(at)) continue;
      const Span span = column[at];
      const Interval interval{std::max(span.start_ns, from_ns), std::min(span.end_ns, until_ns)};
      if (IsCommunication(span.op_class)) communication.push_back(interval);
      if (IsCompute(span.op_class)) compute.push_back(interval);
    }
  }
  return Subtract(Union(std::move(communication)), Union(std::move(compute)));
}

// How many events were taken; not *complete if there are more.
size_t TakeMemory(const query::Snapshot& snapshot, const query::RankRows& rows, size_t max_events,
                  analysis::MemoryTimeline* memory, bool* complete) {
  const size_t num_before = memory->size();
  if (max_events > 0) memory->Advance(snapshot, max_events);
  *complete = *complete && memory->size() == rows.memory.size();
  return memory->size() - num_before;
}

}  // namespace

RankIndex::RankIndex(int32_t of_rank)
    : rank(of_rank),
      op_runs(std::make_shared<query::RowList<query::OpRun>>()),
      memory(of_rank, analysis::Ledger::kExecution),
      issued_memory(of_rank, analysis::Ledger::kIssue) {
  columns.fill(SpanColumn(op_runs));
  columns[static_cast<size_t>(LaneKind::kExposed)] = SpanColumn();  // its spans are of no op
}

uint32_t FindRow(const query::RankRows& rows, query::OpRunId id) {
  const std::optional<size_t> row = query::FindOpRun(rows, id);
  return row ? static_cast<uint32_t>(*row) : kNoRow;
}

bool RunIndex::Begin(const query::Snapshot& snapshot) {
  const bool other_run = snapshot.run_folder != run_folder_ || snapshot.generation < generation_ ||
                         ranks_.size() > snapshot.ranks.size();
  // A rank that comes late may stand before others.
  bool moved = false;
  for (size_t at = 0; !other_run && at < ranks_.size(); ++at) {
    moved = moved || ranks_[at].rank != snapshot.ranks[at].rank;
  }
  if (other_run || moved) Reset(snapshot);
  if (generation_ == snapshot.generation && version_ > 0) return false;
  LearnPlan(snapshot);
  for (size_t at = ranks_.size(); at < snapshot.ranks.size(); ++at) {
    ranks_.emplace_back(snapshot.ranks[at].rank);
    consumed_.emplace_back();
  }
  return true;
}

size_t RunIndex::TakeRank(const query::Snapshot& snapshot, size_t at, size_t max_rows,
                          bool* complete) {
  const query::RankRows& rows = snapshot.ranks[at];
  RankIndex* const rank = &ranks_[at];
  Consumed& consumed = consumed_[at];
  size_t taken = 0;
  TakeRows(rows.op_runs, rank);
  while (consumed.op_runs < rows.op_runs.size() && taken < max_rows) {
    TakeOpRun(rows.op_runs[consumed.op_runs], static_cast<uint32_t>(consumed.op_runs), rank);
    ++consumed.op_runs;
    ++taken;
  }
  for (SpanColumn& column : rank->columns) column.UpdateDensity();
  TakeSteps(rows, &consumed);
  *complete = *complete && consumed.op_runs == rows.op_runs.size();
  // Before the next rank's columns grow.
  if (consumed.op_runs == rows.op_runs.size()) ShrinkToFit(snapshot, rank);
  taken += rank->tracks.Advance(snapshot, rows, look_of_plan_op_, max_rows - taken);
  *complete = *complete && rank->tracks.Complete(rows);
  taken += TakeMemory(snapshot, rows, max_rows - taken, &rank->memory, complete);
  if (!rows.gpu_work.empty() || !rows.segments.empty()) {
    taken += TakeMemory(snapshot, rows, max_rows - taken, &rank->issued_memory, complete);
  }
  return taken;
}

bool RunIndex::Advance(const query::Snapshot& snapshot, size_t max_rows) {
  if (!Begin(snapshot)) return true;
  size_t taken = 0;
  bool complete = true;
  for (size_t at = 0; at < snapshot.ranks.size(); ++at) {
    taken += TakeRank(snapshot, at, max_rows - taken, &complete);
    TakeCollectives(snapshot.ranks[at], &ranks_[at], &consumed_[at]);
    TakeNccl(snapshot, snapshot.ranks[at], &ranks_[at], &consumed_[at]);
  }
  rows_version_ = version_ = NextVersion();
  if (!complete) return false;
  UpdateSettled(snapshot);
  generation_ = snapshot.generation;
  return true;
}

bool RunIndex::AdvanceAll(const query::Snapshot& snapshot, const std::stop_token& stop) {
  if (!Begin(snapshot)) return true;
  const auto take = [&](size_t at) {
    bool complete = false;
    while (!complete && !stop.stop_requested()) {
      complete = true;
      TakeRank(snapshot, at, kRowsBetweenLooks, &complete);
    }
    if (!stop.stop_requested()) UpdateExposed(snapshot, at);
  };
  settled_step_ = SettledStep(snapshot);
  ForEachIndex(ranks_.size(), take);
  for (size_t at = 0; at < ranks_.size() && !stop.stop_requested(); ++at) {
    TakeCollectives(snapshot.ranks[at], &ranks_[at], &consumed_[at]);
  }
  return !stop.stop_requested() && Advance(snapshot);  // there is little left to take
}

// Shares their storage.
void RunIndex::TakeRows(const query::RowList<query::OpRun>& op_runs, RankIndex* rank) {
  if (rank->op_runs->size() == op_runs.size()) return;
  *rank->op_runs = op_runs;
}

// Columns of a run that goes on keep room to grow.
void RunIndex::ShrinkToFit(const query::Snapshot& snapshot, RankIndex* rank) {
  if (query::MayGrow(snapshot.state)) return;
  for (SpanColumn& column : rank->columns) column.ShrinkToFit();
  rank->collectives.shrink_to_fit();
}

void RunIndex::Reset(const query::Snapshot& snapshot) {
  *this = RunIndex();
  rows_version_ = version_ = NextVersion();
  run_folder_ = snapshot.run_folder;
}

void RunIndex::LearnPlan(const query::Snapshot& snapshot) {
  for (const query::Track& track : snapshot.tracks) {
    lane_of_track_.emplace(track.id, LaneOf(track.role));
  }
  if (known_plan_ops_ == snapshot.plan_ops.size()) return;
  known_plan_ops_ = snapshot.plan_ops.size();
  std::map<std::string, uint8_t> shade_of_unit;
  for (const auto& [id, op] : snapshot.plan_ops) {
    const auto shade = static_cast<uint8_t>(shade_of_unit.size() % 255);
    const uint8_t unit_shade = shade_of_unit.emplace(UnitName(op), shade).first->second;
    look_of_plan_op_.emplace(id, std::pair(op.op_class, unit_shade));
  }
}

void RunIndex::TakeOpRun(const query::OpRun& run, uint32_t row, RankIndex* rank) const {
  ++rank->num_op_runs;
  const auto look = look_of_plan_op_.find(run.plan_op);
  const auto lane = lane_of_track_.find(run.track);
  if (look == look_of_plan_op_.end() || lane == lane_of_track_.end()) return;
  const auto [op_class, shade] = look->second;
  if (op_class == OpClass::kBookkeeping) return;
  rank->columns[static_cast<size_t>(lane->second)].Insert(SpanOf(run, row, op_class, shade));
  if (lane->second != LaneKind::kHost) {
    rank->columns[static_cast<size_t>(LaneKind::kHost)].Insert(
        {run.issued_ns, run.issued_ns, row, op_class, shade, true});
  }
}

void RunIndex::TakeCollective(const query::RankRows& rows, uint32_t row, uint32_t op_row,
                              RankIndex* rank) {
  const query::Collective& collective = rows.collectives[row];
  const auto place = std::ranges::lower_bound(rank->collectives, op_row, {},
                                              &std::pair<uint32_t, uint32_t>::first);
  if (place != rank->collectives.end() && place->first == op_row) {
    place->second = row;  // of a damaged file the last one
  } else {
    rank->collectives.emplace(place, op_row, row);
  }
  const auto lane = lane_of_track_.find(rows.op_runs[op_row].track);
  if (lane != lane_of_track_.end() && Receives(lane->second)) {
    receivers_[ArrivalKey(collective.communicator, collective.sequence)] = {rows.rank, op_row};
  }
  Arrive(ArrivalKey(collective.communicator, collective.sequence), rows.op_runs[op_row].started_ns,
         rows.rank);
}

void RunIndex::Arrive(uint64_t key, int64_t arrived_ns, int32_t rank) {
  Arrival& arrival = arrivals_[key];
  ++arrival.num_ranks;
  if (arrived_ns > arrival.last_ns) {
    arrival.last_ns = arrived_ns;
    arrival.last_rank = rank;
  }
}

void RunIndex::TakeCollectives(const query::RankRows& rows, RankIndex* rank, Consumed* consumed) {
  uint32_t next = 0;  // mostly a few rows behind the one before
  const auto row_of = [&](uint32_t row) {
    const query::OpRunId id = rows.collectives[row].op_run;
    const size_t end = std::min<size_t>(rows.op_runs.size(), next + kRowsToLookAhead);
    while (next < end && rows.op_runs[next].id != id) ++next;
    if (next >= end) next = FindRow(rows, id);
    return next;
  };
  const std::vector<uint32_t> early = std::exchange(consumed->early_collectives, {});
  for (const uint32_t row : early) {
    const uint32_t op_row = row_of(row);
    if (op_row < rank->num_op_runs) {
      TakeCollective(rows, row, op_row, rank);
    } else {
      consumed->early_collectives.push_back(row);
    }
  }
  for (; consumed->collectives < rows.collectives.size(); ++consumed->collectives) {
    const auto row = static_cast<uint32_t>(consumed->collectives);
    const uint32_t op_row = row_of(row);
    if (op_row == kNoRow) {
      consumed->early_collectives.push_back(row);
      continue;
    }
    // Its op run is there and will be taken by a later call; so will those of most that follow.
    if (op_row >= rank->num_op_runs) break;
    TakeCollective(rows, row, op_row, rank);
  }
}

// Kernels of a recorded program belong to the NCCL operation whose launch they were launched in.
bool RunIndex::TakeNcclKernel(const query::RankRows& rows, uint32_t row, RankIndex* rank) {
  const query::GpuWork& work = rows.gpu_work[row];
  // Operations come in the order of their launches, but for some of other threads.
  constexpr ptrdiff_t kOutOfOrder = 64;
  const auto after = std::partition_point(
      rows.nccl.begin(), rows.nccl.end(), [&work](const query::NcclOperation& operation) {
        return operation.launch_start_ns <= work.launch_start_ns;
      });
  auto operation = after + std::min<ptrdiff_t>(rows.nccl.end() - after, kOutOfOrder);
  const auto first = after - std::min<ptrdiff_t>(after - rows.nccl.begin(), kOutOfOrder);
  while (operation != first) {
    --operation;
    if (operation->launch_track != work.launch_track) continue;
    if (work.launch_start_ns < operation->launch_start_ns ||
        work.launch_start_ns > operation->launch_end_ns) {
      continue;
    }
    rank->nccl_of_work[row] = static_cast<uint32_t>(operation - rows.nccl.begin());
    if (operation->sequence >= 0) {
      Arrive(ArrivalKey(operation->communicator, operation->sequence), work.start_ns, rows.rank);
    }
    return true;
  }
  return false;
}

void RunIndex::TakeNccl(const query::Snapshot& snapshot, const query::RankRows& rows,
                        RankIndex* rank, Consumed* consumed) {
  if (rows.nccl.empty()) return;
  std::vector<uint32_t> early = std::exchange(consumed->early_work, {});
  for (; consumed->gpu_work < rows.gpu_work.size(); ++consumed->gpu_work) {
    const query::GpuWork& work = rows.gpu_work[consumed->gpu_work];
    const bool foreign =
        work.plan_op.is_none() && work.category == query::SpanCategory::kCommunication;
    if (foreign) early.push_back(static_cast<uint32_t>(consumed->gpu_work));
  }
  for (const uint32_t row : early) {
    if (!TakeNcclKernel(rows, row, rank) && query::MayGrow(snapshot.state)) {
      consumed->early_work.push_back(row);
    }
  }
  // Some kernels never get a row of NCCL: only the newest are waited for.
  constexpr size_t kMostWaiting = 4096;
  std::vector<uint32_t>& waiting = consumed->early_work;
  if (waiting.size() > kMostWaiting) waiting.erase(waiting.begin(), waiting.end() - kMostWaiting);
}

void RunIndex::UpdateSettled(const query::Snapshot& snapshot) {
  settled_step_ = SettledStep(snapshot);
  for (size_t at = 0; at < ranks_.size(); ++at) UpdateExposed(snapshot, at);
}

void RunIndex::UpdateExposed(const query::Snapshot& snapshot, size_t at) {
  const query::RowList<query::Step>& steps = snapshot.ranks[at].steps;
  for (size_t step = kStepsAtATime; step < steps.size(); step += kStepsAtATime) {
    if (steps[step].step <= settled_step_) SettleExposed(steps[step].end_ns, at);
  }
  if (settled_step_ >= 0) SettleExposed(EndOfStep(snapshot.ranks[at], settled_step_), at);
  UpdateExposedTail(&ranks_[at], consumed_[at].exposed_until_ns);
  ShrinkToFit(snapshot, &ranks_[at]);
}

void RunIndex::TakeSteps(const query::RankRows& rows, Consumed* consumed) {
  for (; consumed->steps < rows.steps.size(); ++consumed->steps) {
    const query::Step& step = rows.steps[consumed->steps];
    if (consumed->steps % kStepsAtATime == 0) consumed->longest_step_ns.push_back(0);
    int64_t& longest_ns = consumed->longest_step_ns.back();
    longest_ns = std::max(longest_ns, step.end_ns - step.start_ns);
  }
}

std::set<int32_t> RunIndex::LongStepsIn(const query::Snapshot& snapshot, Range range,
                                        int64_t least_ns) const {
  const auto [first_step, last_step] = StepsIn(snapshot, range);
  std::set<int32_t> long_steps;
  const size_t num_ranks = std::min(ranks_.size(), snapshot.ranks.size());
  for (size_t rank = 0; rank < num_ranks; ++rank) {
    const query::RowList<query::Step>& steps = snapshot.ranks[rank].steps;
    const Consumed& consumed = consumed_[rank];
    const auto first = std::partition_point(
        steps.begin(), steps.end(),
        [from = first_step](const query::Step& step) { return step.step < from; });
    for (auto at = static_cast<size_t>(first - steps.begin()); at < steps.size();) {
      const query::Step& step = steps[at];
      if (step.step > last_step) break;
      // Thousands of steps are in view when each of them is short.
      const bool are_short = at % kStepsAtATime == 0 && at + kStepsAtATime <= consumed.steps &&
                             consumed.longest_step_ns[at / kStepsAtATime] < least_ns;
      if (!are_short && step.end_ns - step.start_ns >= least_ns) long_steps.insert(step.step);
      at += are_short ? kStepsAtATime : 1;
    }
    const int32_t unfinished = steps.empty() ? 0 : steps.back().step + 1;
    if (unfinished >= first_step && unfinished <= last_step) long_steps.insert(unfinished);
  }
  return long_steps;
}

// What was never looked at first, then what was looked at longest ago, so that while a run grows
// each step has its turn; of equal ones the newest.
std::vector<int32_t> RunIndex::StepsToLookAt(const query::Snapshot& snapshot, Range range,
                                             int64_t least_ns) const {
  std::vector<std::pair<uint64_t, int32_t>> steps;  // generation of the last look, step
  for (const int32_t step : LongStepsIn(snapshot, range, least_ns)) {
    const auto known = stalls_of_step_.find(step);
    if (known == stalls_of_step_.end()) {
      steps.emplace_back(0, step);
    } else if (!known->second.settled && known->second.generation != snapshot.generation) {
      steps.emplace_back(known->second.generation + 1, step);
    }
  }
  std::sort(steps.begin(), steps.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : a.second > b.second;
  });
  std::vector<int32_t> in_order;
  in_order.reserve(steps.size());
  for (const auto& [generation, step] : steps) in_order.push_back(step);
  return in_order;
}

void RunIndex::LookForStalls(const query::Snapshot& snapshot, int32_t first_step,
                             int32_t last_step) {
  for (int32_t step = first_step; step <= last_step; ++step) {
    stalls_of_step_[step] = {step <= settled_step_, snapshot.generation, {}};
  }
  for (analysis::Stall& stall : analysis::Stalls(snapshot, first_step, last_step)) {
    stalls_of_step_[stall.step].stalls.push_back(std::move(stall));
  }
}

bool RunIndex::FindStalls(const query::Snapshot& snapshot, Range range, int64_t least_ns,
                          size_t max_steps) {
  std::vector<int32_t> steps = StepsToLookAt(snapshot, range, least_ns);
  const bool complete = steps.size() <= max_steps;
  if (!complete) steps.resize(max_steps);
  std::sort(steps.begin(), steps.end());
  for (size_t first = 0; first < steps.size();) {
    size_t last = first;  // of those that follow one another
    while (last + 1 < steps.size() && steps[last + 1] == steps[last] + 1) ++last;
    LookForStalls(snapshot, steps[first], steps[last]);
    first = last + 1;
  }
  const std::pair<int32_t, int32_t> in_view = StepsIn(snapshot, range);
  if (!steps.empty() || shown_steps_ != in_view) ShowStalls(in_view.first, in_view.second);
  return complete;
}

void RunIndex::ShowStalls(int32_t first_step, int32_t last_step) {
  shown_steps_ = {first_step, last_step};
  version_ = NextVersion();
  std::unordered_map<int32_t, RankIndex*> by_rank;
  for (RankIndex& rank : ranks_) {
    rank.stalls.clear();
    by_rank[rank.rank] = &rank;
  }
  // Far from what is in view they are found again when needed.
  constexpr int32_t kKept = 256;
  std::erase_if(stalls_of_step_, [&](const auto& entry) {
    return entry.first < first_step - kKept || entry.first - kKept > last_step;
  });
  const auto end = stalls_of_step_.upper_bound(last_step);
  for (auto at = stalls_of_step_.lower_bound(first_step); at != end; ++at) {
    for (const analysis::Stall& stall : at->second.stalls) {
      const auto found = by_rank.find(stall.rank);
      if (found != by_rank.end()) found->second->stalls.push_back(&stall);
    }
  }
}

void RunIndex::SettleExposed(int64_t until_ns, size_t at) {
  const int64_t from_ns = consumed_[at].exposed_until_ns;
  if (until_ns <= from_ns) return;
  SpanColumn& column = ranks_[at].columns[static_cast<size_t>(LaneKind::kExposed)];
  for (const Interval& interval : Exposed(ranks_[at], from_ns, until_ns)) {
    column.Insert({interval.start_ns, interval.end_ns, 0, OpClass::kAllGather, 0, false});
  }
  column.UpdateDensity();
  consumed_[at].exposed_until_ns = until_ns;
}

// A compute op that still runs has no row yet, so nothing is known to be exposed after the last
// one that ended.
void RunIndex::UpdateExposedTail(RankIndex* rank, int64_t from_ns) {
  const SpanColumn& compute = rank->column(LaneKind::kCompute);
  const int64_t known_ns = compute.empty() ? INT64_MIN : compute[compute.size() - 1].end_ns;
  rank->exposed_tail = Exposed(*rank, from_ns, known_ns);
}

const RankIndex* RunIndex::Find(int32_t rank) const {
  for (const RankIndex& index : ranks_) {
    if (index.rank == rank) return &index;
  }
  return nullptr;
}

int64_t RunIndex::NewestNs() const {
  int64_t newest_ns = INT64_MIN;
  const auto look_at = [&newest_ns](const SpanColumn& column) {
    if (!column.empty()) newest_ns = std::max(newest_ns, column[column.size() - 1].end_ns);
  };
  for (const RankIndex& rank : ranks_) {
    std::for_each(rank.columns.begin(), rank.columns.end(), look_at);
    for (const auto* lanes : {&rank.tracks.streams(), &rank.tracks.threads()}) {
      for (const TrackLane& lane : *lanes) {
        std::for_each(lane.levels.begin(), lane.levels.end(), look_at);
      }
    }
  }
  return newest_ns;
}

std::optional<query::Collective> RunIndex::CollectiveOf(const query::RankRows& rows,
                                                        const RankIndex& rank, uint32_t row) const {
  const auto place =
      std::ranges::lower_bound(rank.collectives, row, {}, &std::pair<uint32_t, uint32_t>::first);
  if (place == rank.collectives.end() || place->first != row) return std::nullopt;
  return rows.collectives[place->second];
}

const Arrival* RunIndex::ArrivalOf(const query::Collective& collective) const {
  const auto found = arrivals_.find(ArrivalKey(collective.communicator, collective.sequence));
  return found == arrivals_.end() ? nullptr : &found->second;
}

const OpPlace* RunIndex::ReceiverOf(const query::Collective& send) const {
  const auto found = receivers_.find(ArrivalKey(send.communicator, send.sequence));
  return found == receivers_.end() ? nullptr : &found->second;
}

uint32_t RunIndex::OpRunOf(const query::RankRows& rows, const RankIndex& rank,
                           const query::GpuWork& work) {
  if (work.plan_op.is_none()) return kNoRow;
  for (const SpanColumn& column : rank.columns) {
    if (&column == &rank.column(LaneKind::kExposed)) continue;  // of no op
    const size_t last = column.FirstStartingAt(work.end_ns + 1);
    for (size_t at = column.FirstTouching(work.start_ns - 1); at < last; ++at) {
      if (column[at].instant) continue;
      const query::OpRun& run = rows.op_runs[column[at].row];
      if (run.plan_op == work.plan_op && run.step == work.step) return column[at].row;
    }
  }
  return kNoRow;
}

const Arrival* RunIndex::ArrivalOfWork(const query::RankRows& rows, const RankIndex& rank,
                                       uint32_t row) const {
  const auto nccl = rank.nccl_of_work.find(row);
  if (nccl != rank.nccl_of_work.end()) {
    const query::NcclOperation& operation = rows.nccl[nccl->second];
    const auto found = arrivals_.find(ArrivalKey(operation.communicator, operation.sequence));
    return found == arrivals_.end() ? nullptr : &found->second;
  }
  const uint32_t op_row = OpRunOf(rows, rank, rows.gpu_work[row]);
  const std::optional<query::Collective> collective = CollectiveOf(rows, rank, op_row);
  return collective ? ArrivalOf(*collective) : nullptr;
}

const analysis::Stall* RunIndex::StallAt(const RankIndex& rank, int64_t time_ns) {
  const auto after = std::upper_bound(
      rank.stalls.begin(), rank.stalls.end(), time_ns,
      [](int64_t time, const analysis::Stall* stall) { return time < stall->start_ns; });
  if (after == rank.stalls.begin()) return nullptr;
  const analysis::Stall* stall = *(after - 1);
  return time_ns < stall->end_ns ? stall : nullptr;
}

}  // namespace shardscope::timeline
