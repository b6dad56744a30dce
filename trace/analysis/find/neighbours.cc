#include "trace/analysis/find/neighbours.h"

#include <string>
#include <unordered_set>
#include <utility>

#include "trace/analysis/row_index.h"
#include "trace/analysis/steps/stalls.h"
#include "trace/base/not_ended.h"
#include "trace/query/find_op_run.h"

namespace shardscope::analysis {
namespace {

using query::RankRows;
using query::Snapshot;

// Walks from row `from` on, away from it, to the first row that is of the name and not on the wrong
// side of it.
template <typename Row, typename Start, typename OfName>
std::optional<size_t> Walk(const query::RowList<Row>& rows, size_t from, int by, const Start& start,
                           const OfName& of_name) {
  const int64_t start_ns = start(rows[from]);
  for (size_t i = 1; i <= kNeighbourRows; ++i) {
    if (by > 0 ? from + i >= rows.size() : i > from) return std::nullopt;
    const size_t at = by > 0 ? from + i : from - i;
    const bool is_behind = by > 0 ? start(rows[at]) >= start_ns : start(rows[at]) <= start_ns;
    if (is_behind && of_name(rows[at])) return at;
  }
  return std::nullopt;
}

std::optional<SearchHit> HitAt(const RankRows& rows, HitKind what, std::optional<size_t> row) {
  if (!row) return std::nullopt;
  return HitOf(rows, what, *row);
}

std::optional<SearchHit> OpOfSameName(const Snapshot& snapshot, const RankRows& rows, size_t row,
                                      int by) {
  const query::PlanOp* op = snapshot.FindPlanOp(rows.op_runs[row].plan_op);
  if (op == nullptr) return std::nullopt;
  std::unordered_set<query::PlanOpId> of_name;  // each Schedule has its own
  for (const auto& [id, other] : snapshot.plan_ops) {
    if (other.name == op->name) of_name.insert(id);
  }
  const auto start = [](const query::OpRun& run) { return run.started_ns; };
  return HitAt(rows, HitKind::kOp, Walk(rows.op_runs, row, by, start, [&](const query::OpRun& run) {
                 return of_name.contains(run.plan_op);
               }));
}

std::optional<SearchHit> WorkOfSameName(const RankRows& rows, size_t row, int by) {
  const int32_t own = rows.gpu_work[row].name;
  const auto start = [](const query::GpuWork& work) { return work.start_ns; };
  return HitAt(rows, HitKind::kWork,
               Walk(rows.gpu_work, row, by, start,
                    [own](const query::GpuWork& work) { return work.name == own; }));
}

// One whose end was not seen has the name of those whose end was.
std::optional<SearchHit> RangeOfSameName(const Snapshot& snapshot, const RankRows& rows, size_t row,
                                         int by) {
  const int32_t own = rows.spans[row].name;
  std::unordered_set<int32_t> of_name = {own};
  if (own >= 0 && static_cast<size_t>(own) < snapshot.names.size()) {
    const std::string wanted(WithoutNotEnded(snapshot.names[static_cast<size_t>(own)]));
    int32_t at = 0;
    for (const std::string& name : snapshot.names) {
      if (WithoutNotEnded(name) == wanted) of_name.insert(at);
      ++at;
    }
  }
  const auto start = [](const query::Span& span) { return span.start_ns; };
  return HitAt(rows, HitKind::kRange,
               Walk(rows.spans, row, by, start,
                    [&](const query::Span& span) { return of_name.contains(span.name); }));
}

// `row` of the op run with this id; nullopt: it has none.
std::optional<SearchHit> OpHit(const RankRows& rows, query::OpRunId id) {
  return HitAt(rows, HitKind::kOp, query::FindOpRun(rows, id));
}

std::optional<query::Collective> CollectiveOf(const RankRows& rows, const query::OpRun& run) {
  std::optional<query::Collective> found;
  rows.collectives.ForEachOfSteps(run.step, run.step, [&](const query::Collective& row, size_t) {
    if (row.op_run == run.id) found = row;
  });
  return found;
}

// The same collective on another rank: of a pair the other end.
std::optional<SearchHit> PartOf(const RankRows& rows, const query::Collective& collective) {
  query::OpRunId part = query::OpRunId::None();
  rows.collectives.ForEachOfSteps(
      collective.step, collective.step, [&](const query::Collective& row, size_t) {
        const bool is_same =
            row.communicator == collective.communicator && row.sequence == collective.sequence;
        if (is_same) part = row.op_run;
      });
  return part.is_none() ? std::nullopt : OpHit(rows, part);
}

std::optional<SearchHit> OtherEnd(const Snapshot& snapshot, const RankRows& rows,
                                  const query::OpRun& run) {
  const std::optional<query::Collective> collective = CollectiveOf(rows, run);
  if (!collective) return std::nullopt;
  for (const RankRows& other : snapshot.ranks) {
    if (other.rank == rows.rank) continue;
    if (const auto part = PartOf(other, *collective)) return part;
  }
  return std::nullopt;
}

// The part of the rank that arrived last, if that is another one.
std::optional<SearchHit> LastPart(const Snapshot& snapshot, const RankRows& rows,
                                  const query::OpRun& run) {
  const std::optional<query::Collective> collective = CollectiveOf(rows, run);
  if (!collective) return std::nullopt;
  std::optional<SearchHit> last;
  for (const RankRows& other : snapshot.ranks) {
    const std::optional<SearchHit> part = PartOf(other, *collective);
    if (part && part->start_ns > (last ? last->start_ns : run.started_ns)) last = part;
  }
  return last;
}

// A row of an op, with what it ran.
struct OpAt {
  const RankRows* rows = nullptr;  // nullptr: nothing is known
  query::OpRun run;
  const query::PlanOp* op = nullptr;

  bool is(words::OpKind kind) const { return op->kind == Name(kind); }
};

OpAt Find(const Snapshot& snapshot, const SearchHit& hit) {
  const RankRows* rows = snapshot.FindRank(hit.rank);
  if (hit.what != HitKind::kOp || rows == nullptr || hit.row >= rows->op_runs.size()) return {};
  const query::OpRun& run = rows->op_runs[hit.row];
  const query::PlanOp* op = snapshot.FindPlanOp(run.plan_op);
  if (op == nullptr) return {};
  return {rows, run, op};
}

}  // namespace

SearchHit HitOf(const RankRows& rows, HitKind what, size_t row) {
  SearchHit hit{.what = what, .rank = rows.rank, .row = static_cast<uint32_t>(row)};
  const auto take = [&hit](const auto& of, int64_t start_ns, int64_t end_ns) {
    hit.track = of.track;
    hit.start_ns = start_ns;
    hit.end_ns = end_ns;
  };
  if (what == HitKind::kOp) {
    const query::OpRun& run = rows.op_runs[row];
    take(run, run.started_ns, run.ended_ns);
    hit.step = run.step;
    hit.op_run = run.id;
  } else if (what == HitKind::kWork) {
    const query::GpuWork& work = rows.gpu_work[row];
    take(work, work.start_ns, work.end_ns);
    hit.step = work.step;
    hit.span = work.id;
  } else {
    const query::Span& span = rows.spans[row];
    take(span, span.start_ns, span.end_ns);
    hit.span = span.id;
  }
  return hit;
}

std::optional<SearchHit> OfSameName(const Snapshot& snapshot, const SearchHit& from, int by) {
  const RankRows* rows = snapshot.FindRank(from.rank);
  if (rows == nullptr) return std::nullopt;
  switch (from.what) {
    case HitKind::kOp:
      return OpOfSameName(snapshot, *rows, from.row, by);
    case HitKind::kWork:
      return WorkOfSameName(*rows, from.row, by);
    case HitKind::kRange:
      return RangeOfSameName(snapshot, *rows, from.row, by);
    case HitKind::kMarker:
      break;
  }
  return std::nullopt;
}

std::optional<SearchHit> WaitedFor(const Snapshot& snapshot, const SearchHit& op) {
  const OpAt at = Find(snapshot, op);
  if (at.rows == nullptr) return std::nullopt;
  if (at.is(words::OpKind::kReceive)) {
    if (const auto sent = OtherEnd(snapshot, *at.rows, at.run)) return sent;
  }
  const StepIndex step = IndexStep(snapshot, op.rank, at.run.step);
  if (const IndexedRun* blocker = BlockerOf(step, {at.run, at.op, nullptr})) {
    return OpHit(*at.rows, blocker->run.id);
  }
  return LastPart(snapshot, *at.rows, at.run);
}

std::optional<SearchHit> WaitsFor(const Snapshot& snapshot, const SearchHit& op) {
  const OpAt at = Find(snapshot, op);
  if (at.rows == nullptr) return std::nullopt;
  if (at.is(words::OpKind::kSend)) {
    if (const auto received = OtherEnd(snapshot, *at.rows, at.run)) return received;
  }
  if (at.op->op_class == query::OpClass::kAllGather) {
    const PrefetchSlack slack = SlackOf(snapshot, at.run.id, op.rank);
    if (slack.found) return OpHit(*at.rows, slack.first_use_op_run);
  }
  const StepIndex step = IndexStep(snapshot, op.rank, at.run.step);
  for (const IndexedRun& run : step.runs) {
    const IndexedRun* blocker = BlockerOf(step, run);
    if (blocker != nullptr && blocker->run.id == at.run.id) return OpHit(*at.rows, run.run.id);
  }
  return std::nullopt;
}

}  // namespace shardscope::analysis
