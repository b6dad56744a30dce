// Stalls: gaps of the compute stream, the collective that held each of them, and why.
#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "trace/analysis/append.h"
#include "trace/analysis/collectives/collectives.h"
#include "trace/analysis/derived.h"
#include "trace/analysis/names.h"
#include "trace/analysis/row_index.h"
#include "trace/analysis/steps/rank_step.h"
#include "trace/analysis/steps/stalls.h"
#include "trace/query/find_op_run.h"

namespace shardscope::analysis {
namespace {

using query::BlockingKind;
using query::Category;
using query::IsCompute;
using query::OpClass;

// Ops without a time of their own: they pass a wait on.
bool TakesNoTime(const query::PlanOp& op) {
  return op.category == Category::kHost || op.op_class == OpClass::kBookkeeping;
}

// A gap of the compute stream of one rank and step.
struct Gap {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  const IndexedRun* before = nullptr;  // the last compute or optimizer op in front of it, if any
  const IndexedRun* next = nullptr;    // what ended it: a copy or the op itself
  const IndexedRun* op = nullptr;      // the first compute or optimizer op behind it

  int64_t length_ns() const { return end_ns - start_ns; }
  int64_t Shared(int64_t from_ns, int64_t to_ns) const {
    return std::max<int64_t>(0, std::min(end_ns, to_ns) - std::max(start_ns, from_ns));
  }
};

struct Cause {
  StallCause cause = StallCause::kOther;
  std::string object;
  std::string sentence;
};

std::vector<Gap> GapsOf(const StepIndex& step, const std::set<query::TrackId>& compute_tracks) {
  std::vector<Gap> gaps;
  std::vector<size_t> waiting;  // gaps whose compute op is still to come
  int64_t dry_ns = step.start_ns;
  const IndexedRun* before = nullptr;
  for (const IndexedRun& run : step.runs) {
    if (TakesNoTime(*run.op) || !compute_tracks.contains(run.run.track)) continue;
    if (run.run.started_ns - dry_ns >= kSmallestStallNs) {
      waiting.push_back(gaps.size());
      gaps.push_back({dry_ns, run.run.started_ns, before, &run, nullptr});
    }
    dry_ns = std::max(dry_ns, run.run.ended_ns);
    if (!IsCompute(run.op->category)) continue;
    for (const size_t index : waiting) gaps[index].op = &run;
    waiting.clear();
    before = &run;
  }
  // Nothing computes behind the last copies: they hold nothing up.
  std::erase_if(gaps, [](const Gap& gap) { return gap.op == nullptr; });
  return gaps;
}

// The collective that held the gap open, through copies and frees; nullptr if it was something
// else. A chain in one step is never longer than the step.
const IndexedRun* BlockingCollective(const StepIndex& step, const Gap& gap) {
  const IndexedRun* run = gap.next;
  for (size_t i = 0; i < step.runs.size(); ++i) {
    run = BlockerOf(step, *run);
    if (run == nullptr || run->run.ended_ns <= gap.start_ns || IsCompute(run->op->category))
      return nullptr;
    if (run->op->category == Category::kCommunication) return run;
  }
  return nullptr;
}

std::string Noun(const query::PlanOp& op) {
  if (!query::IsCommunication(op.op_class)) return op.kind;
  std::string noun(Name(op.op_class));
  std::replace(noun.begin(), noun.end(), '_', '-');
  return noun;
}

Cause Queued(const query::PlanOp& collective, const query::PlanOp& front) {
  const std::string name = ShortName(front);
  return {StallCause::kQueuedBehind, name, Noun(collective) + " queued behind " + name};
}

Cause LateRank(int32_t late) {
  const std::string rank = "rank " + std::to_string(late);
  return {StallCause::kLateRank, rank, "late " + rank};
}

// At the end of its step a stage waits for the others.
bool IsDrained(const StepIndex& step, const query::PlanOp& collective) {
  return collective.phase == Name(words::Phase::kOptimizer) &&
         std::ranges::any_of(step.runs, [](const IndexedRun& run) {
           return run.op->op_class == OpClass::kSendReceive;
         });
}

Cause Bubble(std::optional<int32_t> awaited) {
  const std::string rank = awaited ? "rank " + std::to_string(*awaited) : "";
  return {StallCause::kBubble, rank,
          "pipeline bubble, waits for " + (rank.empty() ? "another stage" : rank)};
}

// Behind a collective that itself mostly waited for a rank, that rank is the cause.
Cause BehindCollective(const Gap& gap, const IndexedRun& collective, const IndexedRun& front) {
  const CollectiveRun* row = front.collective;
  if (row != nullptr && gap.Shared(row->started_ns, row->last_arrival_ns) * 2 > gap.length_ns()) {
    return LateRank(row->last_rank);
  }
  return Queued(*collective.op, *front.op);
}

Cause Late(const query::PlanOp* waited_for) {
  if (waited_for == nullptr) return {StallCause::kIssuedLate, "", "issued late by the host"};
  const std::string name = ShortName(*waited_for);
  return {StallCause::kIssuedLate, name, "issued late: host waited for " + name};
}

// The first all-gather of its phase, with no compute of that phase before it.
bool IsFirstGather(const StepIndex& step, const Gap& gap, const IndexedRun& collective) {
  if (collective.op->op_class != OpClass::kAllGather) return false;
  const auto same_phase = [&](const query::PlanOp& op) {
    return op.phase == gap.op->op->phase && op.micro_batch == gap.op->op->micro_batch;
  };
  for (const IndexedRun& run : step.runs) {
    if (!same_phase(*run.op)) continue;
    if (IsCompute(run.op->category) && run.run.started_ns < gap.start_ns) return false;
    if (run.op->op_class == OpClass::kAllGather && run.op->op < collective.op->op) return false;
  }
  return true;
}

Cause FirstGather(const Gap& gap) {
  const std::string place = gap.before == nullptr ? "step" : gap.op->op->phase;
  return {StallCause::kFirstGather, "", "first gather of the " + place};
}

// What the host waited for last before it issued the collective; nullptr if it did not wait in the
// gap.
const query::PlanOp* HostWaitInGap(const StepIndex& step, const Gap& gap,
                                   const IndexedRun& collective) {
  const IndexedRun* waited_for = LastHostWait(step, collective);
  const bool in_gap =
      waited_for != nullptr && waited_for->run.ended_ns > gap.start_ns - kSmallestStallNs;
  return in_gap ? waited_for->op : nullptr;
}

// Why the collective had not begun when the compute stream ran dry; false if that is not the cause.
bool BeganLate(const StepIndex& step, const Gap& gap, const IndexedRun& collective, Cause* cause) {
  const IndexedRun* run = &collective;
  for (size_t i = 0; i < step.runs.size() && run != nullptr; ++i) {
    const IndexedRun* blocker = BlockerOf(step, *run);
    const bool in_gap =
        blocker != nullptr && blocker->run.ended_ns > gap.start_ns - kSmallestStallNs;
    if (run->run.blocking_kind == BlockingKind::kHost && in_gap) {
      *cause = Late(blocker->op);
      return true;
    }
    if (run->run.blocking_kind == BlockingKind::kSlot) break;
    if (!in_gap) break;
    if (blocker->op->category == Category::kCommunication) {
      if (gap.Shared(blocker->run.started_ns, blocker->run.ended_ns) < kSmallestStallNs) break;
      *cause = BehindCollective(gap, collective, *blocker);
      return true;
    }
    if (IsCompute(blocker->op->category)) {
      // A reduce-scatter has to wait for its gradients, an all-gather for no compute.
      if (collective.op->op_class != OpClass::kAllGather) break;
      *cause = Late(blocker->op);
      return true;
    }
    run = blocker;
  }
  if (collective.run.issued_ns < gap.start_ns - kSmallestStallNs) return false;
  *cause = Late(HostWaitInGap(step, gap, collective));
  return true;
}

Cause SlowTransfer(const Gap& gap) {
  const std::string name = gap.before == nullptr ? "" : ShortName(*gap.before->op);
  return {StallCause::kSlowTransfer, name,
          "transfer longer than " + (name.empty() ? "the compute" : name) + " it hides under"};
}

Cause CauseOf(const StepIndex& step, const Gap& gap, const IndexedRun& collective) {
  const query::OpRun& run = collective.run;
  const CollectiveRun* row = collective.collective;
  const int64_t arrival_ns = row == nullptr ? run.started_ns : row->last_arrival_ns;
  const int64_t before_ns = gap.Shared(gap.start_ns, run.started_ns);
  const int64_t late_ns = gap.Shared(run.started_ns, arrival_ns);
  const int64_t transfer_ns = gap.Shared(arrival_ns, run.ended_ns);
  const bool is_pair = collective.op->op_class == OpClass::kSendReceive;
  if (is_pair && before_ns + late_ns > transfer_ns) {
    const bool is_known = row != nullptr && row->other_rank >= 0;
    return Bubble(is_known ? std::optional(row->other_rank) : std::nullopt);
  }
  if (late_ns > before_ns && late_ns > transfer_ns) {
    return IsDrained(step, *collective.op) ? Bubble({row->last_rank}) : LateRank(row->last_rank);
  }
  // Of a segment, not of a unit: parts of its output or gradient.
  const OpClass what = collective.op->op_class;
  const bool is_shared =
      what == OpClass::kAllReduce || what == OpClass::kAllGather || what == OpClass::kReduceScatter;
  if (is_shared && !collective.op->segment.empty()) {
    return {StallCause::kOnPath, "", "on the path of compute, nothing to hide under"};
  }
  if (gap.op->op->category == Category::kOptimizer) {
    return {StallCause::kTail, "", "tail, nothing left to hide under"};
  }
  // Nothing could hide it, unless most of the time had passed before the host issued it.
  const bool issued_in_time = gap.Shared(gap.start_ns, run.issued_ns) * 2 <= gap.length_ns();
  if (issued_in_time && IsFirstGather(step, gap, collective)) return FirstGather(gap);
  Cause cause;
  if (BeganLate(step, gap, collective, &cause)) return cause;
  if (transfer_ns >= before_ns) return SlowTransfer(gap);
  return {StallCause::kOther, "", "waited for " + ShortName(*collective.op)};
}

Stall StallOf(const StepIndex& step, const Gap& gap, Cause cause) {
  Stall stall;
  stall.rank = step.rank;
  stall.step = step.step;
  stall.op_run = gap.op->run.id;
  stall.op_name = gap.op->op->name;
  stall.waiting_op_run = gap.next->run.id;
  stall.start_ns = gap.start_ns;
  stall.end_ns = gap.end_ns;
  stall.stall_ns = gap.length_ns();
  stall.cause = cause.cause;
  stall.cause_object = std::move(cause.object);
  stall.sentence = std::move(cause.sentence);
  return stall;
}

void StallsOfStep(const StepIndex& step, const std::set<query::TrackId>& compute_tracks,
                  std::vector<Stall>* stalls) {
  for (const Gap& gap : GapsOf(step, compute_tracks)) {
    // The end of the gap may be a wait for a slot: that part is no communication's fault.
    const int64_t slot_ns = std::clamp<int64_t>(gap.next->run.slot_wait_ns, 0, gap.length_ns());
    Gap for_data = gap;
    for_data.end_ns -= slot_ns;
    Gap for_slot = gap;
    for_slot.start_ns = for_data.end_ns;
    const IndexedRun* collective =
        for_data.length_ns() >= kSmallestStallNs ? BlockingCollective(step, for_data) : nullptr;
    if (collective != nullptr) {
      Stall stall = StallOf(step, for_data, CauseOf(step, for_data, *collective));
      stall.blocking_op_run = collective->run.id;
      stall.blocking_name = collective->op->name;
      stall.collective_kind = collective->op->kind;
      stall.title = StallTitle(*collective->op, *gap.op->op);
      stalls->push_back(std::move(stall));
    }
    if (slot_ns >= kSmallestStallNs) {
      stalls->push_back(
          StallOf(step, for_slot, {StallCause::kSlot, "", "waited for a compute slot"}));
      stalls->back().title = ShortName(*gap.op->op);
    }
  }
}

int LastFinishedStep(const query::Snapshot& snapshot) {
  int last = -1;
  for (const query::RankRows& rows : snapshot.ranks) {
    if (!rows.steps.empty()) last = std::max(last, int{rows.steps.back().step});
  }
  return last;
}

// From where to where they are derived: batches of evaluations are not, nor steps that no rank has
// finished.
std::pair<int, int> DerivedSteps(const query::Snapshot& snapshot) {
  const std::vector<schema::StepPartRow>& parts = snapshot.derived->step_parts;
  const int first = parts.empty() ? 0 : static_cast<int>(parts.front().step);
  return {first, std::max(first - 1, LastFinishedStep(snapshot))};
}
bool IsDerived(const query::Snapshot& snapshot, int step) {
  if (!snapshot.derived) return false;
  const auto [first, last] = DerivedSteps(snapshot);
  return step >= first && step <= last;
}

// Ops that read gathered parameters; the optimizer reads shards.
bool ReadsParameters(const query::PlanOp& op) { return op.category == query::Category::kCompute; }

bool BelongsTo(const query::PlanOp& op, const std::string& unit) {
  return op.unit == unit || op.segment == unit || op.segment.starts_with(unit + ".");
}

struct FirstUse {
  const query::PlanOp* op = nullptr;      // the compute op
  const query::PlanOp* waiter = nullptr;  // the first op on its stream that waits: the copy-out
};

// The program of `gather` from it on, in host order.
std::vector<const query::PlanOp*> ProgramFrom(const query::Snapshot& snapshot,
                                              const query::PlanOp& gather) {
  std::vector<const query::PlanOp*> program;
  for (const auto& [id, op] : snapshot.plan_ops) {
    if (op.schedule == gather.schedule && op.program == gather.program && op.op >= gather.op) {
      program.push_back(&op);
    }
  }
  std::sort(program.begin(), program.end(),
            [](const query::PlanOp* a, const query::PlanOp* b) { return a->op < b->op; });
  return program;
}

// The first compute op that has to run after `gather`, by listed edges and stream order. A wait for
// a whole stream reaches ops of other units too, so one of the gathered unit is preferred: it is
// named after the unit, or stands behind the unit's own copy-out or wait (the segments of a root
// unit have names of their own).
FirstUse FindFirstUse(const query::Snapshot& snapshot, const query::PlanOp& gather) {
  std::set<query::PlanOpId> reached = {gather.id};
  std::set<std::string> unsharded;  // streams on which the unit's copy-out or wait was reached
  std::map<std::string, query::PlanOpId> last_of_stream;
  std::map<std::string, const query::PlanOp*> first_reached;  // by stream
  FirstUse first;
  for (const query::PlanOp* op : ProgramFrom(snapshot, gather)) {
    const auto before = last_of_stream.find(op->stream);
    bool after = before != last_of_stream.end() && reached.contains(before->second);
    for (const query::PlanOpId predecessor : op->predecessors)
      after |= reached.contains(predecessor);
    last_of_stream[op->stream] = op->id;
    if (!after) continue;
    reached.insert(op->id);
    first_reached.emplace(op->stream, op);
    if (!ReadsParameters(*op)) {
      if (op->unit == gather.unit) unsharded.insert(op->stream);
      continue;
    }
    const bool of_unit = BelongsTo(*op, gather.unit) || unsharded.contains(op->stream);
    if (first.op == nullptr || of_unit) first = {op, first_reached[op->stream]};
    if (of_unit) break;
  }
  return first;
}

// When the stream of `waiter` had nothing left to do in front of it.
int64_t DryNs(const StepIndex& step, const query::OpRun& waiter) {
  int64_t dry_ns = step.start_ns;
  for (const IndexedRun& run : step.runs) {
    const bool before = run.run.track == waiter.track && run.run.started_ns < waiter.started_ns;
    const bool takes_time = run.op->op_class != query::OpClass::kBookkeeping;
    if (before && takes_time) dry_ns = std::max(dry_ns, run.run.ended_ns);
  }
  return dry_ns;
}

}  // namespace

std::vector<Stall> Stalls(const query::Snapshot& snapshot, int first_step, int last_step) {
  if (!snapshot.derived) return Stalls(StepRows(snapshot, first_step, last_step));
  std::vector<Stall> stalls;
  const auto append_of_rows = [&](int first, int last) {
    if (first <= last) Append(Stalls(StepRows(snapshot, first, last)), &stalls);
  };
  const auto [first_derived, last_derived] = DerivedSteps(snapshot);
  append_of_rows(first_step, std::min(last_step, first_derived - 1));
  Append(DerivedStalls(snapshot, first_step, last_step), &stalls);
  append_of_rows(std::max(first_step, last_derived + 1), last_step);
  return stalls;
}

std::vector<Stall> Stalls(const StepRows& rows) {
  std::vector<Stall> stalls;
  std::set<query::TrackId> compute_tracks;
  for (const query::Track& track : rows.snapshot.tracks) {
    if (track.role == query::TrackRole::kCompute) compute_tracks.insert(track.id);
  }
  std::vector<const StepIndex*> steps;  // which are there rank by rank
  for (const StepIndex& step : rows.steps) steps.push_back(&step);
  std::sort(steps.begin(), steps.end(), [](const StepIndex* a, const StepIndex* b) {
    return std::pair(a->step, a->rank) < std::pair(b->step, b->rank);
  });
  for (const StepIndex* step : steps) StallsOfStep(*step, compute_tracks, &stalls);
  return stalls;
}

RankStep RankStepOf(const query::Snapshot& snapshot, int32_t rank, int32_t step) {
  std::vector<CollectiveRun> collectives = CollectivesOfRank(snapshot, rank, step);
  if (IsDerived(snapshot, step)) {
    std::vector<Stall> stalls = DerivedStalls(snapshot, step, step);
    std::erase_if(stalls, [rank](const Stall& stall) { return stall.rank != rank; });
    return {std::move(stalls), std::move(collectives)};
  }
  std::vector<StepIndex> steps;
  steps.push_back(IndexStep(snapshot, rank, step));
  StepRows rows(snapshot, std::move(collectives), std::move(steps));
  return {Stalls(rows), std::move(rows.collectives)};
}

void StallGroups::Add(const std::vector<Stall>& stalls) {
  for (const Stall& stall : stalls) {
    const bool slot = stall.cause == StallCause::kSlot;
    const std::string op_name = slot ? "" : stall.op_name;
    StallGroup& group = groups_[{op_name, stall.blocking_name, stall.cause, stall.cause_object}];
    if (group.count == 0) {
      group.op_name = op_name;
      group.blocking_name = stall.blocking_name;
      group.collective_kind = stall.collective_kind;
      group.title = slot ? "compute" : stall.title;
      group.cause = stall.cause;
      group.cause_object = stall.cause_object;
      group.sentence = stall.sentence;
    }
    if (stall.stall_ns > group.worst.stall_ns) group.worst = stall;
    // A damaged file may claim stalls of years.
    group.total_ns = std::min(group.total_ns, std::numeric_limits<int64_t>::max() - stall.stall_ns);
    group.total_ns += stall.stall_ns;
    ++group.count;
  }
}

std::vector<StallGroup> StallGroups::Sorted(int num_rank_steps) const {
  std::vector<StallGroup> sorted;
  for (const auto& [key, group] : groups_) {
    sorted.push_back(group);
    if (num_rank_steps <= 0) continue;
    sorted.back().ns_per_step = static_cast<double>(group.total_ns) / num_rank_steps;
  }
  std::stable_sort(sorted.begin(), sorted.end(), [](const StallGroup& a, const StallGroup& b) {
    return a.total_ns > b.total_ns;
  });
  return sorted;
}

PrefetchSlack SlackOf(const query::Snapshot& snapshot, query::OpRunId all_gather_op_run,
                      int32_t rank) {
  PrefetchSlack slack;
  const query::RankRows* rows = snapshot.FindRank(rank);
  if (rows == nullptr) return slack;
  const std::optional<size_t> row = query::FindOpRun(*rows, all_gather_op_run);
  if (!row) return slack;
  const query::OpRun gather = rows->op_runs[*row];
  const query::PlanOp* gather_op = snapshot.FindPlanOp(gather.plan_op);
  if (gather_op == nullptr || gather_op->op_class != query::OpClass::kAllGather) return slack;
  const FirstUse first = FindFirstUse(snapshot, *gather_op);
  if (first.op == nullptr) return slack;
  const StepIndex step = IndexStep(snapshot, rank, gather.step);
  const IndexedRun* use = step.Find(first.op->id);
  const IndexedRun* waiter = step.Find(first.waiter->id);
  if (use == nullptr || waiter == nullptr) return slack;  // not run yet

  slack.found = true;
  slack.first_use_op_run = use->run.id;
  const int64_t wanted_ns = std::max(DryNs(step, waiter->run), waiter->run.issued_ns);
  slack.first_use_ns = wanted_ns < gather.ended_ns ? wanted_ns : use->run.started_ns;
  slack.slack_ns = slack.first_use_ns - gather.ended_ns;
  return slack;
}

}  // namespace shardscope::analysis
