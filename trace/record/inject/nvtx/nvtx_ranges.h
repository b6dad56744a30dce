// NvtxRanges: what one copy of NVTX in the process reports. Every library that embeds NVTX has its
// own copy (the program is one, NCCL another), with its own domains and its own default domain.
//
// Threads: all of the program's. Ranges of one thread and domain nest and need no lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "trace/base/mutex.h"
#include "trace/base/words.h"
#include "trace/record/inject/nvtx/payload_schemas.h"

namespace shardscope::inject {

class ProcessRecording;

// Of NCCL's ranges too: a range is the time of the call on the host, not of what it puts on the
// GPU.
inline constexpr words::SpanCategory kNvtxCategory = words::SpanCategory::kHost;

struct NvtxDomain {
  std::string name;  // empty: the default domain
};

// A string that the program registered to use it often.
struct NvtxString {
  std::string text;
};

class NvtxRanges {
 public:
  NvtxRanges() = default;

  // Both are kept for the life of the process: their number is bounded by distinct texts. Where
  // nothing is recorded any more all are the same.
  NvtxDomain* Domain(std::string_view name);
  NvtxString* Register(std::string_view text);

  // What NVTX itself returns where no tool is attached (NVTX_NO_PUSH_POP_TRACKING).
  static constexpr int kNotTracked = -2;

  // The level of the range, from 0. `domain` null: the default one.
  int Push(NvtxDomain* domain, std::string_view text, const NvtxPayload& payload = {});
  // The level of the range that ended; negative: there was none.
  int Pop(NvtxDomain* domain);
  // Ranges that may end on another thread. 0: not recorded.
  uint64_t Start(NvtxDomain* domain, std::string_view text, const NvtxPayload& payload = {});
  void End(uint64_t id);
  void Mark(NvtxDomain* domain, std::string_view text, const NvtxPayload& payload = {});

  // At the end of the process: of ranges from Start() those that are open are written up to
  // `end_ns`.
  void WriteOpen(ProcessRecording& recording, int64_t end_ns);

 private:
  struct Crossing {
    schema::TrackId track;
    int64_t start_ns = 0;
    schema::StringId name;
  };
  NvtxDomain* OrDefault(NvtxDomain* domain) { return domain == nullptr ? &default_ : domain; }

  NvtxDomain default_;
  NvtxString unrecorded_;
  Mutex mutex_;
  std::map<std::string, NvtxDomain, std::less<>> domains_ GUARDED_BY(mutex_);
  std::map<std::string, NvtxString, std::less<>> strings_ GUARDED_BY(mutex_);
  std::unordered_map<uint64_t, Crossing> crossing_ GUARDED_BY(mutex_);
  uint64_t last_id_ GUARDED_BY(mutex_) = 0;
};

// Its own thread takes it for every range, hardly ever in competition: one exchange.
class SHARDSCOPE_ATTRIBUTE(capability("latch")) RangeLatch {
 public:
  void lock() ACQUIRE() {
    while (taken_.test_and_set(std::memory_order_acquire)) std::this_thread::yield();
  }
  void unlock() RELEASE() { taken_.clear(std::memory_order_release); }

 private:
  std::atomic_flag taken_;
};

class SHARDSCOPE_ATTRIBUTE(scoped_lockable) RangeLatchLock {
 public:
  explicit RangeLatchLock(RangeLatch& latch) ACQUIRE(latch) : latch_(latch) { latch_.lock(); }
  ~RangeLatchLock() RELEASE() { latch_.unlock(); }
  RangeLatchLock(const RangeLatchLock&) = delete;
  RangeLatchLock& operator=(const RangeLatchLock&) = delete;

 private:
  RangeLatch& latch_;
};

struct OpenRange {
  const NvtxDomain* domain = nullptr;
  int64_t start_ns = 0;
  schema::StringId name;
};

// What one thread of the program has open of pushed ranges, and what it keeps of
// them.
//
// Threads: its own, and the one that ends the recording. States of all threads are in one list,
// whose lock is taken when a thread begins or ends to use NVTX and at the end of the process.
class ThreadRanges {
 public:
  // The calling thread's. Not in a forked child, whose locks may be held for ever.
  static ThreadRanges& Mine(ProcessRecording& recording);
  // At the end of the process: ranges that are still open are written up to `end_ns`.
  static void WriteOpenOfAll(ProcessRecording& recording, int64_t end_ns);

  RangeLatch latch;
  std::vector<OpenRange> open GUARDED_BY(latch);  // outermost first

  const schema::TrackId track;  // this thread's
  schema::StringId NameOf(ProcessRecording& recording, const NvtxDomain& domain,
                          std::string_view text, std::string_view suffix);
  schema::TrackId CrossingTrack(ProcessRecording& recording);

 private:
  explicit ThreadRanges(schema::TrackId thread_track) : track(thread_track) {}
  // The thread ends.
  static void End(void* mine);
  void WriteOpen(ProcessRecording& recording, int64_t end_ns);

  struct TextHash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::unordered_map<std::string, schema::StringId, TextHash, std::equal_to<>> names_;
  std::string text_;  // reused, so that a known name costs no allocation
  schema::TrackId crossing_track_;
};

}  // namespace shardscope::inject
