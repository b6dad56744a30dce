#include "trace/analysis/gpu/gpu_time.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "trace/base/text.h"

namespace shardscope::analysis {
namespace {

constexpr int64_t kUs = 1000;                // ns
constexpr int64_t kKernelWaitNs = 30 * kUs;  // HTA's consecutive_kernel_delay
constexpr std::string_view kStepMark = "ProfilerStep#";

enum KindMask : uint8_t { kOther = 0, kComp = 1, kComm = 2, kMem = 4 };

// What happened on a stream, in the units of the definition.
struct StreamEvent {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  int64_t stream = 0;
  int64_t launch_ns = 0;
  bool has_launch = false;
  bool is_work = true;  // else a wait of the stream
  KindMask kind = kOther;
  int32_t step = -1;
  const std::string* name = nullptr;
  const query::GpuWork* work = nullptr;  // null: a wait
};

// By the name, in HTA's order (hta/utils/utils.py: is_comm_kernel, is_memory_kernel,
// is_compute_kernel).
KindMask KindOfName(std::string_view name) {
  const auto begins = [name](std::initializer_list<std::string_view> any) {
    return std::ranges::any_of(any,
                               [name](std::string_view part) { return name.starts_with(part); });
  };
  const auto has = [name](std::initializer_list<std::string_view> any) {
    return std::ranges::any_of(any, [name](std::string_view part) { return Contains(name, part); });
  };
  if (begins({"nccl", "hip", "hccl"}) || has({"ncclKernel"})) return kComm;
  if (begins({"Memcpy", "Memset", "hipMemcpy", "hipMemset", "dma"})) return kMem;
  if (has({"Memcpy", "Memset", "dma", "Sync"}) || name == "Stream Wait Event" ||
      (name.starts_with("cuda") && Contains(name, "LaunchKernel"))) {
    return kOther;
  }
  return kComp;
}

KindMask KindOfCategory(query::SpanCategory category) {
  switch (category) {
    case query::SpanCategory::kCommunication:
      return kComm;
    case query::SpanCategory::kCopy:
      return kMem;
    case query::SpanCategory::kCompute:
      return kComp;
    default:
      return kOther;
  }
}

// What files add to their microseconds, which HTA does not know of.
int64_t BaseOf(const query::Snapshot& snapshot) {
  const auto found = snapshot.config.find("import.baseTimeNanoseconds");
  int64_t base_ns = 0;
  if (found != snapshot.config.end())
    std::from_chars(found->second.data(), found->second.data() + found->second.size(), base_ns);
  return base_ns;
}

using Spans = std::vector<std::pair<int64_t, int64_t>>;  // start and end, which may be before it

// Groups of what touches, as HTA's merge_kernel_intervals(): one begins where a start lies behind
// all ends so far.
Spans MergeSpans(Spans spans) {
  std::ranges::stable_sort(spans, {}, [](const auto& span) { return span.first; });
  Spans merged;
  int64_t furthest_ns = std::numeric_limits<int64_t>::min();
  for (const auto& [start_ns, end_ns] : spans) {
    if (merged.empty() || start_ns > furthest_ns) {
      merged.emplace_back(start_ns, end_ns);
    } else {
      merged.back().second = std::max(merged.back().second, end_ns);
    }
    furthest_ns = std::max(furthest_ns, end_ns);
  }
  return merged;
}

int64_t SpansLength(const Spans& spans) {
  int64_t length_ns = 0;
  for (const auto& [start_ns, end_ns] : spans) length_ns += end_ns - start_ns;
  return length_ns;
}

// By the combination of kinds that ran at once: how long.
std::array<int64_t, 8> Combinations(const std::array<Spans, 3>& of_kinds) {
  std::vector<std::tuple<int64_t, int>> edges;
  for (size_t kind = 0; kind < of_kinds.size(); ++kind) {
    const int mask = 1 << kind;
    for (const auto& [start_ns, end_ns] : of_kinds[kind]) {
      edges.emplace_back(start_ns, mask);
      edges.emplace_back(end_ns, -mask);
    }
  }
  std::ranges::sort(edges);
  std::array<int64_t, 8> lengths{};
  int running = 0;
  for (size_t at = 0; at + 1 < edges.size(); ++at) {
    running += std::get<1>(edges[at]);
    if (running > 0 && running < 8) {
      lengths[static_cast<size_t>(running)] += std::get<0>(edges[at + 1]) - std::get<0>(edges[at]);
    }
  }
  return lengths;
}

std::array<Spans, 3> SpansOfKinds(const std::vector<StreamEvent>& events) {
  std::array<Spans, 3> spans;
  for (const StreamEvent& event : events) {
    if (event.kind == kComp) spans[0].emplace_back(event.start_ns, event.end_ns);
    if (event.kind == kComm) spans[1].emplace_back(event.start_ns, event.end_ns);
    if (event.kind == kMem) spans[2].emplace_back(event.start_ns, event.end_ns);
  }
  for (Spans& of_kind : spans) of_kind = MergeSpans(std::move(of_kind));
  return spans;
}

GpuRankTime GpuTimeOf(int32_t rank, const std::vector<StreamEvent>& events) {
  GpuRankTime time;
  time.rank = rank;
  Spans all;
  int64_t first_ns = std::numeric_limits<int64_t>::max();
  int64_t last_ns = std::numeric_limits<int64_t>::min();
  for (const StreamEvent& event : events) {
    all.emplace_back(event.start_ns, event.end_ns);
    first_ns = std::min(first_ns, event.start_ns);
    last_ns = std::max(last_ns, event.end_ns);
  }
  if (all.empty()) return time;
  const std::array<Spans, 3> kinds = SpansOfKinds(events);
  const std::array<int64_t, 8> lengths = Combinations(kinds);
  time.kernel_time_ns = last_ns - first_ns;
  time.idle_ns = time.kernel_time_ns - SpansLength(MergeSpans(std::move(all)));
  time.compute_ns = SpansLength(kinds[0]);
  time.non_compute_ns = time.kernel_time_ns - time.idle_ns - time.compute_ns;
  time.communication_ns = SpansLength(kinds[1]);
  time.overlap_ns = lengths[kComp | kComm] + lengths[kComp | kComm | kMem];
  time.exposed_ns = time.communication_ns - time.overlap_ns;
  return time;
}

std::string_view GpuTypeName(KindMask kind) {
  switch (kind) {
    case kComp:
      return "COMPUTATION";
    case kComm:
      return "COMMUNICATION";
    case kMem:
      return "MEMORY";
    case kOther:
      break;
  }
  return "OTHER";
}

std::string CombinationName(size_t mask) {
  std::vector<std::string> names;
  for (const KindMask kind : {kComp, kComm, kMem}) {
    if ((mask & kind) != 0) names.emplace_back(GpuTypeName(kind));
  }
  return Join(names, " overlapping ");
}

// "Memcpy HtoD" of "Memcpy HtoD (Pageable -> Device)".
std::string CopyKind(const std::string& name) {
  const size_t at = name.find(" (");
  return name.substr(0, at);
}

class GpuMeasuring {
 public:
  GpuMeasuring(const query::Snapshot& snapshot, GpuDefinition definition)
      : snapshot_(snapshot),
        is_hta_(definition == GpuDefinition::kHta),
        base_ns_(BaseOf(snapshot)) {
    result_.definition = definition;
    for (const query::GpuStream& stream : snapshot.gpu_streams)
      streams_[stream.track] = stream.stream;
  }

  GpuTime Take() {
    std::array<int64_t, 8> types{};
    std::map<int32_t, GpuStepTime> steps;
    for (const query::RankRows& rows : snapshot_.ranks) {
      if (rows.gpu_work.empty()) continue;
      const std::vector<StreamEvent> events = EventsOf(rows);
      result_.ranks.push_back(GpuTimeOf(rows.rank, events));
      const std::array<int64_t, 8> lengths = Combinations(SpansOfKinds(events));
      for (size_t mask = 1; mask < types.size(); ++mask) types[mask] += lengths[mask];
      AddSteps(rows.rank, events, &steps);
      AddKernels(rows.rank, events);
      AddStreams(rows.rank, events);
      AddBandwidths(rows.rank, events);
    }
    for (size_t mask = 1; mask < types.size(); ++mask) {
      if (types[mask] != 0) result_.types.push_back({CombinationName(mask), types[mask]});
    }
    std::ranges::stable_sort(result_.types, std::greater(), &GpuTypeTime::sum_ns);
    std::ranges::stable_sort(result_.kernels, std::greater(), &GpuKernelTime::sum_ns);
    for (auto& [number, step] : steps) result_.steps.push_back(std::move(step));
    return std::move(result_);
  }

 private:
  static const std::string& Unnamed() {
    static const std::string kUnnamed;
    return kUnnamed;
  }
  const std::string& NameAt(int32_t index) const {
    const bool known = index >= 0 && static_cast<size_t>(index) < snapshot_.names.size();
    return known ? snapshot_.names[static_cast<size_t>(index)] : Unnamed();
  }

  // As HTA has it in a double of microseconds, which is not exact for a time of day.
  double Microseconds(int64_t time_ns) const {
    const int64_t told_ns = time_ns - base_ns_;
    return static_cast<double>(told_ns / kUs) + static_cast<double>(told_ns % kUs) / kUs;
  }
  int64_t Start(int64_t time_ns) const {
    return is_hta_ ? static_cast<int64_t>(std::ceil(Microseconds(time_ns))) * kUs : time_ns;
  }
  int64_t End(int64_t start_ns, int64_t end_ns) const {
    if (!is_hta_) return end_ns;
    const double length_us = static_cast<double>(end_ns - start_ns) / kUs;
    return static_cast<int64_t>(std::floor(Microseconds(start_ns) + length_us)) * kUs;
  }

  // When the last of several steps began, by its mark; INT64_MAX: they are not several.
  int64_t StartOfLastStep(const query::RankRows& rows) const {
    std::map<int64_t, int64_t> starts;  // by number
    for (const query::Span& span : rows.spans) {
      const std::string& name = NameAt(span.name);
      if (!name.starts_with(kStepMark)) continue;
      int64_t number = 0;
      std::from_chars(name.data() + kStepMark.size(), name.data() + name.size(), number);
      starts.try_emplace(number, span.start_ns);
    }
    return starts.size() < 2 ? std::numeric_limits<int64_t>::max() : Start(starts.rbegin()->second);
  }

  std::vector<StreamEvent> EventsOf(const query::RankRows& rows) const {
    const int64_t until_ns = is_hta_ ? StartOfLastStep(rows) : std::numeric_limits<int64_t>::max();
    const bool filters = until_ns != std::numeric_limits<int64_t>::max();
    std::vector<StreamEvent> events;
    for (const query::GpuWork& work : rows.gpu_work) {
      StreamEvent event;
      event.start_ns = Start(work.start_ns);
      event.end_ns = End(work.start_ns, work.end_ns);
      event.stream = StreamOf(work.track);
      event.has_launch = !work.launch_track.is_none();
      event.launch_ns = Start(work.launch_start_ns);
      event.step = work.step;
      event.name = &NameAt(work.name);
      event.kind = is_hta_ ? KindOfName(*event.name) : KindOfCategory(work.category);
      event.work = &work;
      if (filters && (!event.has_launch || event.launch_ns >= until_ns)) continue;
      events.push_back(event);
    }
    if (is_hta_) AddWaits(rows, until_ns, &events);
    return events;
  }

  // HTA counts what Kineto tells of waits of streams to the time of kernels.
  void AddWaits(const query::RankRows& rows, int64_t until_ns,
                std::vector<StreamEvent>* events) const {
    for (const query::Span& span : rows.spans) {
      const auto stream = streams_.find(span.track);
      if (span.category != query::SpanCategory::kWait || stream == streams_.end() ||
          stream->second < 0)
        continue;
      StreamEvent event;
      event.start_ns = Start(span.start_ns);
      event.end_ns = End(span.start_ns, span.end_ns);
      event.stream = stream->second;
      event.is_work = false;
      event.name = &NameAt(span.name);
      if (event.start_ns < until_ns) events->push_back(event);
    }
  }

  int64_t StreamOf(query::TrackId track) const {
    const auto found = streams_.find(track);
    return found == streams_.end() ? 0 : found->second;
  }

  static void AddSteps(int32_t rank, const std::vector<StreamEvent>& events,
                       std::map<int32_t, GpuStepTime>* steps) {
    std::map<int32_t, std::vector<StreamEvent>> by_step;
    for (const StreamEvent& event : events) {
      if (event.step >= 0) by_step[event.step].push_back(event);
    }
    for (const auto& [number, of_step] : by_step) {
      GpuStepTime& step = (*steps)[number];
      step.step = number;
      step.ranks.push_back(GpuTimeOf(rank, of_step));
    }
  }

  void AddKernels(int32_t rank, const std::vector<StreamEvent>& events) {
    std::map<std::string_view, GpuKernelTime> by_name;
    for (const StreamEvent& event : events) {
      if (!event.is_work) continue;
      const int64_t length_ns = event.end_ns - event.start_ns;
      const auto [entry, is_new] = by_name.try_emplace(*event.name);
      GpuKernelTime& kernel = entry->second;
      if (is_new) {
        kernel = {*event.name, std::string(GpuTypeName(event.kind)), rank, 0, 0, length_ns,
                  length_ns};
      }
      ++kernel.count;
      kernel.sum_ns += length_ns;
      kernel.min_ns = std::min(kernel.min_ns, length_ns);
      kernel.max_ns = std::max(kernel.max_ns, length_ns);
    }
    for (auto& [name, kernel] : by_name) result_.kernels.push_back(std::move(kernel));
  }

  void AddStreams(int32_t rank, const std::vector<StreamEvent>& events) {
    std::map<int64_t, std::vector<const StreamEvent*>> by_stream;
    for (const StreamEvent& event : events) {
      if (event.is_work) by_stream[event.stream].push_back(&event);
    }
    for (auto& [stream, of_stream] : by_stream) {
      std::ranges::stable_sort(of_stream, {},
                               [](const StreamEvent* event) { return event->start_ns; });
      AddIdle(rank, stream, of_stream);
      AddQueue(rank, stream, of_stream);
    }
  }

  void AddIdle(int32_t rank, int64_t stream, const std::vector<const StreamEvent*>& events) {
    GpuIdleTime idle{rank, stream, 0, 0, 0};
    // What HTA compares with 30 it counts in microseconds.
    for (size_t at = 1; at < events.size(); ++at) {
      const StreamEvent& event = *events[at];
      const int64_t before_ns = events[at - 1]->end_ns;
      const int64_t gap_ns = event.start_ns - before_ns;
      if (event.has_launch && event.launch_ns > before_ns) {
        idle.host_wait_ns += gap_ns;
      } else if (gap_ns < kKernelWaitNs) {
        idle.kernel_wait_ns += gap_ns;
      } else {
        idle.other_ns += gap_ns;
      }
    }
    result_.idle.push_back(idle);
  }

  void AddQueue(int32_t rank, int64_t stream, const std::vector<const StreamEvent*>& events) {
    std::vector<std::pair<int64_t, int>> changes;
    for (const StreamEvent* const event : events) {
      if (!event->has_launch) continue;
      changes.emplace_back(event->launch_ns, 1);
      changes.emplace_back(event->start_ns, -1);
    }
    if (changes.empty()) return;
    std::ranges::stable_sort(changes, {}, [](const auto& change) { return change.first; });
    GpuQueueLength queue;
    queue.rank = rank;
    queue.stream = stream;
    queue.min = std::numeric_limits<int64_t>::max();
    queue.max = std::numeric_limits<int64_t>::min();
    int64_t length = 0;
    for (const auto& [time_ns, change] : changes) {
      length += change;
      ++queue.count;
      queue.mean += static_cast<double>(length);
      queue.min = std::min(queue.min, length);
      queue.max = std::max(queue.max, length);
    }
    queue.mean /= static_cast<double>(queue.count);
    result_.queues.push_back(queue);
  }

  void AddBandwidths(int32_t rank, const std::vector<StreamEvent>& events) {
    std::map<std::string, GpuBandwidth> by_kind;
    for (const StreamEvent& event : events) {
      const int64_t length_ns = event.end_ns - event.start_ns;
      if (event.work == nullptr || event.work->kind == query::GpuWorkKind::kKernel ||
          event.work->bytes <= 0 || length_ns <= 0)
        continue;
      GpuBandwidth& row = by_kind[CopyKind(*event.name)];
      const double rate =
          static_cast<double>(event.work->bytes) / (static_cast<double>(length_ns) * 1e-9);
      ++row.count;
      row.bytes += event.work->bytes;
      row.time_ns += length_ns;
      row.mean_bytes_per_second += rate;
      row.max_bytes_per_second = std::max(row.max_bytes_per_second, rate);
    }
    for (auto& [kind, row] : by_kind) {
      row.rank = rank;
      row.kind = kind;
      row.mean_bytes_per_second /= static_cast<double>(row.count);
      result_.bandwidths.push_back(std::move(row));
    }
  }

  const query::Snapshot& snapshot_;
  const bool is_hta_;
  const int64_t base_ns_;
  std::map<query::TrackId, int64_t> streams_;
  GpuTime result_;
};

}  // namespace

std::string_view Name(GpuDefinition definition) {
  return definition == GpuDefinition::kHta ? "hta" : "exact";
}

std::optional<GpuDefinition> ParseGpuDefinition(std::string_view text) {
  if (text == "exact") return GpuDefinition::kExact;
  if (text == "hta") return GpuDefinition::kHta;
  return std::nullopt;
}

GpuTime MeasureGpu(const query::Snapshot& snapshot, GpuDefinition definition) {
  return GpuMeasuring(snapshot, definition).Take();
}

}  // namespace shardscope::analysis
