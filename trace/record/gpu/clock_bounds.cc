#include "trace/record/gpu/clock_bounds.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "trace/base/time.h"

namespace shardscope::gpu {
namespace {

// A second is reported so long after its end: the joiner holds work back that waits for its call.
constexpr int64_t kPatienceSeconds = 5;
// So many works of a stream are kept at most; of older ones only the last matters.
constexpr size_t kMostKept = 1 << 12;

}  // namespace

ClockReading& ClockBounds::ReadingAt(int64_t time_ns, uint32_t device) {
  newest_ns_ = std::max(newest_ns_, time_ns);
  ClockReading& reading = open_[{time_ns / kNsPerSecond, device}];
  reading.device = device;
  return reading;
}

void ClockBounds::Add(const cupti::Joined& joined) {
  for (const cupti::Work& work : joined.works) {
    if (work.call_start_ns <= 0 || !work.HasTimes()) continue;
    const uint32_t device =
        work.kind == cupti::WorkKind::kKernel ? work.kernel.device : work.copy.device;
    ClockReading& reading = ReadingAt(work.call_start_ns, device);
    const int64_t low_ns = work.call_start_ns - work.start_ns;
    reading.low_ns = reading.works++ == 0 ? low_ns : std::max(reading.low_ns, low_ns);
    Stream& stream = streams_[work.stream];
    stream.device = device;
    stream.ended.push_back({work.call_end_ns, work.end_ns});
    stream.is_sorted = false;
  }
  for (auto& [id, stream] : streams_) {
    if (std::exchange(stream.is_sorted, true)) continue;
    std::sort(stream.ended.begin(), stream.ended.end(),
              [](const Ended& a, const Ended& b) { return a.call_ns < b.call_ns; });
    int64_t latest_ns = 0;
    for (Ended& one : stream.ended) one.end_ns = latest_ns = std::max(latest_ns, one.end_ns);
  }
  for (const cupti::Wait& wait : joined.host_waits) {
    if (wait.start_ns <= 0 || wait.end_ns < wait.start_ns) continue;
    if (wait.kind == cupti::WaitKind::kStream) {
      const auto stream = streams_.find(wait.stream);
      if (stream != streams_.end()) AddWait(wait, stream->second);
    } else if (wait.kind == cupti::WaitKind::kContext) {
      for (const auto& [id, stream] : streams_) {
        if (id.context == wait.stream.context) AddWait(wait, stream);
      }
    }
  }
  for (auto& [id, stream] : streams_) {
    if (stream.ended.size() <= kMostKept) continue;
    stream.ended.erase(stream.ended.begin(), stream.ended.end() - kMostKept / 2);
  }
}

void ClockBounds::AddWait(const cupti::Wait& wait, const Stream& stream) {
  const auto after =
      std::upper_bound(stream.ended.begin(), stream.ended.end(), wait.start_ns,
                       [](int64_t time_ns, const Ended& one) { return time_ns < one.call_ns; });
  if (after == stream.ended.begin()) return;
  const int64_t high_ns = wait.end_ns - std::prev(after)->end_ns;
  ClockReading& reading = ReadingAt(wait.start_ns, stream.device);
  reading.time_ns = std::max(reading.time_ns, wait.end_ns);
  reading.high_ns = reading.waits++ == 0 ? high_ns : std::min(reading.high_ns, high_ns);
}

std::vector<ClockReading> ClockBounds::Take(bool all) {
  std::vector<ClockReading> taken;
  const int64_t until = newest_ns_ / kNsPerSecond - kPatienceSeconds;
  auto entry = open_.begin();
  while (entry != open_.end() && (all || entry->first.first < until)) {
    if (entry->second.works > 0 && entry->second.waits > 0) taken.push_back(entry->second);
    entry = open_.erase(entry);
  }
  return taken;
}

}  // namespace shardscope::gpu
