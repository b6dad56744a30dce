#include "trace/analysis/gpu/gpu_time.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>

#include "trace/analysis/gpu/gpu_events.h"
#include "trace/base/text.h"
#include "trace/base/units.h"

namespace shardscope::analysis {
namespace {

constexpr int64_t kKernelWaitNs = 30'000;  // HTA's consecutive_kernel_delay
constexpr size_t kNumKinds = 3;
constexpr size_t kNumCombinations = size_t{1} << kNumKinds;
constexpr std::array<GpuKind, kNumKinds> kKinds = {GpuKind::kComputation, GpuKind::kCommunication,
                                                   GpuKind::kMemory};

// Sums of what a damaged file claims end at the largest number, or, unlike those of AddCapped()
// (trace/analysis/capped_sum.h), at the lowest one: lengths and gaps may lie below 0 here.
int64_t SaturatedSum(int64_t one, int64_t other) {
  int64_t sum = 0;
  if (!__builtin_add_overflow(one, other, &sum)) return sum;
  return one < 0 ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
}

int64_t SaturatedDifference(int64_t from, int64_t what) {
  int64_t difference = 0;
  if (!__builtin_sub_overflow(from, what, &difference)) return difference;
  return from < 0 ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
}

// Sorts values of which the first `num_sorted` are in order, and the rest mostly.
template <typename Value, typename Less>
void SortRest(size_t num_sorted, Less less, std::vector<Value>* values) {
  constexpr size_t kFew = 64;  // merging allocates
  if (values->size() <= kFew) {
    std::ranges::sort(*values, less);
    return;
  }
  const auto middle = values->begin() + static_cast<std::ptrdiff_t>(num_sorted);
  if (!std::is_sorted(middle, values->end(), less)) std::sort(middle, values->end(), less);
  std::inplace_merge(values->begin(), middle, values->end(), less);
}

struct GpuInterval {
  int64_t start_ns = 0;
  int64_t end_ns = 0;  // may lie before the start
};
using GpuIntervals = std::vector<GpuInterval>;

// Adds the next by start to groups of what touches, as HTA's merge_kernel_intervals(): a group
// begins where a start lies behind all ends so far.
class IntervalUnion {
 public:
  void Add(const GpuEvent& event) {
    if (groups_.empty() || event.start_ns > furthest_ns_) {
      groups_.push_back({event.start_ns, event.end_ns});
    } else {
      groups_.back().end_ns = std::max(groups_.back().end_ns, event.end_ns);
    }
    furthest_ns_ = std::max(furthest_ns_, event.end_ns);
  }
  const GpuIntervals& groups() const { return groups_; }
  int64_t length_ns() const {
    int64_t length_ns = 0;
    for (const GpuInterval& group : groups_) {
      length_ns = SaturatedSum(length_ns, group.end_ns - group.start_ns);
    }
    return length_ns;
  }

 private:
  GpuIntervals groups_;
  int64_t furthest_ns_ = std::numeric_limits<int64_t>::min();
};

using UnionOfKinds = std::array<IntervalUnion, kNumKinds>;
using CombinationTimes = std::array<int64_t, kNumCombinations>;  // by the sum of bits of GpuKind

UnionOfKinds UnionsOf(std::span<const GpuEvent> events) {
  UnionOfKinds unions;
  for (const GpuEvent& event : events) {
    for (size_t kind = 0; kind < kNumKinds; ++kind) {
      if (event.kind == kKinds[kind]) unions[kind].Add(event);
    }
  }
  return unions;
}

// How long exactly these ran at once. A negative length takes its kind away, as in HTA's sweep.
CombinationTimes TimesOfCombinations(std::span<const IntervalUnion> unions) {
  std::vector<std::pair<int64_t, int>> edges;
  for (size_t kind = 0; kind < unions.size(); ++kind) {
    const int bit = 1 << kind;
    const size_t num_sorted = edges.size();
    for (const GpuInterval& group : unions[kind].groups()) {
      edges.emplace_back(group.start_ns, bit);
      edges.emplace_back(group.end_ns, -bit);
    }
    SortRest(num_sorted, std::ranges::less(), &edges);
  }
  CombinationTimes times{};
  int64_t running = 0;
  for (size_t at = 0; at + 1 < edges.size(); ++at) {
    running += edges[at].second;
    if (running > 0 && running < static_cast<int64_t>(kNumCombinations)) {
      int64_t& time_ns = times[static_cast<size_t>(running)];
      time_ns = SaturatedSum(time_ns, edges[at + 1].first - edges[at].first);
    }
  }
  return times;
}

GpuRankTime TimeOfRank(int32_t rank, std::span<const GpuEvent> events, const UnionOfKinds& unions) {
  GpuRankTime time;
  time.rank = rank;
  if (events.empty()) return time;
  IntervalUnion all;
  int64_t last_ns = std::numeric_limits<int64_t>::min();
  for (const GpuEvent& event : events) {
    all.Add(event);
    last_ns = std::max(last_ns, event.end_ns);
  }
  // Of two kinds only: where lengths are negative, three would add up otherwise.
  constexpr size_t kBoth = 3;
  const CombinationTimes times = TimesOfCombinations(std::span(unions).first(2));
  time.kernel_time_ns = last_ns - events.front().start_ns;
  time.idle_ns = SaturatedDifference(time.kernel_time_ns, all.length_ns());
  time.compute_ns = unions[0].length_ns();
  time.non_compute_ns =
      SaturatedDifference(SaturatedDifference(time.kernel_time_ns, time.compute_ns), time.idle_ns);
  time.communication_ns = unions[1].length_ns();
  time.overlap_ns = times[kBoth];
  time.exposed_ns = SaturatedDifference(time.communication_ns, time.overlap_ns);
  return time;
}

std::string_view TypeName(GpuKind kind) {
  switch (kind) {
    case GpuKind::kComputation:
      return "COMPUTATION";
    case GpuKind::kCommunication:
      return "COMMUNICATION";
    case GpuKind::kMemory:
      return "MEMORY";
    case GpuKind::kOther:
      break;
  }
  return "OTHER";
}

std::string CombinationName(size_t bits) {
  std::vector<std::string> names;
  for (const GpuKind kind : kKinds) {
    if ((bits & static_cast<size_t>(kind)) != 0) names.emplace_back(TypeName(kind));
  }
  return Join(names, " overlapping ");
}

// Without its quartiles.
GpuDistribution DescribeMean(std::span<const double> values) {
  GpuDistribution result;
  if (values.empty()) return result;
  const auto count = static_cast<double>(values.size());
  double sum = 0;
  for (const double value : values) sum += value;
  double squares = 0;
  result.mean = sum / count;
  for (const double value : values) squares += (value - result.mean) * (value - result.mean);
  result.count = static_cast<int64_t>(values.size());
  result.std = values.size() < 2 ? 0 : std::sqrt(squares / (count - 1));
  const auto [min, max] = std::ranges::minmax(values);
  result.min = min;
  result.max = max;
  return result;
}

GpuDistribution Describe(std::vector<double> values) {
  GpuDistribution result = DescribeMean(values);
  if (values.empty()) return result;
  auto rest = values.begin();  // all before are at most what follows
  const auto quantile = [&](double share) {
    const double place = share * static_cast<double>(values.size() - 1);
    const auto below = values.begin() + static_cast<std::ptrdiff_t>(place);
    std::nth_element(rest, below, values.end());
    rest = below;
    const double above =
        below + 1 == values.end() ? *below : *std::min_element(below + 1, values.end());
    return *below + (above - *below) * (place - std::floor(place));
  };
  result.p25 = quantile(0.25);
  result.p50 = quantile(0.5);
  result.p75 = quantile(0.75);
  return result;
}

class GpuMeasuring {
 public:
  GpuMeasuring(const query::Snapshot& snapshot, GpuDefinition definition)
      : snapshot_(snapshot), reader_(snapshot, definition) {
    result_.definition = definition;
  }

  GpuTime Take() {
    for (const query::RankRows& rows : snapshot_.ranks) {
      if (rows.gpu_work.empty()) continue;
      const std::vector<GpuEvent> events = reader_.EventsOf(rows);
      const UnionOfKinds unions = UnionsOf(events);
      result_.ranks.push_back(TimeOfRank(rows.rank, events, unions));
      AddTypes(TimesOfCombinations(unions));
      AddSteps(rows.rank, events);
      AddKernels(rows.rank, events);
      AddStreams(rows.rank, events);
      AddBandwidths(rows.rank, events);
    }
    for (size_t bits = 1; bits < kNumCombinations; ++bits) {
      if (types_[bits] != 0) result_.types.push_back({CombinationName(bits), types_[bits]});
    }
    std::ranges::stable_sort(result_.types, std::greater(), &GpuTypeTime::sum_ns);
    std::ranges::stable_sort(result_.kernels, std::greater(), &GpuKernelTime::sum_ns);
    for (auto& [number, step] : steps_) result_.steps.push_back(std::move(step));
    return std::move(result_);
  }

 private:
  bool is_hta() const { return result_.definition == GpuDefinition::kHta; }

  void AddTypes(const CombinationTimes& times) {
    for (size_t bits = 1; bits < kNumCombinations; ++bits) {
      types_[bits] = SaturatedSum(types_[bits], times[bits]);
    }
  }

  void AddSteps(int32_t rank, const std::vector<GpuEvent>& events) {
    if (std::ranges::is_sorted(events, {}, &GpuEvent::step)) return AddSortedSteps(rank, events);
    std::vector<GpuEvent> sorted = events;
    std::ranges::stable_sort(sorted, {}, &GpuEvent::step);
    AddSortedSteps(rank, sorted);
  }

  void AddSortedSteps(int32_t rank, std::span<const GpuEvent> events) {
    for (size_t at = 0; at < events.size();) {
      const int32_t number = events[at].step;
      size_t end = at;
      while (end < events.size() && events[end].step == number) ++end;
      const std::span<const GpuEvent> of_step = events.subspan(at, end - at);
      at = end;
      if (number < 0) continue;
      GpuStepTime& step = steps_[number];
      step.step = number;
      step.ranks.push_back(TimeOfRank(rank, of_step, UnionsOf(of_step)));
    }
  }

  void AddKernels(int32_t rank, const std::vector<GpuEvent>& events) {
    // By where the name lies first: there are few names and many events.
    std::unordered_map<const std::string*, std::vector<const GpuEvent*>> by_place;
    for (const GpuEvent& event : events) by_place[event.name].push_back(&event);
    std::map<std::string_view, std::vector<const GpuEvent*>> by_name;
    for (auto& [name, of_place] : by_place) {
      std::vector<const GpuEvent*>& of_name = by_name[*name];
      of_name.insert(of_name.end(), of_place.begin(), of_place.end());
    }
    for (const auto& [name, of_name] : by_name) {
      GpuKernelTime kernel;
      kernel.name = name;
      kernel.type = TypeName(of_name.front()->kind);
      kernel.rank = rank;
      kernel.min_ns = kernel.max_ns = of_name.front()->length_ns();
      std::vector<double> lengths;
      lengths.reserve(of_name.size());
      for (const GpuEvent* const event : of_name) {
        kernel.sum_ns = SaturatedSum(kernel.sum_ns, event->length_ns());
        kernel.min_ns = std::min(kernel.min_ns, event->length_ns());
        kernel.max_ns = std::max(kernel.max_ns, event->length_ns());
        lengths.push_back(static_cast<double>(event->length_ns()));
      }
      const GpuDistribution distribution = DescribeMean(lengths);
      kernel.count = distribution.count;
      kernel.mean_ns = distribution.mean;
      kernel.std_ns = distribution.std;
      result_.kernels.push_back(std::move(kernel));
    }
  }

  void AddStreams(int32_t rank, const std::vector<GpuEvent>& events) {
    std::map<int64_t, std::vector<const GpuEvent*>> by_stream;
    for (const GpuEvent& event : events) {
      if (event.work) by_stream[event.stream].push_back(&event);
    }
    for (const auto& [stream, of_stream] : by_stream) {
      AddIdle(rank, stream, of_stream);
      AddQueue(rank, stream, of_stream);
    }
  }

  void AddIdle(int32_t rank, int64_t stream, const std::vector<const GpuEvent*>& events) {
    GpuIdleTime idle{rank, stream, 0, 0, 0};
    for (size_t at = 1; at < events.size(); ++at) {
      const GpuEvent& event = *events[at];
      const int64_t before_ns = events[at - 1]->end_ns;
      const int64_t gap_ns = event.start_ns - before_ns;
      int64_t& sum_ns = event.has_launch() && event.launch_ns > before_ns ? idle.host_wait_ns
                        : gap_ns < kKernelWaitNs                          ? idle.kernel_wait_ns
                                                                          : idle.other_ns;
      sum_ns = SaturatedSum(sum_ns, gap_ns);
    }
    result_.idle.push_back(idle);
  }

  void AddQueue(int32_t rank, int64_t stream, const std::vector<const GpuEvent*>& events) {
    std::vector<std::pair<int64_t, int>> changes;
    for (const GpuEvent* const event : events) {
      if (event->in_queue) changes.emplace_back(event->launch_ns, 1);
    }
    if (changes.empty()) return;
    // What is launched at the time of a start comes first.
    const auto comes_before = [](const auto& one, const auto& other) {
      return one.first != other.first ? one.first < other.first : one.second > other.second;
    };
    SortRest(0, comes_before, &changes);
    const size_t num_launches = changes.size();
    for (const GpuEvent* const event : events) {
      if (event->in_queue) changes.emplace_back(event->start_ns, -1);
    }
    SortRest(num_launches, comes_before, &changes);
    std::vector<double> lengths;
    lengths.reserve(changes.size());
    int64_t length = 0;
    for (const auto& [time_ns, change] : changes) {
      length += change;
      lengths.push_back(static_cast<double>(length));
    }
    result_.queues.push_back({rank, stream, Describe(std::move(lengths))});
  }

  // "Memcpy HtoD" of "Memcpy HtoD (Pageable -> Device)".
  static std::string CopyKind(const GpuEvent& event) {
    constexpr size_t kKindLength = std::string_view("Memcpy HtoD").size();
    if (event.name->starts_with("Memset")) return "Memset";
    if (event.name->starts_with("Memcpy")) return event.name->substr(0, kKindLength);
    return "Memcpy Unknown";
  }

  // 0: not known. Not rounded as in byte_rate.h but as HTA's bytes a ns: RatesAtOnce() compares
  // what is left of sums with 0, which their last digits decide.
  static double BytesPerSecond(const query::GpuWork& work) {
    const auto length_ns = static_cast<double>(SaturatedDifference(work.end_ns, work.start_ns));
    return length_ns > 0 && work.bytes > 0 ? static_cast<double>(work.bytes) / length_ns * 1e9 : 0;
  }

  void AddBandwidths(int32_t rank, const std::vector<GpuEvent>& events) {
    std::map<std::string, std::vector<const GpuEvent*>> by_kind;
    for (const GpuEvent& event : events) {
      if (!event.work) continue;
      const bool is_copy = is_hta() ? event.kind == GpuKind::kMemory
                                    : event.work->kind != query::GpuWorkKind::kKernel;
      if (is_copy && (is_hta() || BytesPerSecond(*event.work) > 0)) {
        by_kind[CopyKind(event)].push_back(&event);
      }
    }
    for (const auto& [kind, copies] : by_kind) {
      GpuBandwidth row;
      row.rank = rank;
      row.kind = kind;
      std::vector<double> rates;
      for (const GpuEvent* const copy : copies) {
        ++row.count;
        row.bytes = SaturatedSum(row.bytes, copy->work->bytes);
        row.time_ns = SaturatedSum(row.time_ns, copy->length_ns());
        rates.push_back(BytesPerSecond(*copy->work));
      }
      row.bytes_per_second = Describe(is_hta() ? RatesAtOnce(copies, rates) : std::move(rates));
      result_.bandwidths.push_back(std::move(row));
    }
  }

  // Of all copies that run, after each start and each end, where that is above 0.
  static std::vector<double> RatesAtOnce(const std::vector<const GpuEvent*>& copies,
                                         const std::vector<double>& rates) {
    constexpr int64_t kShortestNs = 1000;
    std::vector<std::pair<int64_t, double>> changes;
    for (size_t at = 0; at < copies.size(); ++at) {
      changes.emplace_back(copies[at]->start_ns, rates[at] / 1e9);
    }
    for (size_t at = 0; at < copies.size(); ++at) {
      const int64_t length_ns =
          copies[at]->length_ns() == 0 ? kShortestNs : copies[at]->length_ns();
      changes.emplace_back(copies[at]->start_ns + length_ns, -rates[at] / 1e9);
    }
    std::ranges::stable_sort(changes, {}, [](const auto& change) { return change.first; });
    std::vector<double> running;
    double sum = 0;
    for (const auto& [time_ns, change] : changes) {
      sum += change;
      if (sum > 0) running.push_back(sum * 1e9);
    }
    return running;
  }

  const query::Snapshot& snapshot_;
  const GpuEventReader reader_;
  GpuTime result_;
  CombinationTimes types_{};
  std::map<int32_t, GpuStepTime> steps_;
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

std::string PrintGpuTime(const GpuTime& gpu) {
  if (gpu.ranks.empty()) return "";
  std::string text = "\nGPU time (from the first start to the last end of kernels and copies)\n";
  for (const GpuRankTime& rank : gpu.ranks) {
    text += fmt::format("  rank {}: {}: compute {}, other work {}, idle {}", rank.rank,
                        FormatDuration(rank.kernel_time_ns), FormatDuration(rank.compute_ns),
                        FormatDuration(rank.non_compute_ns), FormatDuration(rank.idle_ns));
    if (rank.communication_ns > 0) {
      const double share =
          static_cast<double>(rank.overlap_ns) / static_cast<double>(rank.communication_ns);
      text += fmt::format("; {} of {} of communication overlap compute", FormatPercent(share),
                          FormatDuration(rank.communication_ns));
    }
    text += "\n";
  }
  return text;
}

}  // namespace shardscope::analysis
