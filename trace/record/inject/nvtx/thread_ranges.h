// ThreadRanges: what one thread of the program has open of pushed ranges, and what it remembers of
// them.
//
// Threads: its own, and the one that ends the recording. States of all threads are in one list,
// whose lock is taken when a thread begins or ends to use NVTX and at the end of the process.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "trace/base/mutex.h"

namespace shardscope::inject {

class ProcessRecording;
struct NvtxDomain;

// Its own thread takes it for every range, hardly ever with anybody else: one exchange.
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
  int64_t name = 0;
};

class ThreadRanges {
 public:
  // The calling thread's. Not in a forked child, whose locks may be held for ever.
  static ThreadRanges& Mine(ProcessRecording& recording);
  // At the end of the process: ranges that are still open are written up to `end_ns`.
  static void WriteOpenOfAll(ProcessRecording& recording, int64_t end_ns);

  RangeLatch latch;
  std::vector<OpenRange> open GUARDED_BY(latch);  // outermost first

  const int64_t track;  // this thread's
  int64_t NameOf(ProcessRecording& recording, const NvtxDomain& domain, std::string_view text,
                 std::string_view suffix);
  int64_t CrossingTrack(ProcessRecording& recording);

 private:
  explicit ThreadRanges(int64_t thread_track) : track(thread_track) {}
  // The thread ends.
  static void End(void* mine);
  void WriteOpen(ProcessRecording& recording, int64_t end_ns);

  struct TextHash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::unordered_map<std::string, int64_t, TextHash, std::equal_to<>> names_;
  std::string text_;  // reused, so that a known name costs no allocation
  int64_t crossing_track_ = 0;
};

}  // namespace shardscope::inject
