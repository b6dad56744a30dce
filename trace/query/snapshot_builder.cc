#include "trace/query/snapshot_builder.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trace/base/reasons.h"
#include "trace/base/trace_keys.h"
#include "trace/base/units.h"
#include "trace/query/rows.h"
#include "trace/query/sane.h"
#include "trace/query/snapshot.h"
#include "trace/query/summary.h"
#include "trace/store/merge/clock_facts.h"
#include "trace/store/run_source.h"

namespace shardscope::query {
namespace {

// A file may claim anything.
constexpr int64_t kMostProcesses = 1 << 16;
constexpr size_t kMostClocks = 1 << 12;
constexpr size_t kMaxRanks = 1 << 13;
constexpr uint64_t kMostMetPlanOps = 1 << 20;

// Takes a row of `meta`, if it is about a clock (trace/store/merge/clock_facts.h).
void TakeClock(const std::string& key, const std::string& value, std::vector<Clock>* clocks) {
  if (!key.starts_with(store::kClockFactsPrefix)) return;
  size_t index = kMostClocks;
  std::from_chars(key.data() + store::kClockFactsPrefix.size(), key.data() + key.size(), index);
  std::optional<Clock> facts = store::ParseClockFacts(value);
  if (index >= kMostClocks || !facts) return;
  if (clocks->size() <= index) clocks->resize(index + 1);
  (*clocks)[index] = std::move(*facts);
}

// Takes a row of `meta`, if it names one of the run's processes (trace/store/run_source.h).
void TakeProcess(const std::string& key, const std::string& value,
                 std::map<int64_t, Process>* processes) {
  const std::string_view prefix = store::kProcessPrefix;
  if (!key.starts_with(prefix)) return;
  int64_t process = -1;
  std::from_chars(key.data() + prefix.size(), key.data() + key.size(), process);
  if (process >= 0 && process < kMostProcesses) (*processes)[process].name = value;
}

// How far the times of different clocks can be trusted, in words; none for a run on one clock.
std::optional<Capability> ClockCapability(const std::vector<Clock>& clocks) {
  if (clocks.size() < 2) return std::nullopt;
  int64_t p95_ns = 0;
  int64_t max_ns = 0;
  std::string by_time_of_day;
  for (const Clock& clock : clocks) {
    p95_ns = std::max(p95_ns, clock.residual_p95_ns);
    max_ns = std::max(max_ns, clock.residual_max_ns);
    if (clock.method == ClockMethod::kTimeOfDay || clock.method == ClockMethod::kUnknown) {
      by_time_of_day += (by_time_of_day.empty() ? "" : " ") + clock.processes;
    }
  }
  Capability row;
  row.source = "clocks";
  row.status = Name(by_time_of_day.empty() ? CapabilityStatus::kOn : CapabilityStatus::kPartial);
  row.reason = "clocks of " + std::to_string(clocks.size()) +
               " machines put on one: ends of a collective lie within " + FormatDuration(p95_ns) +
               " (p95), " + FormatDuration(max_ns) + " at most";
  if (!by_time_of_day.empty()) {
    row.reason += "; no shared collectives for " + by_time_of_day +
                  ", placed by the time of day only: do not compare their times with others";
  }
  return row;
}

// The run waits for its user: by the newest marker of a pause or its end.
bool IsPaused(const std::vector<Marker>& markers) {
  for (auto marker = markers.rbegin(); marker != markers.rend(); ++marker) {
    if (marker->kind == Name(MarkerKind::kPause)) return true;
    if (marker->kind == Name(MarkerKind::kResume) || marker->kind == Name(MarkerKind::kStop))
      return false;
  }
  return false;
}

int32_t Int32(int64_t value) { return static_cast<int32_t>(value); }

// Without what it waits for. Its numbers fit.
PlanOp PlanOpOf(const schema::PlanOpRow& row, Category category) {
  PlanOp op;
  op.id = row.id;
  op.schedule = row.schedule;
  op.program = Int32(row.program);
  op.op = Int32(row.op);
  op.name = row.name;
  op.kind = row.kind;
  op.op_class = OpClassOf(row.kind, category);
  op.category = category;
  op.phase = row.phase;
  op.micro_batch = Int32(row.micro_batch);
  op.unit = row.unit;
  op.segment = row.segment;
  op.stream = row.stream;
  op.communicator = row.communicator;
  op.dtype = row.dtype;
  op.payload_bytes = row.payload_bytes;
  op.wire_bytes = row.wire_bytes;
  return op;
}

// Parses words, of which a row mostly has that of the row before.
template <typename Value>
class WordParser {
 public:
  explicit WordParser(std::optional<Value> (*parse)(std::string_view)) : parse_(parse) {}
  std::optional<Value> operator()(std::string_view word) {
    if (word != word_) {
      word_ = word;
      value_ = parse_(word);
    }
    return value_;
  }

 private:
  std::optional<Value> (*const parse_)(std::string_view);
  std::string word_;
  std::optional<Value> value_ = parse_({});
};

}  // namespace

SnapshotBuilder::SnapshotBuilder(std::string run_folder, std::string name) {
  current_.run_folder = std::move(run_folder);
  current_.name = std::move(name);
}

void SnapshotBuilder::Extend(int64_t from_ns, int64_t to_ns) {
  current_.start_ns = has_time_ ? std::min(current_.start_ns, from_ns) : from_ns;
  current_.end_ns = has_time_ ? std::max(current_.end_ns, to_ns) : to_ns;
  has_time_ = true;
}

RankRows* SnapshotBuilder::RowsOfRank(int64_t rank) {
  if (rank < 0 || rank > kMaxRank) return nullptr;
  std::vector<RankRows>& ranks = current_.ranks;
  const auto key = static_cast<size_t>(rank);
  if (key < place_of_rank_.size() && place_of_rank_[key] < ranks.size()) {
    return &ranks[place_of_rank_[key]];
  }
  auto place = std::lower_bound(ranks.begin(), ranks.end(), rank,
                                [](const RankRows& rows, int64_t r) { return rows.rank < r; });
  if (place == ranks.end() || place->rank != rank) {
    if (ranks.size() >= kMaxRanks) return nullptr;
    place = ranks.insert(place, RankRows{});
    place->rank = Int32(rank);
    LearnPlaces();
  }
  return &*place;
}

// A search for every row would cost more than the rest of taking it.
void SnapshotBuilder::LearnPlaces() {
  place_of_rank_.clear();
  for (size_t at = 0; at < current_.ranks.size(); ++at) {
    const auto rank = static_cast<size_t>(current_.ranks[at].rank);
    if (rank >= kMaxRanks) return;  // mostly there are none that large
    place_of_rank_.resize(rank + 1, UINT32_MAX);
    place_of_rank_[rank] = static_cast<uint32_t>(at);
  }
}

bool SnapshotBuilder::IsPlanOp(PlanOpId id) {
  const auto key = static_cast<uint64_t>(id.value());
  if (key < met_plan_ops_.size() && met_plan_ops_[key]) return true;
  if (!current_.plan_ops.contains(id)) return false;
  if (key < kMostMetPlanOps) {
    if (key >= met_plan_ops_.size()) met_plan_ops_.resize(key + 1);
    met_plan_ops_[key] = true;
  }
  return true;
}

void SnapshotBuilder::AddRankOfProcess(int64_t process, int32_t rank) {
  if (process < 0 || process >= kMostProcesses) return;
  std::vector<int32_t>& ranks = current_.processes[process].ranks;
  const auto place = std::lower_bound(ranks.begin(), ranks.end(), rank);
  if (place == ranks.end() || *place != rank) ranks.insert(place, rank);
}

int32_t SnapshotBuilder::Communicator(std::string_view name) {
  const auto known = communicator_index_.find(name);
  if (known != communicator_index_.end()) return known->second;
  const int32_t index = Int32(static_cast<int64_t>(current_.communicators.size()));
  current_.communicators.emplace_back(name);
  communicator_index_.emplace(name, index);
  return index;
}

void SnapshotBuilder::AddMeta(const store::RowBatch& batch) {
  for (const schema::MetaRow& row : batch.Get<schema::MetaRow>()) {
    current_.meta[row.key] = row.value;
    TakeClock(row.key, row.value, &current_.clocks);
    TakeProcess(row.key, row.value, &current_.processes);
    if (row.key == "name" && !row.value.empty()) current_.name = row.value;
    if (row.key == "truth") current_.truth = ParseTruth(row.value).value_or(Truth::kMeasured);
    if (row.key == trace_keys::kContended) {
      current_.contended = row.value == "1" || row.value == "true";
    }
  }
  for (const schema::ConfigRow& row : batch.Get<schema::ConfigRow>()) {
    current_.config[row.key] = row.value;
  }
}

void SnapshotBuilder::AddRanks(const store::RowBatch& batch) {
  for (const schema::RankRow& row : batch.Get<schema::RankRow>()) {
    if (RowsOfRank(row.rank) == nullptr) Refuse();
  }
  for (const schema::TrackRow& row : batch.Get<schema::TrackRow>()) {
    const std::optional<TrackRole> role = ParseTrackRole(row.role);
    if (!role || RowsOfRank(row.rank) == nullptr || !FitsInt32(row.position)) {
      Refuse();
      continue;
    }
    current_.tracks.push_back({row.id, Int32(row.rank), row.name, *role, Int32(row.position)});
    AddRankOfProcess(row.id.value() / store::kIdsPerFile, Int32(row.rank));
  }
}

void SnapshotBuilder::AddMarkers(const store::RowBatch& batch) {
  for (const schema::MarkerRow& row : batch.Get<schema::MarkerRow>()) {
    if (!SaneTime(row.time_ns) || !IsStep(row.step)) {
      Refuse();
      continue;
    }
    current_.markers.push_back(
        {row.time_ns, Int32(row.step), row.kind, row.key, row.old_value, row.new_value});
    Extend(row.time_ns, row.time_ns);
  }
}

void SnapshotBuilder::AddRecording(const store::RowBatch& batch) {
  for (const schema::CapabilityRow& row : batch.Get<schema::CapabilityRow>()) {
    const int64_t dropped = std::clamp<int64_t>(row.dropped, 0, kMaxCount);
    current_.capabilities.push_back(
        {row.source, row.status, row.reason, dropped, row.id.value() / store::kIdsPerFile});
  }
  for (const schema::GpuClockRow& row : batch.Get<schema::GpuClockRow>()) {
    if (row.rank < 0 || row.rank > kMaxRank || !SaneTime(row.time_ns) || !SaneCount(row.low_ns) ||
        !SaneCount(row.high_ns)) {
      Refuse();
      continue;
    }
    current_.gpu_clocks.push_back(
        {Int32(row.rank), row.device, row.method, row.time_ns, row.low_ns, row.high_ns});
  }
  for (const schema::OverheadStepRow& row : batch.Get<schema::OverheadStepRow>()) {
    if (!FitsInt32(row.round) || row.rank < 0 || row.rank > kMaxRank || !IsStep(row.step) ||
        row.duration_ns <= 0 || !SaneCount(row.duration_ns)) {
      Refuse();
      continue;
    }
    current_.overhead_steps.push_back(
        {Int32(row.round), Int32(row.rank), Int32(row.step), row.recorded != 0, row.duration_ns});
  }
}

void SnapshotBuilder::AddPlan(const store::RowBatch& batch) {
  for (const schema::ScheduleRow& row : batch.Get<schema::ScheduleRow>()) {
    current_.schedules[row.id] = {row.id, row.name, row.text, {row.predicted_peak_bytes}, {}};
  }
  for (const schema::ScheduleBoundRow& row : batch.Get<schema::ScheduleBoundRow>()) {
    const auto found = current_.schedules.find(row.schedule);
    if (found == current_.schedules.end()) {
      Refuse();
      continue;
    }
    found->second.largest.bound_bytes = row.executed_peak_bytes;
  }
  for (const schema::RankPeakRow& row : batch.Get<schema::RankPeakRow>()) {
    const auto found = current_.schedules.find(row.schedule);
    if (found == current_.schedules.end() || !FitsInt32(row.rank)) {
      Refuse();
      continue;
    }
    found->second.by_rank[Int32(row.rank)] = {row.predicted_peak_bytes, row.executed_peak_bytes};
  }
  for (const schema::PlanOpRow& row : batch.Get<schema::PlanOpRow>()) {
    const std::optional<Category> category = ParseCategory(row.category);
    if (!category || !FitsInt32(row.program) || !FitsInt32(row.op) || !FitsInt32(row.micro_batch)) {
      Refuse();
      continue;
    }
    current_.plan_ops[row.id] = PlanOpOf(row, *category);
  }
  for (const schema::PlanEdgeRow& row : batch.Get<schema::PlanEdgeRow>()) {
    const auto waiting = current_.plan_ops.find(row.plan_op);
    const auto predecessor = current_.plan_ops.find(row.predecessor);
    if (waiting == current_.plan_ops.end() || predecessor == current_.plan_ops.end()) {
      Refuse();
      continue;
    }
    waiting->second.predecessors.push_back(row.predecessor);
    if (row.kind == Name(words::DependencyKind::kHost))
      waiting->second.host_predecessors.push_back(row.predecessor);
    predecessor->second.successors.push_back(row.plan_op);
  }
}

void SnapshotBuilder::AddOpRuns(const store::RowBatch& batch) {
  WordParser<BlockingKind> parse_kind(&ParseBlockingKind);
  for (const schema::OpRunRow& row : batch.Get<schema::OpRunRow>()) {
    RankRows* rows = RowsOfRank(row.rank);
    const bool sane = rows != nullptr && IsStepOfOp(row.step) && SaneTime(row.issued_ns) &&
                      SaneTime(row.ready_ns) && SaneTime(row.started_ns) &&
                      SaneTime(row.ended_ns) && row.started_ns <= row.ended_ns &&
                      SaneTime(row.slot_wait_ns) && row.slot_wait_ns <= row.started_ns &&
                      IsPlanOp(row.plan_op);
    const std::optional<BlockingKind> kind = parse_kind(row.blocking_kind);
    if (!sane || !kind) {
      Refuse();
      continue;
    }
    rows->op_runs.Append({.id = row.id,
                          .plan_op = row.plan_op,
                          .rank = rows->rank,
                          .blocking_kind = *kind,
                          .step = Int32(row.step),
                          .track = row.track,
                          .issued_ns = row.issued_ns,
                          .ready_ns = row.ready_ns,
                          .started_ns = row.started_ns,
                          .ended_ns = row.ended_ns,
                          .slot_wait_ns = row.slot_wait_ns,
                          .cpu_ns = row.cpu_ns,
                          .blocking_plan_op = row.blocking_plan_op});
    Extend(std::min(row.issued_ns, row.started_ns), row.ended_ns);
  }
}

void SnapshotBuilder::AddSteps(const store::RowBatch& batch) {
  for (const schema::StepRow& row : batch.Get<schema::StepRow>()) {
    RankRows* rows = RowsOfRank(row.rank);
    if (rows == nullptr || !IsStep(row.step) || !SaneTime(row.start_ns) || !SaneTime(row.end_ns) ||
        row.start_ns > row.end_ns || !SaneCount(row.tokens)) {
      Refuse();
      continue;
    }
    rows->steps.Append({Int32(row.rank), Int32(row.step), row.schedule, row.start_ns, row.end_ns,
                        row.tokens, row.loss, row.grad_norm});
    Extend(row.start_ns, row.end_ns);
  }
}

void SnapshotBuilder::AddPauses(const store::RowBatch& batch) {
  for (const schema::PauseRow& row : batch.Get<schema::PauseRow>()) {
    RankRows* rows = RowsOfRank(row.rank);
    const std::optional<PauseCause> cause = ParsePauseCause(row.cause);
    const bool sane = rows != nullptr && cause && IsStep(row.step) && SaneTime(row.start_ns) &&
                      SaneTime(row.end_ns) && row.start_ns <= row.end_ns;
    if (!sane || (!rows->pauses.empty() && row.start_ns < rows->pauses.back().end_ns)) {
      Refuse();
      continue;
    }
    rows->pauses.push_back({Int32(row.step), *cause, row.start_ns, row.end_ns});
  }
}

void SnapshotBuilder::AddCheckpoints(const store::RowBatch& batch) {
  for (const schema::CheckpointRow& row : batch.Get<schema::CheckpointRow>()) {
    RankRows* rows = RowsOfRank(row.rank);
    const bool sane = rows != nullptr && IsStep(row.step) && SaneTime(row.start_ns) &&
                      SaneTime(row.written_ns) && row.start_ns <= row.copy_ns &&
                      row.copy_ns <= row.copied_ns && row.copied_ns <= row.written_ns &&
                      row.bytes >= 0 && SaneBytes(row.bytes);
    if (!sane || (!rows->checkpoints.empty() && row.start_ns < rows->checkpoints.back().start_ns)) {
      Refuse();
      continue;
    }
    rows->checkpoints.push_back({Int32(row.step), row.start_ns, row.copy_ns, row.copied_ns,
                                 row.written_ns, row.bytes, row.error});
    Extend(row.start_ns, row.written_ns);
  }
}

void SnapshotBuilder::AddEvaluations(const store::RowBatch& batch) {
  for (const schema::EvaluationRow& row : batch.Get<schema::EvaluationRow>()) {
    RankRows* rows = RowsOfRank(row.rank);
    if (rows == nullptr || !IsStep(row.step) || row.first_batch >= -1 ||
        !IsStepOfOp(row.first_batch) || row.batches < 1 || row.batches > store::kMaxStep ||
        !SaneTime(row.start_ns) || !SaneTime(row.end_ns) || row.start_ns > row.end_ns ||
        !SaneCount(row.tokens)) {
      Refuse();
      continue;
    }
    rows->evaluations.push_back({Int32(row.step), row.schedule, Int32(row.first_batch),
                                 Int32(row.batches), row.start_ns, row.end_ns, row.tokens,
                                 row.loss});
  }
}

void SnapshotBuilder::AddCollectives(const store::RowBatch& batch) {
  WordParser<Truth> parse_truth(&ParseTruth);
  for (const schema::CollectiveRow& row : batch.Get<schema::CollectiveRow>()) {
    RankRows* rows = RowsOfRank(row.rank);
    const std::optional<Truth> truth = parse_truth(row.truth);
    if (rows == nullptr || !truth || !IsStepOfOp(row.step) || !FitsInt32(row.group_size)) {
      Refuse();
      continue;
    }
    rows->collectives.Append({.op_run = row.op_run,
                              .rank = rows->rank,
                              .step = Int32(row.step),
                              .communicator = Communicator(row.communicator),
                              .group_size = Int32(row.group_size),
                              .sequence = row.sequence,
                              .payload_bytes = row.payload_bytes,
                              .wire_bytes = row.wire_bytes,
                              .kind = OpClassOf(row.kind, Category::kCommunication),
                              .truth = *truth});
  }
}

uint64_t SnapshotBuilder::MemoryUnit(std::string_view name) {
  if (name.empty()) return 0;
  const auto known = memory_unit_index_.find(name);
  if (known != memory_unit_index_.end()) return known->second;
  if (current_.memory_units.size() >= kMostMemoryUnits) return 0;
  current_.memory_units.emplace_back(name);
  return memory_unit_index_.emplace(name, current_.memory_units.size() - 1).first->second;
}

void SnapshotBuilder::AddMemory(const store::RowBatch& batch) {
  WordParser<MemoryCategory> parse_category(&ParseMemoryCategory);
  for (const schema::MemoryEventRow& row : batch.Get<schema::MemoryEventRow>()) {
    RankRows* rows = RowsOfRank(row.rank);
    const std::optional<MemoryCategory> category = parse_category(row.category);
    if (rows == nullptr || !category || !IsStepOfOp(row.step) || !SaneTime(row.issued_ns) ||
        !SaneTime(row.executed_ns) || !SaneCount(row.bytes)) {
      Refuse();
      continue;
    }
    rows->memory.Append({.issued_ns = row.issued_ns,
                         .executed_ns = row.executed_ns,
                         .bytes = row.bytes,
                         .is_of_step = row.step != -1,
                         .unit = MemoryUnit(row.unit),
                         .category = *category});
    Extend(row.issued_ns, row.executed_ns);
  }
}

void SnapshotBuilder::GoOnFrom(const SnapshotBuilder& other) {
  current_.communicators = other.current_.communicators;
  communicator_index_ = other.communicator_index_;
  current_.memory_units = other.current_.memory_units;
  memory_unit_index_ = other.memory_unit_index_;
  refused_ = other.refused_;
}

void SnapshotBuilder::Add(const store::RowBatch& batch) {
  AddMeta(batch);
  AddRanks(batch);
  AddMarkers(batch);
  AddRecording(batch);
  AddPlan(batch);
  AddOpRuns(batch);
  AddSteps(batch);
  AddPauses(batch);
  AddCheckpoints(batch);
  AddEvaluations(batch);
  AddCollectives(batch);
  AddMemory(batch);
  gpu_builder_.Add(batch);
  AddFlights(batch);
}

SnapshotPtr SnapshotBuilder::PublishLoading(store::SourceState state) {
  current_.loading = true;
  current_.generation = kLoadingGeneration - 1;
  return Publish(state);
}

SnapshotPtr SnapshotBuilder::Publish(store::SourceState state) {
  ++current_.generation;
  const auto written = current_.meta.find("state");
  const bool finishing =
      written != current_.meta.end() && written->second == Name(TraceState::kFinishing);
  current_.state = state == store::SourceState::kLive
                       ? (finishing ? TraceState::kFinishing : TraceState::kLive)
                   : state == store::SourceState::kCut ? TraceState::kCut
                                                       : TraceState::kFinished;
  current_.paused = current_.state == TraceState::kLive && IsPaused(current_.markers);
  if (state != store::SourceState::kLive) gpu_builder_.End();
  auto snapshot = std::make_shared<Snapshot>(current_);
  if (const std::optional<Capability> clocks = ClockCapability(current_.clocks)) {
    snapshot->capabilities.push_back(*clocks);
  }
  if (refused_ > 0) {
    snapshot->capabilities.push_back(
        {"reader", std::string(Name(CapabilityStatus::kPartial)), reasons::kRefusedRows, refused_});
  }
  return snapshot;
}

std::vector<int32_t> SnapshotBuilder::Ranks() const {
  std::vector<int32_t> ranks;
  for (const RankRows& rows : current_.ranks) ranks.push_back(rows.rank);
  return ranks;
}

void SnapshotBuilder::SetDerived(Derived derived) {
  refused_ += derived.num_refused;
  current_.derived = std::move(derived.rows);
}

}  // namespace shardscope::query
