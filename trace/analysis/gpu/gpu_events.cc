#include "trace/analysis/gpu/gpu_events.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>

#include "trace/base/parse_number.h"
#include "trace/base/sane_time.h"
#include "trace/base/text.h"
#include "trace/base/trace_keys.h"

namespace shardscope::analysis {
namespace {

constexpr int64_t kUsNs = 1000;
constexpr int64_t kNotKnown = std::numeric_limits<int64_t>::min();
// HTA looks for this in a name, shorter than what PyTorch writes (torch_range_names::kStep).
constexpr std::string_view kStepMark = "ProfilerStep";

// The calls that put work into a queue (hta/common/trace_symbol_table.py:
// get_runtime_launch_events_query()).
constexpr std::array<std::string_view, 11> kQueueingCalls = {
    "cudaLaunchKernel",
    "cudaLaunchKernelExC",
    "cuLaunchKernel",
    "cudaMemcpyAsync",
    "cudaMemsetAsync",
    "hipLaunchKernel",
    "hipExtModuleLaunchKernel",
    "hipMemcpyAsync",
    "hipMemsetAsync",
    "hipMemcpyWithStream",
    "runFunction - job_prep_and_submit_for_execution"};

// What a damaged file claims beyond is cut there.
int64_t Sane(int64_t time_ns) { return std::clamp(time_ns, -kLatestSaneNs, kLatestSaneNs); }

// As a double of microseconds is, read from a file: the one that is nearest.
double Microseconds(int64_t time_ns) {
  constexpr int64_t kExactBelow = int64_t{1} << 53;
  if (time_ns > -kExactBelow && time_ns < kExactBelow) {
    return static_cast<double>(time_ns) / static_cast<double>(kUsNs);
  }
  // The fraction is far from the middle of two doubles of this size, but for those it hits.
  return static_cast<double>(time_ns / kUsNs) + static_cast<double>(time_ns % kUsNs) / kUsNs;
}

// Differences of two stay in range.
int64_t WholeMicroseconds(double time_us) {
  constexpr double kMostUs = 4e15;
  return static_cast<int64_t>(std::clamp(time_us, -kMostUs, kMostUs)) * kUsNs;
}

int64_t RoundedUp(int64_t time_ns) { return WholeMicroseconds(std::ceil(Microseconds(time_ns))); }

// Start and length are added as doubles, as HTA does.
int64_t EndRoundedDown(int64_t start_ns, int64_t length_ns) {
  return WholeMicroseconds(std::floor(Microseconds(start_ns) + Microseconds(length_ns)));
}

GpuKind KindOfCategory(query::SpanCategory category) {
  switch (category) {
    case query::SpanCategory::kCommunication:
      return GpuKind::kCommunication;
    case query::SpanCategory::kCopy:
      return GpuKind::kMemory;
    case query::SpanCategory::kCompute:
      return GpuKind::kComputation;
    default:
      return GpuKind::kOther;
  }
}

constexpr int64_t kNoStream = -1;
constexpr int64_t kOfHost = -2;

// Imports name the track of a stream's waits "GPU 0 stream 7 waits", that of the host's
// "GPU 0 waits of the host".
int64_t StreamOfWaits(std::string_view track) {
  constexpr std::string_view kBefore = " stream ";
  if (track.starts_with("GPU ") && track.ends_with(" waits of the host")) return kOfHost;
  constexpr std::string_view kBehind = " waits";
  if (!track.ends_with(kBehind)) return kNoStream;
  track.remove_suffix(kBehind.size());
  const size_t at = track.find(kBefore);
  if (at == std::string_view::npos) return kNoStream;
  return ParseInteger<int64_t>(track.substr(at + kBefore.size()), 0).value_or(kNoStream);
}

// Which call asked for it HTA looks up; of the rest it takes all that began in time.
bool IsFoundByCall(const GpuEvent& event) {
  return event.work ? event.work->correlation >= 0 : event.has_launch();
}

int64_t NumberOf(const std::map<std::string, std::string>& config, const std::string& key,
                 int64_t otherwise) {
  const auto found = config.find(key);
  if (found == config.end()) return otherwise;
  const auto number = ParseInteger<int64_t>(found->second);
  return number ? Sane(*number) : otherwise;
}

// Stable; what is in order already, as most traces are, costs one look at each.
template <typename Projection>
void SortBy(Projection projection, std::vector<GpuEvent>* events) {
  if (std::ranges::is_sorted(*events, {}, projection)) return;
  std::ranges::stable_sort(*events, {}, projection);
}

}  // namespace

GpuKind HtaKindOfName(std::string_view name) {
  // ^nccl.*Kernel; (^Memcpy)|(^Memset)|(^dma); else not what (.*(Memcpy)|(Memset))|(.*Sync) matches
  // from the start on.
  if (name.starts_with("nccl") && Contains(name, "Kernel")) return GpuKind::kCommunication;
  if (name.starts_with("Memcpy") || name.starts_with("Memset") || name.starts_with("dma")) {
    return GpuKind::kMemory;
  }
  if (Contains(name, "Memcpy") || Contains(name, "Sync")) return GpuKind::kOther;
  return GpuKind::kComputation;
}

GpuEventReader::GpuEventReader(const query::Snapshot& snapshot, GpuDefinition definition)
    : snapshot_(snapshot), definition_(definition) {
  for (const query::GpuStream& stream : snapshot.gpu_streams) {
    streams_[stream.track] = stream.stream;
  }
  if (definition_ != GpuDefinition::kHta) return;
  for (const std::string& name : snapshot.names) {
    hta_kinds_.push_back(HtaKindOfName(name));
    is_mark_.push_back(Contains(name, kStepMark));
  }
  for (const query::Track& track : snapshot.tracks) {
    const int64_t stream = StreamOfWaits(track.name);
    if (stream != kNoStream) streams_of_waits_[track.id] = stream;
  }
  std::set<std::string_view> marks;
  for (const query::RankRows& rows : snapshot.ranks) {
    for (const query::Span& span : rows.spans) {
      if (NameHasMark(span.name)) marks.insert(NameAt(span.name));
    }
  }
  has_several_steps_ = marks.size() > 1;
}

const std::string& GpuEventReader::NameAt(int32_t index) const {
  static const std::string kUnnamed;
  const bool known = index >= 0 && static_cast<size_t>(index) < snapshot_.names.size();
  return known ? snapshot_.names[static_cast<size_t>(index)] : kUnnamed;
}

bool GpuEventReader::NameHasMark(int32_t name) const {
  return name >= 0 && static_cast<size_t>(name) < is_mark_.size() &&
         is_mark_[static_cast<size_t>(name)];
}

GpuKind GpuEventReader::HtaKindOf(int32_t name) const {
  const bool known = name >= 0 && static_cast<size_t>(name) < hta_kinds_.size();
  return known ? hta_kinds_[static_cast<size_t>(name)] : HtaKindOfName("");
}

GpuEventReader::FileFacts GpuEventReader::FactsOf(int32_t rank) const {
  const auto key = [rank](std::string_view fact) { return trace_keys::ImportedKey(rank, fact); };
  FileFacts facts;
  facts.base_ns = NumberOf(snapshot_.config, key(trace_keys::kBaseNs), 0);
  facts.first_event_ns = NumberOf(snapshot_.config, key(trace_keys::kFirstEventNs), kNotKnown);
  facts.first_event_is_work =
      NumberOf(snapshot_.config, key(trace_keys::kFirstEventIsWork), 0) != 0;
  facts.stream_of_host_waits =
      NumberOf(snapshot_.config, key(trace_keys::kStreamOfHostWaits), kNoStream);
  const auto names = snapshot_.config.find(key(trace_keys::kStreamsOfNames));
  if (names == snapshot_.config.end()) return facts;
  for (std::string_view name : Split(names->second, '\n')) {
    const std::string_view number = TakeField(&name, ' ');
    int64_t stream = kNoStream;
    std::from_chars(number.data(), number.data() + number.size(), stream);
    facts.streams_of_names.emplace(name, stream);
  }
  return facts;
}

std::vector<GpuEvent> GpuEventReader::EventsOf(const query::RankRows& rows) const {
  std::vector<GpuEvent> events;
  events.reserve(rows.gpu_work.size());
  for (size_t at = 0; at < rows.gpu_work.size(); ++at) {
    events.push_back(EventOf({rows.gpu_work, at}));
  }
  if (definition_ == GpuDefinition::kExact) {
    SortBy(&GpuEvent::start_ns, &events);
    return events;
  }
  const FileFacts facts = FactsOf(rows.rank);
  AddOthers(rows, facts, &events);
  SortBy(&GpuEvent::start_ns, &events);
  MarkQueued(rows, facts, &events);
  RoundAndFilter(rows, facts, &events);
  if (!has_several_steps_) return events;
  // HTA then has what it found by calls before all else.
  SortBy([](const GpuEvent& event) { return std::pair(event.start_ns, !IsFoundByCall(event)); },
         &events);
  return events;
}

GpuEvent GpuEventReader::EventOf(query::RowRef<query::GpuWork> row) const {
  const query::GpuWork work = *row;
  GpuEvent event;
  event.start_ns = Sane(work.start_ns);
  event.end_ns = Sane(work.end_ns);
  const auto stream = streams_.find(work.track);
  if (stream != streams_.end()) event.stream = stream->second;
  event.in_queue = !work.launch_track.is_none();
  if (event.in_queue) event.launch_ns = Sane(work.launch_start_ns);
  event.step = work.step;
  event.name = &NameAt(work.name);
  event.kind =
      definition_ == GpuDefinition::kHta ? HtaKindOf(work.name) : KindOfCategory(work.category);
  event.work = row;
  return event;
}

// HTA takes all that names a stream, most of it for computation: waits, and operators that
// PyTorch's compiler made, which name the stream of their kernel.
void GpuEventReader::AddOthers(const query::RankRows& rows, const FileFacts& facts,
                               std::vector<GpuEvent>* events) const {
  std::vector<int64_t> stream_of_name(snapshot_.names.size(), kNoStream);
  for (size_t name = 0; name < stream_of_name.size() && !facts.streams_of_names.empty(); ++name) {
    const auto known = facts.streams_of_names.find(snapshot_.names[name]);
    if (known != facts.streams_of_names.end()) stream_of_name[name] = known->second;
  }
  for (const query::Span& span : rows.spans) {
    GpuEvent event;
    event.start_ns = Sane(span.start_ns);
    event.end_ns = Sane(span.end_ns);
    if (span.category == query::SpanCategory::kWait) {
      const auto stream = streams_of_waits_.find(span.track);
      if (stream == streams_of_waits_.end()) continue;
      event.stream = stream->second == kOfHost ? facts.stream_of_host_waits : stream->second;
      event.launch_ns = event.start_ns;  // the call itself tells of it
    } else {
      const auto name = static_cast<size_t>(span.name);
      if (span.name < 0 || name >= stream_of_name.size()) continue;
      event.stream = stream_of_name[name];
    }
    if (event.stream < 0) continue;
    event.name = &NameAt(span.name);
    event.kind = HtaKindOf(span.name);
    events->push_back(event);
  }
}

// HTA's queues take some calls only, by their names.
void GpuEventReader::MarkQueued(const query::RankRows& rows, const FileFacts& facts,
                                std::vector<GpuEvent>* events) const {
  if (!snapshot_.IsImported()) return;  // calls of others are not all in the trace
  using Call = std::tuple<int64_t, query::TrackId, int64_t>;  // start, track, duration
  std::vector<bool> queues(snapshot_.names.size());
  for (size_t name = 0; name < queues.size(); ++name) {
    queues[name] = std::ranges::find(kQueueingCalls, snapshot_.names[name]) != kQueueingCalls.end();
  }
  std::vector<Call> calls;
  for (const query::Span& span : rows.spans) {
    const auto name = static_cast<size_t>(span.name);
    if (span.name < 0 || name >= queues.size() || !queues[name]) continue;
    calls.emplace_back(span.start_ns, span.track, Sane(span.end_ns) - Sane(span.start_ns));
  }
  if (!std::ranges::is_sorted(calls)) std::ranges::sort(calls);
  // Work mostly begins in the order of its launches: the next call is looked at first.
  auto next = calls.begin();
  for (GpuEvent& event : *events) {
    if (!event.in_queue) continue;
    const Call call(event.work->launch_start_ns, event.work->launch_track,
                    event.work->launch_duration_ns);
    if (next == calls.end() || *next != call) next = std::ranges::lower_bound(calls, call);
    event.in_queue = next != calls.end() && *next == call;
    if (event.in_queue) ++next;
  }
  if (!facts.first_event_is_work) return;
  // Whose index in the file is 0 has no launch for HTA's queues.
  const auto first = std::ranges::find_if(*events, [&facts](const GpuEvent& event) {
    return event.work && event.start_ns - facts.base_ns == facts.first_event_ns;
  });
  if (first != events->end()) first->in_queue = false;
}

// The largest: all is kept.
int64_t GpuEventReader::StartOfLastStep(const query::RankRows& rows, const FileFacts& facts) const {
  if (!has_several_steps_) return std::numeric_limits<int64_t>::max();
  int64_t last_ns = kNotKnown;
  for (const query::Span& span : rows.spans) {
    if (NameHasMark(span.name)) last_ns = std::max(last_ns, Sane(span.start_ns));
  }
  return last_ns == kNotKnown ? kNotKnown : RoundedUp(last_ns - facts.base_ns);
}

void GpuEventReader::RoundAndFilter(const query::RankRows& rows, const FileFacts& facts,
                                    std::vector<GpuEvent>* events) const {
  const int64_t until_ns = StartOfLastStep(rows, facts);
  const bool filters = has_several_steps_;
  std::erase_if(*events, [&](GpuEvent& event) {
    const int64_t start_ns = event.start_ns - facts.base_ns;
    const int64_t length_ns = event.length_ns();
    event.start_ns = RoundedUp(start_ns);
    event.end_ns = EndRoundedDown(start_ns, length_ns);
    const bool asks_launch = IsFoundByCall(event);
    if (event.has_launch()) {
      event.launch_ns = RoundedUp(event.launch_ns - facts.base_ns);
    } else if (asks_launch && !filters && facts.first_event_ns != kNotKnown) {
      // HTA takes the first event of the file for the launch of what has none.
      event.launch_ns = RoundedUp(facts.first_event_ns);
    }
    if (!filters) return false;
    if (!asks_launch) return event.start_ns >= until_ns;
    return !event.has_launch() || event.launch_ns >= until_ns;
  });
}

}  // namespace shardscope::analysis
