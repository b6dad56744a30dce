// Slack of a prefetch: how long before its first use an all-gather was done.
#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "trace/analysis/collectives.h"
#include "trace/analysis/stalls/row_index.h"

namespace shardscope::analysis {
namespace {

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
  std::set<int64_t> reached = {gather.id};
  std::set<std::string> unsharded;  // streams on which the unit's copy-out or wait was reached
  std::map<std::string, int64_t> last_of_stream;
  std::map<std::string, const query::PlanOp*> first_reached;  // by stream
  FirstUse first;
  for (const query::PlanOp* op : ProgramFrom(snapshot, gather)) {
    const auto before = last_of_stream.find(op->stream);
    bool after = before != last_of_stream.end() && reached.contains(before->second);
    for (const int64_t predecessor : op->predecessors) after |= reached.contains(predecessor);
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
    const bool before = run.run->track == waiter.track && run.run->started_ns < waiter.started_ns;
    const bool takes_time = run.op->op_class != query::OpClass::kBookkeeping;
    if (before && takes_time) dry_ns = std::max(dry_ns, run.run->ended_ns);
  }
  return dry_ns;
}

}  // namespace

PrefetchSlack SlackOf(const query::Snapshot& snapshot, int64_t all_gather_op_run, int32_t rank) {
  PrefetchSlack slack;
  const query::RankRows* rows = snapshot.FindRank(rank);
  if (rows == nullptr) return slack;
  // Ids ascend in commit order.
  const auto gather =
      std::lower_bound(rows->op_runs.begin(), rows->op_runs.end(), all_gather_op_run,
                       [](const query::OpRun& run, int64_t wanted) { return run.id < wanted; });
  if (gather == rows->op_runs.end() || gather->id != all_gather_op_run) return slack;
  const query::PlanOp* gather_op = snapshot.FindPlanOp(gather->plan_op);
  if (gather_op == nullptr || gather_op->op_class != query::OpClass::kAllGather) return slack;
  const FirstUse first = FindFirstUse(snapshot, *gather_op);
  if (first.op == nullptr) return slack;
  const StepIndex step = IndexStep(snapshot, rank, gather->step);
  const IndexedRun* use = step.Find(first.op->id);
  const IndexedRun* waiter = step.Find(first.waiter->id);
  if (use == nullptr || waiter == nullptr) return slack;  // not run yet

  slack.found = true;
  slack.first_use_op_run = use->run->id;
  slack.first_use_name = use->op->name;
  const int64_t wanted_ns = std::max(DryNs(step, *waiter->run), waiter->run->issued_ns);
  slack.first_use_ns = wanted_ns < gather->ended_ns ? wanted_ns : use->run->started_ns;
  slack.slack_ns = slack.first_use_ns - gather->ended_ns;
  return slack;
}

}  // namespace shardscope::analysis
