#include "trace/record/inject/nvtx/nvtx_ranges.h"

#include <algorithm>
#include <vector>

#include "trace/base/mutex.h"
#include "trace/base/time.h"
#include "trace/record/inject/nvtx/thread_ranges.h"
#include "trace/record/inject/process_recording.h"

namespace shardscope::inject {
namespace {

constexpr size_t kMaxOpen = 1 << 12;  // ranges that a thread, or the process, leaves open
// A counter of numbers that come with ranges of one name.
constexpr std::string_view kNumberSuffix = ": payload";

void CountUnrecorded(ProcessRecording& recording) {
  recording.CountLost("nvtx", "ranges: too many are open", 1);
}

}  // namespace

// A forked child has no thread that could give back a lock which was held at the fork: here, and
// wherever else a lock is taken, it does not come so far.
NvtxDomain* NvtxRanges::Domain(std::string_view name) {
  if (ProcessRecording::Active() == nullptr) return &default_;
  const MutexLock lock(mutex_);
  return &domains_.try_emplace(std::string(name), NvtxDomain{std::string(name)}).first->second;
}

NvtxString* NvtxRanges::Register(std::string_view text) {
  if (ProcessRecording::Active() == nullptr) return &unrecorded_;
  const MutexLock lock(mutex_);
  return &strings_.try_emplace(std::string(text), NvtxString{std::string(text)}).first->second;
}

int NvtxRanges::Push(NvtxDomain* domain, std::string_view text, const NvtxPayload& payload) {
  ProcessRecording* recording = ProcessRecording::Taking();
  if (recording == nullptr) return kNotTracked;
  domain = OrDefault(domain);
  ThreadRanges& mine = ThreadRanges::Mine(*recording);
  const int64_t name = mine.NameOf(*recording, *domain, text, payload.text);
  const int64_t start_ns = MonotonicNs();
  if (!recording->TakesAt(start_ns)) return kNotTracked;
  if (payload.number) {
    const int64_t counter = mine.NameOf(*recording, *domain, text, kNumberSuffix);
    recording->Counter(mine.track, start_ns, counter, *payload.number);
  }
  const RangeLatchLock lock(mine.latch);
  const auto level = std::count_if(mine.open.begin(), mine.open.end(),
                                   [&](const OpenRange& range) { return range.domain == domain; });
  if (mine.open.size() >= kMaxOpen) {
    // The pops that belong to these end outer ranges early: the trace says that it has holes.
    CountUnrecorded(*recording);
  } else {
    mine.open.push_back({domain, start_ns, name});
  }
  return static_cast<int>(level);
}

int NvtxRanges::Pop(NvtxDomain* domain) {
  ProcessRecording* recording = ProcessRecording::Taking();
  if (recording == nullptr) return kNotTracked;
  const int64_t end_ns = MonotonicNs();
  // What is open now is written at the end of the thread, up to the end of the recording.
  if (!recording->TakesAt(end_ns)) return kNotTracked;
  domain = OrDefault(domain);
  ThreadRanges& mine = ThreadRanges::Mine(*recording);
  const RangeLatchLock lock(mine.latch);
  std::vector<OpenRange>& open = mine.open;
  const auto last = std::find_if(open.rbegin(), open.rend(),
                                 [&](const OpenRange& range) { return range.domain == domain; });
  if (last == open.rend()) return -1;
  recording->Span(mine.track, last->start_ns, end_ns, last->name, kNvtxCategory);
  const auto level = std::count_if(last + 1, open.rend(),
                                   [&](const OpenRange& range) { return range.domain == domain; });
  open.erase(std::next(last).base());
  return static_cast<int>(level);
}

uint64_t NvtxRanges::Start(NvtxDomain* domain, std::string_view text, const NvtxPayload& payload) {
  ProcessRecording* recording = ProcessRecording::Taking();
  if (recording == nullptr) return 0;
  domain = OrDefault(domain);
  ThreadRanges& mine = ThreadRanges::Mine(*recording);
  Crossing range{mine.CrossingTrack(*recording), 0,
                 mine.NameOf(*recording, *domain, text, payload.text)};
  const int64_t counter =
      payload.number ? mine.NameOf(*recording, *domain, text, kNumberSuffix) : 0;
  const MutexLock lock(mutex_);
  if (crossing_.size() >= kMaxOpen) {
    CountUnrecorded(*recording);
    return 0;
  }
  range.start_ns = MonotonicNs();
  if (!recording->TakesAt(range.start_ns)) return 0;
  if (payload.number) recording->Counter(range.track, range.start_ns, counter, *payload.number);
  crossing_.emplace(++last_id_, range);
  return last_id_;
}

void NvtxRanges::End(uint64_t id) {
  ProcessRecording* recording = ProcessRecording::Taking();
  if (recording == nullptr) return;
  const int64_t end_ns = MonotonicNs();
  if (!recording->TakesAt(end_ns)) return;
  Crossing range;
  {
    const MutexLock lock(mutex_);
    const auto found = crossing_.find(id);
    if (found == crossing_.end()) return;
    range = found->second;
    crossing_.erase(found);
  }
  recording->Span(range.track, range.start_ns, end_ns, range.name, kNvtxCategory);
}

void NvtxRanges::Mark(NvtxDomain* domain, std::string_view text, const NvtxPayload& payload) {
  ProcessRecording* recording = ProcessRecording::Taking();
  if (recording == nullptr) return;
  domain = OrDefault(domain);
  const int64_t time_ns = MonotonicNs();
  if (!recording->TakesAt(time_ns)) return;
  ThreadRanges& mine = ThreadRanges::Mine(*recording);
  if (payload.number) {
    const int64_t counter = mine.NameOf(*recording, *domain, text, kNumberSuffix);
    recording->Counter(mine.track, time_ns, counter, *payload.number);
  }
  recording->Span(mine.track, time_ns, time_ns,
                  mine.NameOf(*recording, *domain, text, payload.text), kNvtxCategory);
}

void NvtxRanges::WriteOpen(ProcessRecording& recording, int64_t end_ns) {
  const MutexLock lock(mutex_);
  for (const auto& [id, range] : crossing_) {
    recording.SpanNotEnded(range.track, range.start_ns, end_ns, range.name, kNvtxCategory);
  }
  crossing_.clear();
}

}  // namespace shardscope::inject
