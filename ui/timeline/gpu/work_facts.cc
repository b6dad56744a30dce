#include "ui/timeline/gpu/work_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "trace/analysis/names.h"
#include "trace/base/not_ended.h"
#include "trace/query/find_track.h"
#include "ui/timeline/run_index.h"

namespace shardscope::timeline {
namespace {

std::string TrackName(const query::Snapshot& snapshot, query::TrackId track) {
  const query::Track* row = query::FindTrack(snapshot, track);
  if (row == nullptr) return "";
  return row->name.empty() ? "main thread" : row->name;
}

const std::string& NameAt(const query::Snapshot& snapshot, int32_t name) {
  return snapshot.names[static_cast<size_t>(name)];
}

int64_t StartOfStep(const query::Snapshot& snapshot, const query::RankRows& rows, int32_t step) {
  for (size_t at = rows.steps.size(); at-- > 0 && rows.steps[at].step >= step - 1;) {
    if (rows.steps[at].step == step) return rows.steps[at].start_ns;
    if (rows.steps[at].step == step - 1) return rows.steps[at].end_ns;
  }
  return snapshot.RunStartNs();
}

std::string NcclText(const query::Snapshot& snapshot, const query::NcclOperation& operation) {
  std::string text = NameAt(snapshot, operation.function);
  if (operation.sequence >= 0) text += fmt::format(" #{}", operation.sequence);
  const std::string& algorithm = NameAt(snapshot, operation.algorithm);
  if (!algorithm.empty()) {
    text += fmt::format(", {} {}", algorithm, NameAt(snapshot, operation.protocol));
  }
  if (operation.channels > 0) text += fmt::format(", {} channels", operation.channels);
  return text;
}

// Where rows are not in the order of their ids, all are looked at.
template <typename Row>
uint32_t FindById(const query::RowList<Row>& rows, query::SpanId id) {
  const auto of_id = [id](const Row& row) { return row.id == id; };
  auto found =
      std::lower_bound(rows.begin(), rows.end(), id,
                       [](const Row& row, query::SpanId wanted) { return row.id < wanted; });
  if (found == rows.end() || !of_id(*found)) found = std::find_if(rows.begin(), rows.end(), of_id);
  return found == rows.end() ? kNoRow : static_cast<uint32_t>(found - rows.begin());
}

void AddArrival(const RunIndex& index, const query::RankRows& rows, const RankIndex& rank,
                uint32_t row, WorkFacts* facts) {
  const Arrival* arrival = index.ArrivalOfWork(rows, rank, row);
  if (arrival == nullptr) return;
  const int64_t last_ns = std::clamp(arrival->last_ns, facts->work.start_ns, facts->work.end_ns);
  facts->has_arrival = true;
  facts->wait_ns = last_ns - facts->work.start_ns;
  facts->transfer_ns = facts->work.end_ns - last_ns;
  facts->last_rank = arrival->last_rank;
}

}  // namespace

WorkFacts FactsOfWork(const query::Snapshot& snapshot, const RunIndex& index, int32_t rank,
                      uint32_t row) {
  WorkFacts facts;
  const query::RankRows* rows = snapshot.FindRank(rank);
  const RankIndex* of_rank = index.Find(rank);
  if (rows == nullptr || of_rank == nullptr || row >= rows->gpu_work.size()) return facts;
  facts.kind = WorkFacts::Kind::kWork;
  facts.rank = rank;
  facts.work = rows->gpu_work[row];
  facts.name = NameAt(snapshot, facts.work.name);
  facts.short_name = ShortKernelName(facts.name);
  facts.track = TrackName(snapshot, facts.work.track);
  facts.launched_by = TrackName(snapshot, facts.work.launch_track);
  if (const query::PlanOp* op = snapshot.FindPlanOp(facts.work.plan_op)) {
    facts.op = analysis::ShortName(*op);
    const uint32_t op_row = RunIndex::OpRunOf(*rows, *of_rank, facts.work);
    if (op_row != kNoRow) facts.op_run = rows->op_runs[op_row].id;
  }
  facts.step_start_ns =
      facts.work.step < 0 ? snapshot.RunStartNs() : StartOfStep(snapshot, *rows, facts.work.step);
  AddArrival(index, *rows, *of_rank, row, &facts);
  const auto nccl = of_rank->nccl_of_work.find(row);
  if (nccl != of_rank->nccl_of_work.end())
    facts.nccl = NcclText(snapshot, rows->nccl[nccl->second]);
  for (const TrackLane& stream : of_rank->tracks.streams()) {
    if (stream.track != facts.work.track) continue;
    const TrackLane* other = of_rank->tracks.SharesChannel(snapshot, stream);
    if (other != nullptr) facts.shares_channel_with = other->name;
  }
  return facts;
}

uint32_t FindWorkRow(const query::RankRows& rows, query::SpanId span) {
  return FindById(rows.gpu_work, span);
}

uint32_t FindRangeRow(const query::RankRows& rows, query::SpanId span) {
  return FindById(rows.spans, span);
}

WorkFacts WorkFactsOf(const query::Snapshot& snapshot, const RunIndex& index, int32_t rank,
                      query::SpanId span) {
  const query::RankRows* rows = snapshot.FindRank(rank);
  if (rows == nullptr || span.is_none()) return {};
  const uint32_t row = FindWorkRow(*rows, span);
  if (row != kNoRow) return FactsOfWork(snapshot, index, rank, row);
  const uint32_t range_row = FindRangeRow(*rows, span);
  if (range_row == kNoRow) return {};
  const query::Span& range = rows->spans[range_row];
  WorkFacts facts;
  facts.kind = WorkFacts::Kind::kRange;
  facts.rank = rank;
  facts.range = range;
  facts.name = facts.short_name = NameAt(snapshot, range.name);
  // As its importer keeps a collective that is scheduled.
  facts.is_not_begun = snapshot.flight_entries.size() > 0 && IsNotEnded(facts.name) &&
                       range.category == query::SpanCategory::kWait;
  facts.track = TrackName(snapshot, range.track);
  facts.step_start_ns = snapshot.RunStartNs();
  return facts;
}

query::SpanId FirstWorkOf(const query::Snapshot& snapshot, const RunIndex& index, int32_t rank,
                          query::OpRunId op_run) {
  const query::RankRows* rows = snapshot.FindRank(rank);
  const RankIndex* of_rank = index.Find(rank);
  const uint32_t row = rows == nullptr ? kNoRow : FindRow(*rows, op_run);
  if (row == kNoRow || of_rank == nullptr) return query::SpanId::None();
  const query::OpRun& run = rows->op_runs[row];
  std::optional<query::GpuWork> first;
  for (const TrackLane& stream : of_rank->tracks.streams()) {
    const SpanColumn& column = stream.levels.front();
    const size_t last = column.FirstStartingAt(run.ended_ns + 1);
    for (size_t at = column.FirstStartingAt(run.started_ns); at < last; ++at) {
      const query::GpuWork& work = rows->gpu_work[column[at].row];
      if (work.plan_op != run.plan_op || work.step != run.step) continue;
      if (!first || work.start_ns < first->start_ns) first = work;
      break;
    }
  }
  return first ? first->id : query::SpanId::None();
}

std::optional<WorkId> LongestWork(const query::Snapshot& snapshot, Range range) {
  constexpr size_t kMost = 1'000'000;  // rows that are looked at, when a run is opened
  std::optional<WorkId> longest;
  std::pair<bool, int64_t> best{false, -1};  // communication, ns
  size_t looked_at = 0;
  for (const query::RankRows& rows : snapshot.ranks) {
    for (const query::GpuWork& work : rows.gpu_work) {
      if (++looked_at > kMost) return longest;
      const bool inside = work.start_ns >= range.start_ns && work.end_ns <= range.end_ns;
      const std::pair<bool, int64_t> rating{work.category == query::SpanCategory::kCommunication,
                                            work.end_ns - work.start_ns};
      if (!inside || work.kind != query::GpuWorkKind::kKernel || rating <= best) continue;
      best = rating;
      longest = WorkId{work.id, rows.rank};
    }
  }
  return longest;
}

}  // namespace shardscope::timeline
