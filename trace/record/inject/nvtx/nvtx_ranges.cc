#include "trace/record/inject/nvtx/nvtx_ranges.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "trace/base/mutex.h"
#include "trace/base/reasons.h"
#include "trace/base/time.h"
#include "trace/record/inject/guarded.h"
#include "trace/record/inject/process_recording.h"

namespace shardscope::inject {
namespace {

constexpr size_t kMaxOpen = 1 << 12;  // ranges that a thread, or the process, leaves open
// A counter of numbers that come with ranges of one name.
constexpr std::string_view kNumberSuffix = ": payload";

void CountUnrecorded(ProcessRecording& recording) {
  recording.CountLost("nvtx", reasons::kNvtxRanges, 1);
}

constexpr size_t kMaxCached = 1 << 12;  // names that a thread keeps
constexpr size_t kMaxRangeNameBytes = 1 << 10;

// On the heap behind a plain pointer: destructors of thread_local objects run before those of the
// program, which may still use NVTX.
thread_local ThreadRanges* mine = nullptr;

struct AllThreads {
  Mutex mutex;
  std::vector<ThreadRanges*> threads GUARDED_BY(mutex);
};
AllThreads& All() {
  static auto* const all = new AllThreads;  // never destroyed, as the recording
  return *all;
}

// None: the program has used up all keys; then the state of a thread that ends stays.
std::optional<pthread_key_t> MakeKey(void (*at_end)(void*)) {
  pthread_key_t key = 0;
  const int failed = pthread_key_create(&key, at_end);
  return failed != 0 ? std::optional<pthread_key_t>() : key;
}

// PyTorch's emit_nvtx counts inside the names ("aten::mm, seq = 12, op_id = 34"): without the
// counts one op is one name.
std::string_view WithoutCounts(std::string_view text) {
  text = text.substr(0, std::min(text.find(", seq = "), text.find(", op_id = ")));
  return text.substr(0, kMaxRangeNameBytes);
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
  const schema::StringId name = mine.NameOf(*recording, *domain, text, payload.text);
  const int64_t start_ns = MonotonicNs();
  if (!recording->TakesAt(start_ns)) return kNotTracked;
  if (payload.number) {
    const schema::StringId counter = mine.NameOf(*recording, *domain, text, kNumberSuffix);
    recording->Counter(mine.track, start_ns, counter, *payload.number);
  }
  const RangeLatchLock lock(mine.latch);
  const auto level = std::count_if(mine.open.begin(), mine.open.end(),
                                   [&](const OpenRange& range) { return range.domain == domain; });
  if (mine.open.size() >= kMaxOpen) {
    // The pops that belong to these end outer ranges early: the trace records that it has holes.
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
  const schema::StringId counter =
      payload.number ? mine.NameOf(*recording, *domain, text, kNumberSuffix) : schema::StringId();
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
    const schema::StringId counter = mine.NameOf(*recording, *domain, text, kNumberSuffix);
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

ThreadRanges& ThreadRanges::Mine(ProcessRecording& recording) {
  if (mine != nullptr) return *mine;
  static const std::optional<pthread_key_t> key = MakeKey(&End);
  std::unique_ptr<ThreadRanges> added(new ThreadRanges(recording.ThreadTrack()));
  {
    AllThreads& all = All();
    const MutexLock lock(all.mutex);
    all.threads.push_back(added.get());
  }
  mine = added.release();
  if (key) pthread_setspecific(*key, mine);
  return *mine;
}

void ThreadRanges::End(void* ended) {
  mine = nullptr;
  // In a forked child the lock may be held for ever, and after the end nothing reads it.
  if (!ProcessRecording::IsOpen()) return;
  Guarded([&] {
    auto* const thread = static_cast<ThreadRanges*>(ended);
    AllThreads& all = All();
    {
      const MutexLock lock(all.mutex);
      if (ProcessRecording* const recording = ProcessRecording::Active()) {
        thread->WriteOpen(*recording, recording->EndNs());
      }
      std::erase(all.threads, thread);
    }
    delete thread;
  });
}

void ThreadRanges::WriteOpenOfAll(ProcessRecording& recording, int64_t end_ns) {
  AllThreads& all = All();
  const MutexLock lock(all.mutex);
  for (ThreadRanges* const thread : all.threads) thread->WriteOpen(recording, end_ns);
}

void ThreadRanges::WriteOpen(ProcessRecording& recording, int64_t end_ns) {
  const RangeLatchLock lock(latch);
  for (const OpenRange& range : open) {
    recording.SpanNotEnded(track, range.start_ns, end_ns, range.name, kNvtxCategory);
  }
  open.clear();
}

schema::StringId ThreadRanges::NameOf(ProcessRecording& recording, const NvtxDomain& domain,
                                      std::string_view text, std::string_view suffix) {
  text_ = domain.name;
  if (!domain.name.empty()) text_ += ": ";
  text_ += WithoutCounts(text);
  text_ += suffix;
  const auto known = names_.find(std::string_view(text_));
  if (known != names_.end()) return known->second;
  if (names_.size() >= kMaxCached) names_.clear();
  const schema::StringId name = recording.Name(text_);
  names_.emplace(text_, name);
  return name;
}

// A track of their own: they may cross the ranges of the thread. It is named after the thread, as
// the track of those is: in PyTorch the backward has one of its own.
schema::TrackId ThreadRanges::CrossingTrack(ProcessRecording& recording) {
  if (crossing_track_ == schema::TrackId()) {
    const auto thread = syscall(SYS_gettid);
    crossing_track_ =
        recording.AddTrack(thread == getpid() ? "ranges" : fmt::format("thread {} ranges", thread),
                           words::TrackRole::kHost);
  }
  return crossing_track_;
}

}  // namespace shardscope::inject
