#include "trace/import/kineto/kineto.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "trace/base/collective_names.h"
#include "trace/base/sane_time.h"
#include "trace/base/text.h"
#include "trace/base/torch_range_names.h"
#include "trace/base/torch_types.h"
#include "trace/base/trace_keys.h"
#include "trace/import/kineto/categories.h"
#include "trace/import/kineto/decimal.h"
#include "trace/import/kineto/event.h"
#include "trace/import/kineto/event_text.h"
#include "trace/import/recorded_tracks.h"
#include "trace/schema/ddl.h"
#include "trace/store/remote/tail_protocol.h"

namespace shardscope::imports {
namespace {

using Json = nlohmann::json;
using words::SpanCategory;

constexpr int64_t kEventsPerProgress = 1 << 12;
// Newer versions of Kineto put waits for a stream into a row of their own: its number and this.
constexpr int64_t kSyncRows = 1'000'000;
constexpr size_t kMostNamesWithStream = 1024;

// There is room to add the base.
bool IsPlausible(int64_t time_ns) { return time_ns > -kLatestSaneNs && time_ns < kLatestSaneNs; }

// Of the rows of an export: tables never change, versions only bring new ones
// (trace/schema/tables.py).
bool HasKnownRows(int64_t schema) {
  return schema >= schema::kFirstVersion && schema <= schema::kVersion;
}

// Made anew from the others once those are there.
bool IsMadeAnew(std::string_view table) {
  return std::ranges::any_of(schema::Tables(), [&](const schema::TableInfo& info) {
    return info.derived && info.name == table;
  });
}

// Of a file of one process what its events say.
class Reader {
 public:
  explicit Reader(const std::string& title) {
    recording_.title = title;
    (void)rows_.Take(store::TailHello(title));
  }

  void Take(const Event& event);
  // After the last event. `values`: what the file has beside its events.
  Recording Finish(const std::map<std::string, std::string>& values, const EventParser& parser,
                   const EventTexts& texts);

 private:
  struct OpenSpan {
    int64_t start_ns = 0;
    Names::Index name = 0;
  };

  // Rows of an export of ours. false: the event is another one.
  bool TakeRows(const Event& event);
  void TakeComplete(const Event& event);
  void TakeWork(const Event& event, EventClass event_class, int64_t duration_ns);
  void TakeSync(const Event& event, int64_t duration_ns);
  void TakeStep(const Event& event, int64_t duration_ns);
  void TakeMemory(const Event& event);
  void TakeMetadata(const Event& event);
  void TakeNested(const Event& event);
  void TakeCounters(const Event& event);
  void TakeValues(const std::map<std::string, std::string>& values);
  void TakeDistributed(const Json& info);
  void Shift(int64_t base_ns);

  int64_t NumberOf(const EventId& id);
  uint32_t ThreadTrack(const Event& event);
  uint32_t StreamTrack(const Event& event, TrackKind kind);
  uint32_t ShapeOf(const EventArguments& arguments);
  int32_t CollectiveOf(const Event& event);
  void NoteGroup(const EventArguments& arguments);
  void NoteStream(const Event& event);
  void Miss(std::string_view what) { ++missed_[std::string(what)]; }

  Recording recording_;
  std::map<std::string, int64_t> missed_;
  RecordedTracks tracks_{&recording_.tracks, &missed_};
  RecordedShapes shapes_{&recording_.shapes};
  std::map<std::string, int64_t, std::less<>> number_of_text_;
  std::map<std::pair<int64_t, int64_t>, std::string> thread_names_;
  std::map<int64_t, std::string> process_names_;
  std::map<uint32_t, std::vector<OpenSpan>> open_;  // by track
  std::map<int64_t, int64_t> host_events_;          // by process
  std::set<std::string, std::less<>> groups_seen_;
  std::vector<RecordedGroup> groups_told_;  // by collectives
  std::set<std::string> streams_of_names_;  // of events that are no work: a stream, a name
  store::TailDecoder rows_;                 // of an export of ours
  bool has_rows_ = false;
  bool is_first_ = true;  // no event was taken
  int64_t schema_ = -1;   // of these rows
};

// Texts get numbers below all that programs have.
int64_t Reader::NumberOf(const EventId& id) {
  if (id.text.empty()) return id.number;
  const auto known = number_of_text_.find(id.text);
  if (known != number_of_text_.end()) return known->second;
  const int64_t number = -2 - static_cast<int64_t>(number_of_text_.size());
  number_of_text_.emplace(std::string(id.text), number);
  return number;
}

uint32_t Reader::ThreadTrack(const Event& event) {
  const int64_t process = NumberOf(event.process);
  const int64_t thread = NumberOf(event.thread);
  std::string name;
  if (event.thread.number < 0 && !event.thread.text.empty()) name = event.thread.text;
  return tracks_.Of(
      {TrackKind::kThread, process, thread, 0},
      {.kind = TrackKind::kThread, .process = process, .thread = thread, .name = name});
}

uint32_t Reader::StreamTrack(const Event& event, TrackKind kind) {
  const EventArguments& arguments = event.arguments;
  const int64_t device = arguments.device >= 0 ? arguments.device : NumberOf(event.process);
  const int64_t context = std::max<int64_t>(arguments.context, 0);
  int64_t stream = arguments.stream >= 0 ? arguments.stream : NumberOf(event.thread);
  if (kind == TrackKind::kStreamWaits && (stream >= kSyncRows || arguments.stream < 0)) stream = -1;
  return tracks_.Of({kind, device, context, stream},
                    {.kind = kind,
                     .device = device,
                     .context = context,
                     .stream = stream,
                     .priority = std::max<int64_t>(arguments.priority, -1000)});
}

uint32_t Reader::ShapeOf(const EventArguments& arguments) {
  const auto narrow = [](int64_t value) {
    return static_cast<int32_t>(std::clamp<int64_t>(value, 0, INT32_MAX));
  };
  return shapes_.Of({arguments.grid, arguments.block, narrow(arguments.registers),
                     narrow(arguments.shared_bytes)});
}

std::vector<int32_t> MembersOf(const Json& ranks) {
  // A list, or the text of one.
  const Json list =
      ranks.is_string() ? Json::parse(ranks.get<std::string>(), nullptr, false) : ranks;
  std::vector<int32_t> members;
  if (!list.is_array()) return members;
  for (const Json& rank : list) {
    const int64_t number = rank.is_number_integer() ? rank.get<int64_t>() : -1;
    if (number >= 0 && number <= INT32_MAX) members.push_back(static_cast<int32_t>(number));
  }
  std::sort(members.begin(), members.end());
  return members;
}

// Files without distributedInfo say at each collective what its group is.
void Reader::NoteGroup(const EventArguments& arguments) {
  if (arguments.group.empty() || groups_seen_.contains(arguments.group)) return;
  groups_seen_.emplace(arguments.group);
  groups_told_.push_back({.name = std::string(arguments.group),
                          .description = std::string(arguments.group_description),
                          .members = MembersOf(Json(std::string(arguments.group_ranks)))});
}

int32_t Reader::CollectiveOf(const Event& event) {
  const EventArguments& arguments = event.arguments;
  RecordedCollective collective;
  collective.kind = CollectiveKindOf(arguments.collective);
  if (collective.kind.empty()) collective.kind = CollectiveKindOfKernel(event.name);
  collective.group = arguments.group;
  collective.dtype = arguments.dtype;
  collective.sequence = arguments.sequence;
  collective.group_size =
      static_cast<int32_t>(std::clamp<int64_t>(arguments.group_size, 0, INT32_MAX));
  const int64_t elements = IsWholeBefore(collective.kind)
                               ? arguments.elements_in
                               : std::max(arguments.elements_out, arguments.elements_in);
  const int64_t bytes = BytesOfTorchType(arguments.dtype);
  if (elements >= 0 && elements < (int64_t{1} << 50) && bytes > 0) {
    collective.payload_bytes = elements * bytes;
  }
  NoteGroup(arguments);
  recording_.collectives.push_back(std::move(collective));
  return static_cast<int32_t>(recording_.collectives.size() - 1);
}

void Reader::TakeWork(const Event& event, EventClass event_class, int64_t duration_ns) {
  const EventArguments& arguments = event.arguments;
  RecordedWork work;
  work.start_ns = *event.start_ns;
  work.duration_ns = duration_ns;
  work.correlation = arguments.correlation;
  work.name = recording_.names.Add(event.name);
  work.track = StreamTrack(event, TrackKind::kStream);
  work.bytes = std::max<int64_t>(arguments.bytes, 0);
  work.graph = static_cast<int32_t>(std::clamp<int64_t>(arguments.graph, 0, INT32_MAX));
  work.graph_node = static_cast<int32_t>(std::clamp<int64_t>(arguments.graph_node, 0, INT32_MAX));
  work.channel = static_cast<int32_t>(std::clamp<int64_t>(arguments.channel, 0, INT32_MAX));
  if (event_class == EventClass::kKernel) {
    work.shape = ShapeOf(arguments);
  } else {
    work.kind = event_class == EventClass::kSet ? words::GpuWorkKind::kSet : CopyKindOf(event.name);
    work.category = SpanCategory::kCopy;
    work.shape = ShapeOf({});
  }
  // What PyTorch says of a collective stands with its kernel or copy, whatever that is called.
  if (!arguments.collective.empty() || IsCommunicationKernel(event.name)) {
    work.category = SpanCategory::kCommunication;
    work.collective = CollectiveOf(event);
  }
  recording_.works.push_back(work);
}

void Reader::TakeSync(const Event& event, int64_t duration_ns) {
  const uint32_t track = StreamTrack(event, TrackKind::kStreamWaits);
  if (event.arguments.stream >= 0 && recording_.tracks[track].stream < 0) {
    recording_.file_facts[trace_keys::kStreamOfHostWaits] = std::to_string(event.arguments.stream);
  }
  if (event.name == "Stream Wait Event") {
    recording_.waits.push_back({.time_ns = *event.start_ns,
                                .track = track,
                                .waited_stream = event.arguments.waited_stream,
                                .record_correlation = event.arguments.record_correlation});
  }
  recording_.spans.push_back(
      {*event.start_ns, duration_ns, recording_.names.Add(event.name), track, SpanCategory::kWait});
}

void Reader::TakeStep(const Event& event, int64_t duration_ns) {
  const auto number = ParseWhole(event.name.substr(torch_range_names::kStep.size()));
  if (!number) return;
  recording_.steps.push_back({*number, *event.start_ns, duration_ns});
}

bool Reader::TakeRows(const Event& event) {
  const EventArguments& arguments = event.arguments;
  if (arguments.schema >= 0) schema_ = arguments.schema;
  if (arguments.is_launch_of_op >= 0 || arguments.schema >= 0) return true;
  if (arguments.rows.empty() || (schema_ >= 0 && !HasKnownRows(schema_))) return false;
  for (const auto& [table, rows] : arguments.rows) {
    if (IsMadeAnew(table)) continue;
    const Status taken =
        rows_.Take(fmt::format(R"({{"table":{},"rows":{}}})", Json(table).dump(), rows));
    if (taken.ok()) {
      has_rows_ = true;
    } else {
      Miss(fmt::format("rows of {}", table));
    }
  }
  return true;
}

// Operators that PyTorch's compiler made say on what stream their kernel ran.
void Reader::NoteStream(const Event& event) {
  const EventClass event_class = ClassOf(event.category);
  if (event_class != EventClass::kHost && event_class != EventClass::kDeviceRange) return;
  if (streams_of_names_.size() >= kMostNamesWithStream || Contains(event.name, "\n")) return;
  streams_of_names_.insert(fmt::format("{} {}", event.arguments.stream, event.name));
}

void Reader::TakeComplete(const Event& event) {
  const int64_t duration_ns = event.duration_ns.value_or(0);
  if (duration_ns < 0) Miss("events with a duration below 0, taken as 0");
  if (event.arguments.stream >= 0) NoteStream(event);
  const int64_t length = std::clamp<int64_t>(duration_ns, 0, kLatestSaneNs);
  const EventClass event_class = ClassOf(event.category);
  switch (event_class) {
    case EventClass::kNothing:
      return;
    case EventClass::kKernel:
    case EventClass::kCopy:
    case EventClass::kSet:
      return TakeWork(event, event_class, length);
    case EventClass::kDeviceRange:
      recording_.spans.push_back({*event.start_ns, length, recording_.names.Add(event.name),
                                  StreamTrack(event, TrackKind::kStreamRanges),
                                  SpanCategory::kHost});
      return;
    case EventClass::kSync:
      return TakeSync(event, length);
    case EventClass::kLaunch:
    case EventClass::kHost:
    case EventClass::kInstant:
      break;
  }
  const uint32_t track = ThreadTrack(event);
  ++host_events_[recording_.tracks[track].process];
  if (event_class == EventClass::kLaunch && event.arguments.correlation >= 0) {
    recording_.launches.push_back({event.arguments.correlation, *event.start_ns, length, track});
  } else if (!event.category.empty() && !IsKnownCategory(event.category)) {
    Miss(fmt::format("category {}: shown with its thread", event.category));
  }
  if (event.name.starts_with(torch_range_names::kStep)) TakeStep(event, length);
  recording_.spans.push_back({*event.start_ns, length, recording_.names.Add(event.name), track,
                              SpanCategory::kHost, event.category == "cpu_op"});
}

// Every allocation and free of PyTorch's allocators, where profile_memory is on.
void Reader::TakeMemory(const Event& event) {
  constexpr int64_t kCuda = 1;  // c10::DeviceType
  const EventArguments& arguments = event.arguments;
  if (arguments.bytes == -1 && arguments.device_type < 0) return;
  recording_.memory.push_back(
      {.time_ns = *event.start_ns,
       .bytes = arguments.bytes,
       .on_device = arguments.device_type >= kCuda,
       .device = static_cast<int32_t>(std::clamp<int64_t>(arguments.device, -1, 1 << 20)),
       .total_bytes = arguments.total_allocated});
}

void Reader::TakeMetadata(const Event& event) {
  const int64_t process = NumberOf(event.process);
  if (event.name == "process_name") {
    process_names_[process] = event.arguments.name;
  } else if (event.name == "thread_name") {
    thread_names_[{process, NumberOf(event.thread)}] = event.arguments.name;
  }
}

// Begins and ends of other programs' Chrome traces.
void Reader::TakeNested(const Event& event) {
  const uint32_t track = ThreadTrack(event);
  std::vector<OpenSpan>& open = open_[track];
  if (event.phase == 'B') {
    open.push_back({*event.start_ns, recording_.names.Add(event.name)});
    return;
  }
  if (open.empty()) return Miss("ends of ranges that never began");
  const OpenSpan span = open.back();
  open.pop_back();
  recording_.spans.push_back({span.start_ns, std::max<int64_t>(*event.start_ns - span.start_ns, 0),
                              span.name, track, SpanCategory::kHost});
}

void Reader::TakeCounters(const Event& event) {
  const uint32_t track = ThreadTrack(event);
  for (const auto& [name, value] : event.arguments.values) {
    const Names::Index index = recording_.names.Add(fmt::format("{}: {}", event.name, name));
    recording_.counters.push_back({*event.start_ns, value, index, track});
  }
}

void Reader::Take(const Event& event) {
  if (std::exchange(is_first_, false) && event.phase == 'X' && event.start_ns &&
      event.duration_ns && !event.category.empty() && event.category != "Trace") {
    recording_.file_facts[trace_keys::kFirstEventNs] = std::to_string(*event.start_ns);
    const EventClass event_class = ClassOf(event.category);
    if (event_class == EventClass::kKernel || event_class == EventClass::kCopy ||
        event_class == EventClass::kSet) {
      recording_.file_facts[trace_keys::kFirstEventIsWork] = "1";
    }
  }
  if (event.phase == 'M') return TakeMetadata(event);
  if (TakeRows(event)) return;
  const bool has_time = event.start_ns && IsPlausible(*event.start_ns);
  if (!has_time) return Miss("events without a time that can be read");
  switch (event.phase) {
    case 'X':
      return TakeComplete(event);
    case 'B':
    case 'E':
      return TakeNested(event);
    case 'C':
      return TakeCounters(event);
    case 'i':
    case 'I':
      if (event.name == "[memory]") return TakeMemory(event);
      if (!event.name.starts_with("Iteration Start") && event.name != "Record Window End") {
        Miss("moments (phase i) other than those of memory");
      }
      return;
    case 's':
    case 't':
    case 'f':
      // From a launch to its work: correlation ids say the same. From forward to backward: phases
      // do.
      if (!Contains(event.category, "ac2g") && event.category != "fwdbwd" &&
          event.category != "async_cpu_to_gpu" && event.category != "async_gpu") {
        Miss(fmt::format("arrows {}", event.category));
      }
      return;
    default:
      return Miss(fmt::format("events of phase {}", event.phase));
  }
}

void Reader::TakeDistributed(const Json& info) {
  if (const auto rank = info.find("rank"); rank != info.end() && rank->is_number_integer()) {
    const auto number = rank->get<int64_t>();
    if (number >= 0 && number <= INT32_MAX) recording_.rank = static_cast<int32_t>(number);
  }
  for (const char* const key : {"backend", "world_size", "nccl_version"}) {
    const auto value = info.find(key);
    if (value == info.end()) continue;
    recording_.meta[key] = value->is_string() ? value->get<std::string>() : value->dump();
  }
  const auto groups = info.find("pg_config");
  if (groups == info.end() || !groups->is_array()) return;
  for (const Json& group : *groups) {
    if (!group.is_object()) continue;
    RecordedGroup recorded;
    const auto text = [&group](const char* key) {
      const auto value = group.find(key);
      if (value == group.end()) return std::string();
      return value->is_string() ? value->get<std::string>() : value->dump();
    };
    recorded.name = text("pg_name");
    recorded.description = text("pg_desc");
    if (const auto ranks = group.find("ranks"); ranks != group.end())
      recorded.members = MembersOf(*ranks);
    recording_.groups.push_back(std::move(recorded));
  }
}

void Reader::TakeValues(const std::map<std::string, std::string>& values) {
  for (const auto& [key, text] : values) {
    const Json value = Json::parse(text, nullptr, false);
    if (value.is_discarded()) {
      Miss(fmt::format("the value of \"{}\"", key));
    } else if (key == "baseTimeNanoseconds") {
      const std::string number = value.is_string() ? value.get<std::string>() : value.dump();
      const auto base_ns = ParseWhole(number);
      if (base_ns && IsPlausible(*base_ns)) {
        Shift(*base_ns);
        recording_.file_facts[trace_keys::kBaseNs] = std::to_string(*base_ns);
      }
    } else if (key == "distributedInfo" && value.is_object()) {
      TakeDistributed(value);
    } else if (key == "deviceProperties" && value.is_array()) {
      if (!value.empty() && value.front().is_object() && value.front().contains("name") &&
          value.front()["name"].is_string()) {
        recording_.device = value.front()["name"].get<std::string>();
      }
    } else if (key == "host_name" && value.is_string()) {
      recording_.host = value.get<std::string>();
    } else if (value.is_string() || value.is_number()) {
      recording_.meta[key] = value.is_string() ? value.get<std::string>() : value.dump();
    }
  }
}

void Reader::Shift(int64_t base_ns) {
  for (RecordedSpan& span : recording_.spans) span.start_ns += base_ns;
  for (RecordedLaunch& launch : recording_.launches) launch.start_ns += base_ns;
  for (RecordedWork& work : recording_.works) work.start_ns += base_ns;
  for (RecordedWait& wait : recording_.waits) wait.time_ns += base_ns;
  for (RecordedMemory& memory : recording_.memory) memory.time_ns += base_ns;
  for (RecordedCounter& counter : recording_.counters) counter.time_ns += base_ns;
  for (RecordedStep& step : recording_.steps) step.start_ns += base_ns;
}

Recording Reader::Finish(const std::map<std::string, std::string>& values,
                         const EventParser& parser, const EventTexts& texts) {
  for (const auto& [track, open] : open_) {
    if (!open.empty()) missed_["ranges that never end"] += static_cast<int64_t>(open.size());
  }
  TakeValues(values);
  if (!streams_of_names_.empty()) {
    recording_.file_facts[trace_keys::kStreamsOfNames] =
        Join({streams_of_names_.begin(), streams_of_names_.end()}, "\n");
  }
  for (RecordedGroup& told : groups_told_) {
    const bool known = std::ranges::any_of(
        recording_.groups, [&told](const RecordedGroup& group) { return group.name == told.name; });
    if (!known) recording_.groups.push_back(std::move(told));
  }
  // The process is the one with most events of the host.
  const auto most =
      std::max_element(host_events_.begin(), host_events_.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most != host_events_.end()) recording_.process = most->first;
  for (RecordedTrack& track : recording_.tracks) {
    if (track.kind != TrackKind::kThread) continue;
    const auto name = thread_names_.find({track.process, track.thread});
    if (name != thread_names_.end() && track.name.empty()) track.name = name->second;
  }
  for (const auto& [name, count] : parser.unknown()) {
    missed_[fmt::format("argument \"{}\"", name)] += count;
  }
  if (parser.num_repaired() > 0)
    missed_["events with bytes that are no UTF-8, shown as ?"] += parser.num_repaired();
  if (texts.num_broken() > 0) missed_["places that are no JSON, passed over"] += texts.num_broken();
  if (has_rows_ && HasKnownRows(schema_)) {
    (void)rows_.Take(R"({"state":"finished"})");
    recording_.rows = std::make_unique<store::RowBatch>();
    (void)rows_.TakeRows(recording_.rows.get());
  }
  recording_.not_understood = std::move(missed_);
  recording_.cut = texts.cut();
  return std::move(recording_);
}

}  // namespace

Status ReadKineto(const Input& input, const ReadProgress& progress, const TakeRecording& take) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> source, ByteSource::Open(input));
  EventTexts texts(source.get());
  EventParser parser;
  Reader reader(input.Title());
  Event event;
  int64_t num_events = 0;
  while (true) {
    const Result<std::string_view> text = texts.Next();
    if (!text.ok()) return Status::Error(input.Title() + ": " + text.message());
    if (text->empty()) break;
    if (!parser.Parse(*text, &event)) {
      texts.Reject();
      continue;
    }
    reader.Take(event);
    if (++num_events % kEventsPerProgress == 0 && !progress(source->Position())) {
      return Status::Error(kCancelled);
    }
  }
  if (num_events == 0) {
    return Status::Error(fmt::format("{} holds no events{}", input.Title(),
                                     texts.cut().empty() ? "" : ": " + texts.cut()));
  }
  Recording recording = reader.Finish(texts.values(), parser, texts);
  const bool is_empty = recording.rows == nullptr && recording.spans.empty() &&
                        recording.works.empty() && recording.memory.empty() &&
                        recording.counters.empty();
  if (is_empty) {
    return Status::Error(input.Title() +
                         " holds no events with a time: it is no trace of what a program did");
  }
  return take(std::move(recording));
}

}  // namespace shardscope::imports
