#include "trace/import/recording_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "trace/base/reasons.h"
#include "trace/base/trace_keys.h"
#include "trace/base/version.h"
#include "trace/base/words.h"
#include "trace/import/format.h"
#include "trace/import/history_rows.h"
#include "trace/import/op_rows.h"
#include "trace/import/ops.h"
#include "trace/import/parallelism.h"
#include "trace/import/steps.h"
#include "trace/schema/capability_row.h"
#include "trace/schema/rows.h"
#include "trace/store/finished_writer.h"

namespace shardscope::imports {
namespace {

using schema::SpanId;
using schema::StringId;
using schema::TrackId;
using store::FinishedWriter;
using words::Name;
using words::SpanCategory;

constexpr double kShareBeforeRows = 0.25;      // of the time: sorting, and finding ops
constexpr size_t kWorkBetweenLooks = 1 << 14;  // at whether it is still wanted

TrackId IdOfTrack(uint32_t track) { return TrackId(int64_t{track} + 1); }
StringId IdOfName(Names::Index name) { return StringId(int64_t{name} + 1); }

std::string TrackName(const RecordedTrack& track) {
  switch (track.kind) {
    case TrackKind::kThread:
      if (track.thread < 0) return track.name.empty() ? "thread" : track.name;
      return track.name.empty() || track.name.starts_with("thread ")
                 ? fmt::format("thread {}", track.thread)
                 : fmt::format("thread {} ({})", track.thread, track.name);
    case TrackKind::kStream:
      return fmt::format("GPU {} stream {}", track.device, track.stream);
    case TrackKind::kStreamRanges:
      return fmt::format("GPU {} stream {} ranges", track.device, track.stream);
    case TrackKind::kStreamWaits:
      return track.stream < 0 ? fmt::format("GPU {} waits of the host", track.device)
                              : fmt::format("GPU {} stream {} waits", track.device, track.stream);
  }
  return "";
}

class RowsOfRecording {
 public:
  RowsOfRecording(const RunFacts& facts, Recording* recording, FinishedWriter* writer,
                  const GoOn& go_on)
      : facts_(facts),
        recording_(*recording),
        writer_(*writer),
        go_on_(go_on),
        steps_(*recording) {}

  Status Write() {
    PutInOrder();
    if (!go_on_(0)) return Status::Error(kCancelled);
    ops_ = InferOps(&recording_, steps_, launch_of_work_);
    SHARDSCOPE_RETURN_IF_ERROR(WriteFacts());
    SHARDSCOPE_RETURN_IF_ERROR(WriteLosses());
    SHARDSCOPE_RETURN_IF_ERROR(WriteTracks());
    SHARDSCOPE_RETURN_IF_ERROR(WriteNames());
    SHARDSCOPE_RETURN_IF_ERROR(WriteRecognised());
    SHARDSCOPE_RETURN_IF_ERROR(WriteOpRows(facts_, recording_, steps_, ops_, &writer_));
    SHARDSCOPE_RETURN_IF_ERROR(WriteSpansAndWork());
    SHARDSCOPE_RETURN_IF_ERROR(WriteSteps());
    SHARDSCOPE_RETURN_IF_ERROR(WriteMemory());
    SHARDSCOPE_RETURN_IF_ERROR(WriteAllocator(facts_, &recording_, &writer_));
    SHARDSCOPE_RETURN_IF_ERROR(WriteMarkers(
        recording_, [this](int64_t time_ns) { return StepAt(time_ns); }, &writer_));
    SHARDSCOPE_RETURN_IF_ERROR(WriteFlight(facts_, recording_, &writer_));
    return WriteCounters();
  }

 private:
  void PutInOrder();
  // Done when the work at this index is to be written.
  double ShareAt(size_t at) const {
    const auto written = static_cast<double>(at) / static_cast<double>(recording_.works.size());
    return kShareBeforeRows + (1 - kShareBeforeRows) * written;
  }
  Status WriteFacts();
  Status WriteLosses();
  Status WriteTracks();
  Status WriteRecognised();
  Status WriteNames();
  Status WriteSpansAndWork();
  Status WriteWork(SpanId id, size_t work);
  Status WriteSteps();
  int64_t StepAt(int64_t time_ns) const {
    const int64_t step = steps_.IndexAt(time_ns);
    return step < 0 ? -1 : steps_.steps()[static_cast<size_t>(step)].number;
  }
  Status WriteMemory();
  Status WriteCounters();

  const RunFacts& facts_;
  Recording& recording_;
  FinishedWriter& writer_;
  const GoOn& go_on_;
  const HostSteps steps_;
  std::vector<int32_t> launch_of_work_;  // -1: not known
  int64_t begin_ns_ = 0;                 // of all that is recorded
  InferredOps ops_;
  std::vector<int64_t> step_ends_;  // by index: end of the last work that was launched in it
  int64_t first_ns_ = std::numeric_limits<int64_t>::max();
  int64_t last_ns_ = 0;
};

void RowsOfRecording::PutInOrder() {
  const auto by_start = [](const auto& a, const auto& b) {
    // What encloses comes first.
    return a.start_ns != b.start_ns ? a.start_ns < b.start_ns : a.duration_ns > b.duration_ns;
  };
  std::stable_sort(recording_.spans.begin(), recording_.spans.end(), by_start);
  std::stable_sort(recording_.works.begin(), recording_.works.end(), by_start);
  std::unordered_map<int64_t, int32_t> launches;
  launches.reserve(recording_.launches.size());
  for (size_t at = 0; at < recording_.launches.size(); ++at) {
    launches[recording_.launches[at].correlation] = static_cast<int32_t>(at);
  }
  for (const RecordedWork& work : recording_.works) {
    const auto launch = launches.find(work.correlation);
    launch_of_work_.push_back(launch == launches.end() ? -1 : launch->second);
  }
}

Status RowsOfRecording::WriteFacts() {
  int64_t first_ns = std::numeric_limits<int64_t>::max();
  for (const RecordedSpan& span : recording_.spans) first_ns = std::min(first_ns, span.start_ns);
  for (const RecordedWork& work : recording_.works) first_ns = std::min(first_ns, work.start_ns);
  for (const RecordedMemory& memory : recording_.memory) {
    first_ns = std::min(first_ns, memory.time_ns);
  }
  const bool is_empty = first_ns == std::numeric_limits<int64_t>::max();
  begin_ns_ = is_empty ? 0 : first_ns;
  const int64_t start_ns = is_empty ? 0 : Moment(begin_ns_);
  const std::string device = recording_.device.empty() ? "cpu" : recording_.device;
  const std::pair<std::string_view, std::string> meta[] = {
      {trace_keys::kRunId, facts_.run_id},
      {"name", facts_.name},
      {"imported", std::string(facts_.format)},
      {"tool_version", kVersion},
      {"host", recording_.host},
      {"pid", std::to_string(recording_.process)},
      {trace_keys::kNumRanks, std::to_string(facts_.num_ranks)},
      {"device", device},
      {"truth", std::string(words::Name(words::Truth::kMeasured))},
      {trace_keys::kStepsMarked, !steps_.steps().empty() && steps_.are_marked() ? "1" : "0"},
      {"source_path", recording_.title},
      {"started_realtime_ns", std::to_string(start_ns)},
  };
  for (const auto& [key, value] : meta) SHARDSCOPE_RETURN_IF_ERROR(writer_.SetMeta(key, value));
  for (const auto& [key, value] : recording_.meta) {
    SHARDSCOPE_RETURN_IF_ERROR(writer_.Insert(schema::ConfigRow{"import." + key, value}));
  }
  for (const auto& [key, value] : recording_.file_facts) {
    SHARDSCOPE_RETURN_IF_ERROR(
        writer_.Insert(schema::ConfigRow{trace_keys::ImportedKey(facts_.rank, key), value}));
  }
  if (!recording_.cut.empty()) {
    SHARDSCOPE_RETURN_IF_ERROR(writer_.Insert(schema::ConfigRow{
        trace_keys::ImportedKey(facts_.rank, trace_keys::kCutFile), recording_.title}));
  }
  SHARDSCOPE_RETURN_IF_ERROR(
      writer_.Insert(schema::RankRow{facts_.rank, recording_.host, recording_.process, device}));
  // The file's clock is the time of day.
  return writer_.Insert(schema::ClockRow{schema::ClockId(1), start_ns, start_ns, 0});
}

Status RowsOfRecording::WriteLosses() {
  int64_t id = 0;
  // What others added to it says so itself.
  const std::string source(facts_.format.substr(0, facts_.format.find(',')));
  const bool is_whole = recording_.cut.empty();
  const auto say = [&](words::CapabilityStatus status, const std::string& reason, int64_t count) {
    schema::CapabilityRow row = schema::CapabilityRowOf(source, status, reason, count);
    row.id = schema::CapabilityId(++id);
    return writer_.Insert(row);
  };
  SHARDSCOPE_RETURN_IF_ERROR(
      is_whole ? say(words::CapabilityStatus::kOn, "", 0)
               : say(words::CapabilityStatus::kPartial, reasons::kFileIsCut + recording_.cut, 0));
  for (const auto& [what, count] : recording_.not_understood) {
    SHARDSCOPE_RETURN_IF_ERROR(
        say(words::CapabilityStatus::kPartial, "not understood: " + what, count));
  }
  return Status::Ok();
}

// One a communicator: what it is, by what that is known, and its units.
Status RowsOfRecording::WriteRecognised() {
  for (const RecognisedGroup& found : Recognise(recording_, ops_)) {
    SHARDSCOPE_RETURN_IF_ERROR(writer_.SetMeta(
        std::string(trace_keys::kRecognisedPrefix) + CommunicatorOfGroup(recording_, found.group),
        fmt::format("{};{};{}", Name(found.parallelism), Name(found.evidence), found.num_units)));
  }
  return Status::Ok();
}

Status RowsOfRecording::WriteTracks() {
  // Threads by how much they did, then streams by their numbers.
  std::vector<int64_t> counts(recording_.tracks.size());
  for (const RecordedSpan& span : recording_.spans) ++counts[span.track];
  std::vector<uint32_t> order(recording_.tracks.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t left, uint32_t right) {
    const RecordedTrack& a = recording_.tracks[left];
    const RecordedTrack& b = recording_.tracks[right];
    if (a.IsOfDevice() != b.IsOfDevice()) return b.IsOfDevice();
    if (!a.IsOfDevice()) return counts[left] > counts[right];
    return std::tuple(a.device, a.stream, a.context, a.kind) <
           std::tuple(b.device, b.stream, b.context, b.kind);
  });
  std::vector<int64_t> positions(recording_.tracks.size());
  for (size_t at = 0; at < order.size(); ++at) positions[order[at]] = static_cast<int64_t>(at);
  std::vector<TrackId> lane_of_track(recording_.tracks.size(), TrackId::None());
  for (uint32_t lane = 0; lane < ops_.lanes.size(); ++lane) {
    const InferredLane& shown = ops_.lanes[lane];
    const TrackId id = IdOfLane(recording_, lane);
    if (lane_of_track[shown.track].is_none()) lane_of_track[shown.track] = id;
    SHARDSCOPE_RETURN_IF_ERROR(writer_.Insert(
        schema::TrackRow{id, facts_.rank, shown.name, std::string(Name(shown.role)), lane}));
  }
  int64_t stream_id = 0;
  for (uint32_t at = 0; at < recording_.tracks.size(); ++at) {
    const RecordedTrack& track = recording_.tracks[at];
    SHARDSCOPE_RETURN_IF_ERROR(writer_.Insert(schema::TrackRow{
        IdOfTrack(at), facts_.rank, TrackName(track),
        std::string(Name(track.kind == TrackKind::kStream ? words::TrackRole::kCompute
                                                          : words::TrackRole::kHost)),
        static_cast<int64_t>(ops_.lanes.size()) + positions[at]}));
    if (track.kind != TrackKind::kStream) continue;
    SHARDSCOPE_RETURN_IF_ERROR(writer_.Insert(
        schema::GpuStreamRow{schema::GpuStreamId(++stream_id), IdOfTrack(at), lane_of_track[at],
                             track.device, track.context, track.stream, track.priority}));
  }
  return Status::Ok();
}

Status RowsOfRecording::WriteNames() {
  for (Names::Index index = 0; index < recording_.names.size(); ++index) {
    SHARDSCOPE_RETURN_IF_ERROR(
        writer_.Insert(schema::StringRow{IdOfName(index), recording_.names[index]}));
  }
  return Status::Ok();
}

Status RowsOfRecording::WriteWork(SpanId id, size_t index) {
  const RecordedWork& work = recording_.works[index];
  const int32_t launch_index = launch_of_work_[index];
  const RecordedLaunch* const launch =
      launch_index < 0 ? nullptr : &recording_.launches[static_cast<size_t>(launch_index)];
  const int64_t asked_ns = launch == nullptr ? work.start_ns : launch->start_ns;
  const int64_t step = steps_.IndexAt(asked_ns);
  if (step >= 0) {
    int64_t& end_ns = step_ends_[static_cast<size_t>(step)];
    end_ns = std::max(end_ns, work.start_ns + work.duration_ns);
  }
  const KernelShape& shape = recording_.shapes[work.shape];
  schema::GpuWorkRow row;
  row.id = id;
  row.kind = Name(work.kind);
  row.times = Name(words::GpuTimes::kMeasured);
  const int32_t run = ops_.run_of_work[index];
  row.plan_op = run < 0 ? schema::PlanOpId::None() : IdOfOp(ops_.runs[static_cast<size_t>(run)].op);
  row.step = step < 0 ? -1 : steps_.steps()[static_cast<size_t>(step)].number;
  row.launch_track = launch == nullptr ? TrackId::None() : IdOfTrack(launch->track);
  row.launch_start_ns = Moment(asked_ns);
  row.launch_duration_ns = launch == nullptr ? 0 : launch->duration_ns;
  row.correlation = work.correlation;
  row.bytes = work.bytes;
  row.grid_x = shape.grid[0];
  row.grid_y = shape.grid[1];
  row.grid_z = shape.grid[2];
  row.block_x = shape.block[0];
  row.block_y = shape.block[1];
  row.block_z = shape.block[2];
  row.registers = shape.registers;
  row.dynamic_shared_bytes = shape.shared_bytes;
  row.channel = work.channel;
  row.channel_kind = Name(words::ChannelKind::kUnknown);
  row.graph = work.graph;
  row.graph_node = work.graph_node;
  return writer_.Insert(row);
}

Status RowsOfRecording::WriteSpansAndWork() {
  step_ends_.assign(steps_.steps().size(), 0);
  int64_t id = 0;
  const auto write_span = [&](const auto& span, SpanCategory category) {
    const int64_t start_ns = Moment(span.start_ns);
    first_ns_ = std::min(first_ns_, start_ns);
    last_ns_ = std::max(last_ns_, start_ns + span.duration_ns);
    return writer_.Insert(schema::SpanRow{
        SpanId(++id), IdOfTrack(span.track), start_ns, span.duration_ns, IdOfName(span.name),
        schema::ShortText(Name(category)), schema::OpRunId::None()});
  };
  auto span = recording_.spans.begin();
  for (size_t at = 0; at < recording_.works.size(); ++at) {
    if (at % kWorkBetweenLooks == 0 && !go_on_(ShareAt(at))) return Status::Error(kCancelled);
    const RecordedWork& work = recording_.works[at];
    for (; span != recording_.spans.end() && span->start_ns <= work.start_ns; ++span) {
      SHARDSCOPE_RETURN_IF_ERROR(write_span(*span, span->category));
    }
    SHARDSCOPE_RETURN_IF_ERROR(write_span(work, work.category));
    SHARDSCOPE_RETURN_IF_ERROR(WriteWork(SpanId(id), at));
  }
  for (; span != recording_.spans.end(); ++span) {
    SHARDSCOPE_RETURN_IF_ERROR(write_span(*span, span->category));
  }
  return Status::Ok();
}

// A step ends with the last work that was launched in it, and the next begins there, as in a
// training (tables.py). A device may still work for a step when the host is two further on.
Status RowsOfRecording::WriteSteps() {
  int64_t id = 0;
  int64_t start_ns = -1;
  for (size_t at = 0; at < steps_.steps().size(); ++at) {
    const RecordedStep& step = steps_.steps()[at];
    if (start_ns < 0) start_ns = step.start_ns;
    int64_t end_ns = step_ends_[at];
    if (end_ns == 0) end_ns = step.start_ns + step.duration_ns;
    end_ns = std::max(end_ns, start_ns);
    schema::StepRow row;
    row.id = schema::StepId(++id);
    row.rank = facts_.rank;
    row.step = step.number;
    row.schedule = kInferredSchedule;
    row.start_ns = Moment(start_ns);
    row.end_ns = Moment(end_ns);
    row.loss = std::numeric_limits<double>::quiet_NaN();
    row.grad_norm = std::numeric_limits<double>::quiet_NaN();
    SHARDSCOPE_RETURN_IF_ERROR(writer_.Insert(row));
    start_ns = end_ns;
  }
  return Status::Ok();
}

Status RowsOfRecording::WriteMemory() {
  std::stable_sort(recording_.memory.begin(), recording_.memory.end(),
                   [](const auto& a, const auto& b) { return a.time_ns < b.time_ns; });
  // Beside a GPU what the host takes is not what runs out.
  const bool has_device = !recording_.works.empty() ||
                          std::ranges::any_of(recording_.memory, &RecordedMemory::on_device);
  int64_t id = 0;
  std::set<int32_t> devices;
  const auto insert = [&](const RecordedMemory& memory) {
    schema::MemoryEventRow row;
    row.id = schema::MemoryEventId(++id);
    row.rank = facts_.rank;
    row.device = schema::ShortText(memory.on_device ? fmt::format("GPU {}", memory.device) : "cpu");
    row.issued_ns = Moment(memory.time_ns);
    row.executed_ns = Moment(memory.time_ns + memory.held_ns);
    row.bytes = memory.bytes;
    row.category = words::kUnattributed;
    row.unit = schema::ShortText(recording_.names[memory.unit]);
    row.plan_op = schema::PlanOpId::None();
    row.step = StepAt(memory.time_ns);
    return writer_.Insert(row);
  };
  for (const RecordedMemory& memory : recording_.memory) {
    if (memory.on_device != has_device) continue;
    // What was there before it was recorded.
    int64_t before_bytes = 0;
    const bool is_number = !__builtin_sub_overflow(memory.total_bytes, memory.bytes, &before_bytes);
    if (devices.insert(memory.device).second && memory.total_bytes >= 0 && is_number &&
        before_bytes > 0) {
      SHARDSCOPE_RETURN_IF_ERROR(insert({.time_ns = begin_ns_,
                                         .bytes = before_bytes,
                                         .on_device = memory.on_device,
                                         .device = memory.device}));
    }
    SHARDSCOPE_RETURN_IF_ERROR(insert(memory));
  }
  return Status::Ok();
}

Status RowsOfRecording::WriteCounters() {
  std::stable_sort(recording_.counters.begin(), recording_.counters.end(),
                   [](const auto& a, const auto& b) { return a.time_ns < b.time_ns; });
  int64_t id = 0;
  for (const RecordedCounter& counter : recording_.counters) {
    SHARDSCOPE_RETURN_IF_ERROR(writer_.Insert(
        schema::CounterRow{schema::CounterId(++id), IdOfTrack(counter.track),
                           Moment(counter.time_ns), IdOfName(counter.name), counter.value}));
  }
  return Status::Ok();
}

// Rows of an export of ours, as they were.
Status WriteRows(const store::RowBatch& rows, FinishedWriter* writer) {
  for (size_t table = 0; table < schema::kNumTables; ++table) {
    const store::AnyRows& of_table = rows.At(table);
    std::vector<size_t> order(of_table.size());
    std::iota(order.begin(), order.end(), size_t{0});
    if (of_table.table().has_id) {
      const auto id = [&](size_t index) { return of_table.IdOf(index); };
      std::ranges::stable_sort(order, {}, id);
      const auto same = [&](size_t a, size_t b) { return id(a) == id(b); };
      order.erase(std::unique(order.begin(), order.end(), same), order.end());
    }
    for (const size_t index : order) SHARDSCOPE_RETURN_IF_ERROR(writer->Insert(of_table, index));
  }
  return Status::Ok();
}

}  // namespace

Status WriteRecording(const RunFacts& facts, Recording* recording, const store::TraceFile& file,
                      const GoOn& go_on) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::unique_ptr<FinishedWriter> writer,
                              FinishedWriter::Create(file));
  if (recording->rows != nullptr) {
    SHARDSCOPE_RETURN_IF_ERROR(WriteRows(*recording->rows, writer.get()));
    return writer->Finish();
  }
  SHARDSCOPE_RETURN_IF_ERROR(RowsOfRecording(facts, recording, writer.get(), go_on).Write());
  return writer->Finish();
}

}  // namespace shardscope::imports
