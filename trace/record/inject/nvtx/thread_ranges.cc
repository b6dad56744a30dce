#include "trace/record/inject/nvtx/thread_ranges.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "trace/base/mutex.h"
#include "trace/record/inject/guest.h"
#include "trace/record/inject/nvtx/nvtx_ranges.h"
#include "trace/record/inject/process_recording.h"

namespace shardscope::inject {
namespace {

constexpr size_t kMaxCached = 1 << 12;  // names that a thread remembers
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
  // In a forked child the lock may be held for ever, and after the end nobody looks.
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

int64_t ThreadRanges::NameOf(ProcessRecording& recording, const NvtxDomain& domain,
                             std::string_view text, std::string_view suffix) {
  text_ = domain.name;
  if (!domain.name.empty()) text_ += ": ";
  text_ += WithoutCounts(text);
  text_ += suffix;
  const auto known = names_.find(std::string_view(text_));
  if (known != names_.end()) return known->second;
  if (names_.size() >= kMaxCached) names_.clear();
  const int64_t name = recording.Name(text_);
  names_.emplace(text_, name);
  return name;
}

// A track of their own: they may cross the ranges of the thread. It is named after the thread, as
// the track of those is: in PyTorch the backward has one of its own.
int64_t ThreadRanges::CrossingTrack(ProcessRecording& recording) {
  if (crossing_track_ == 0) {
    const auto thread = syscall(SYS_gettid);
    crossing_track_ = recording.AddTrack(
        thread == getpid() ? "ranges" : fmt::format("thread {} ranges", thread), "host");
  }
  return crossing_track_;
}

}  // namespace shardscope::inject
