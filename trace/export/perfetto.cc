#include "trace/export/perfetto.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "trace/base/output_file.h"
#include "trace/base/token_rate.h"
#include "trace/export/chrome_writer.h"
#include "trace/query/live_trace.h"
#include "trace/query/snapshot.h"

namespace shardscope::exports {
namespace {

// Threads of a rank beside its tracks.
constexpr int64_t kStepsThread = 1;
constexpr int64_t kMarkersThread = 2;
constexpr int64_t kFirstTrack = 10;

// Slices of one thread must nest: what overlaps another one without being inside of it goes to a
// thread beside it. Slices come by start, the longest first.
class Rows {
 public:
  // The number of the row that has room for it.
  size_t Place(int64_t start_ns, int64_t end_ns) {
    for (size_t row = 0; row < open_.size(); ++row) {
      std::vector<int64_t>& ends = open_[row];
      while (!ends.empty() && ends.back() <= start_ns) ends.pop_back();
      if (!ends.empty() && ends.back() < end_ns) continue;
      ends.push_back(end_ns);
      return row;
    }
    open_.push_back({end_ns});
    return open_.size() - 1;
  }

 private:
  std::vector<std::vector<int64_t>> open_;  // by row: ends of those that go on, the innermost last
};

struct Slice {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  std::string_view category;
  std::string name;
  JsonMembers arguments;
};

class RankWriter {
 public:
  RankWriter(const query::Snapshot& snapshot, const query::RankRows& rows, ChromeWriter* writer)
      : snapshot_(snapshot), rows_(rows), writer_(*writer) {}

  void Write() {
    writer_.NameProcess(Process(), fmt::format("rank {}", rows_.rank), rows_.rank);
    WriteSteps();
    WriteMarkers();
    for (const query::Collective& row : rows_.collectives) collectives_[row.op_run] = row;
    for (const query::OpRun& run : rows_.op_runs) AddOpRun(run);
    for (const query::GpuWork& work : rows_.gpu_work) AddWork(work);
    for (const query::Span& span : rows_.spans) {
      slices_[span.track].push_back(
          {span.start_ns, span.end_ns, Name(span.category), NameAt(span.name), {}});
    }
    WriteSlices();
    WriteArrows();
    WriteMemory();
  }

  // Where the collectives of this rank are, by communicator and sequence.
  using CollectivePlaces =
      std::map<std::pair<int32_t, int64_t>, std::vector<std::pair<ChromePlace, int64_t>>>;
  void AddPlaces(CollectivePlaces* places) const {
    for (const query::OpRun& run : rows_.op_runs) {
      const auto collective = collectives_.find(run.id);
      const auto place = place_of_run_.find(run.id);
      if (collective == collectives_.end() || place == place_of_run_.end()) continue;
      (*places)[{collective->second.communicator, collective->second.sequence}].emplace_back(
          place->second, run.started_ns);
    }
  }

 private:
  int64_t Process() const { return int64_t{rows_.rank} + 1; }  // 0 is no process in Perfetto

  std::string NameAt(int32_t index) const {
    return index < 0 || static_cast<size_t>(index) >= snapshot_.names.size()
               ? std::string()
               : snapshot_.names[static_cast<size_t>(index)];
  }

  void WriteSteps() {
    const ChromePlace place{Process(), kStepsThread};
    writer_.NameThread(place, "steps", 0);
    for (const query::Step& step : rows_.steps) {
      writer_.Complete(place, "step", fmt::format("step {}", step.step), step.start_ns, step.end_ns,
                       JsonMembers()
                           .Add("step", step.step)
                           .Add("tokens", step.tokens)
                           .AddReal("loss", step.loss)
                           .AddReal("grad_norm", step.grad_norm));
      JsonMembers loss;
      loss.AddReal("loss", step.loss);
      if (!loss.empty()) writer_.Counter(Process(), "loss", step.end_ns, loss);
      const double rate = TokensPerSecond(static_cast<double>(step.tokens),
                                          static_cast<double>(step.end_ns - step.start_ns));
      if (rate > 0) {
        writer_.Counter(Process(), "tokens/s", step.end_ns,
                        JsonMembers().AddReal("tokens/s", rate));
      }
    }
  }

  // Those of the run stand at its first rank.
  void WriteMarkers() {
    if (rows_.rank != snapshot_.ranks.front().rank || snapshot_.markers.empty()) return;
    const ChromePlace place{Process(), kMarkersThread};
    writer_.NameThread(place, "markers", 1);
    for (const query::Marker& marker : snapshot_.markers) {
      const std::string name = marker.key.empty() ? marker.kind : query::ChangeText(marker);
      writer_.Instant(
          place, "marker", name, marker.time_ns,
          JsonMembers().Add("kind", std::string_view(marker.kind)).Add("step", marker.step));
    }
  }

  void AddOpRun(const query::OpRun& run) {
    const query::PlanOp* const op = snapshot_.FindPlanOp(run.plan_op);
    if (op == nullptr) return;
    JsonMembers arguments;
    arguments.Add("kind", std::string_view(op->kind))
        .Add("unit", std::string_view(op->unit))
        .Add("phase", std::string_view(op->phase))
        .Add("step", run.step)
        .Add("issued ns before start", run.started_ns - run.issued_ns)
        .Add("ready ns before start", run.started_ns - run.ready_ns);
    if (const query::PlanOp* const blocker = snapshot_.FindPlanOp(run.blocking_plan_op)) {
      arguments.Add("waited for", std::string_view(blocker->name))
          .Add("kind of wait", Name(run.blocking_kind));
    }
    const auto collective = collectives_.find(run.id);
    if (collective != collectives_.end()) {
      const query::Collective& row = collective->second;
      arguments
          .Add("communicator",
               std::string_view(snapshot_.communicators[static_cast<size_t>(row.communicator)]))
          .Add("sequence", row.sequence)
          .Add("ranks", row.group_size)
          .Add("payload bytes", row.payload_bytes)
          .Add("wire bytes", row.wire_bytes)
          .Add("times", Name(row.truth));
    }
    run_of_slice_[{run.track, slices_[run.track].size()}] = run.id;
    slices_[run.track].push_back(
        {run.started_ns, run.ended_ns, Name(op->category), op->name, arguments});
  }

  void AddWork(const query::GpuWork& work) {
    JsonMembers arguments;
    arguments.Add("correlation", work.correlation);
    if (work.bytes > 0) arguments.Add("bytes", work.bytes);
    if (const query::PlanOp* const op = snapshot_.FindPlanOp(work.plan_op))
      arguments.Add("op", std::string_view(op->name));
    slices_[work.track].push_back(
        {work.start_ns, work.end_ns, Name(work.category), NameAt(work.name), arguments});
  }

  void WriteSlices() {
    for (const query::Track& track : snapshot_.tracks) {
      const auto found = slices_.find(track.id);
      if (track.rank != rows_.rank || found == slices_.end()) continue;
      WriteTrack(track, found->second);
    }
  }

  void WriteTrack(const query::Track& track, const std::vector<Slice>& slices) {
    std::vector<size_t> order(slices.size());
    for (size_t at = 0; at < order.size(); ++at) order[at] = at;
    std::ranges::stable_sort(order, [&slices](size_t a, size_t b) {
      return std::pair(slices[a].start_ns, -slices[a].end_ns) <
             std::pair(slices[b].start_ns, -slices[b].end_ns);
    });
    Rows rows;
    std::map<size_t, ChromePlace> places;
    for (const size_t at : order) {
      const Slice& slice = slices[at];
      const size_t row = rows.Place(slice.start_ns, slice.end_ns);
      const auto [place, is_new] = places.try_emplace(row, ChromePlace{Process(), next_thread_});
      if (is_new) {
        writer_.NameThread(place->second,
                           row == 0 ? track.name : fmt::format("{} ({})", track.name, row + 1),
                           next_thread_);
        ++next_thread_;
      }
      writer_.Complete(place->second, slice.category, slice.name, slice.start_ns, slice.end_ns,
                       slice.arguments);
      const auto run = run_of_slice_.find({track.id, at});
      if (run != run_of_slice_.end()) place_of_run_[run->second] = place->second;
    }
  }

  // From the host's issue of a collective to where it ran; the step's slice is what encloses the
  // issue.
  void WriteArrows() {
    for (const query::OpRun& run : rows_.op_runs) {
      const auto place = place_of_run_.find(run.id);
      if (!collectives_.contains(run.id) || place == place_of_run_.end()) continue;
      writer_.Arrow("issue", "issue", {Process(), kStepsThread}, run.issued_ns, place->second,
                    run.started_ns);
    }
  }

  void WriteMemory() {
    std::vector<query::MemoryEvent> events(rows_.memory.begin(), rows_.memory.end());
    std::ranges::stable_sort(events, {}, &query::MemoryEvent::executed_ns);
    std::map<query::MemoryCategory, int64_t> live;
    for (const query::MemoryEvent& event : events) {
      live[event.category] += event.bytes;
      JsonMembers values;
      for (const auto& [category, bytes] : live) values.Add(Name(category), bytes);
      writer_.Counter(Process(), "memory (bytes)", event.executed_ns, values);
    }
  }

  const query::Snapshot& snapshot_;
  const query::RankRows& rows_;
  ChromeWriter& writer_;
  std::map<query::OpRunId, query::Collective> collectives_;
  std::map<query::TrackId, std::vector<Slice>> slices_;
  std::map<std::pair<query::TrackId, size_t>, query::OpRunId> run_of_slice_;
  std::map<query::OpRunId, ChromePlace> place_of_run_;
  int64_t next_thread_ = kFirstTrack;
};

// One arrow from the first to arrive to each of the others.
void WriteCollectiveArrows(const RankWriter::CollectivePlaces& places, ChromeWriter* writer) {
  for (const auto& [key, ranks] : places) {
    const auto first =
        std::ranges::min_element(ranks, {}, [](const auto& at) { return at.second; });
    for (auto rank = ranks.begin(); rank != ranks.end(); ++rank) {
      if (rank == first) continue;
      writer->Arrow("collective", "collective", first->first, first->second, rank->first,
                    rank->second);
    }
  }
}

}  // namespace

Status WritePerfetto(const store::RunFiles& run, const std::string& to, const ExportOptions&) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const query::SnapshotPtr snapshot, query::ReadSnapshotOf(run));
  SHARDSCOPE_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(to));
  JsonMembers head;
  head.Add("displayTimeUnit", "ms").Add("traceName", std::string_view(snapshot->name));
  ChromeWriter writer(&file, head);
  RankWriter::CollectivePlaces places;
  for (const query::RankRows& rows : snapshot->ranks) {
    RankWriter rank(*snapshot, rows, &writer);
    rank.Write();
    rank.AddPlaces(&places);
  }
  WriteCollectiveArrows(places, &writer);
  SHARDSCOPE_RETURN_IF_ERROR(writer.End());
  return file.Close();
}

}  // namespace shardscope::exports
