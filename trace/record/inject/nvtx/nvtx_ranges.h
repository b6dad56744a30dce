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
#include <unordered_map>

#include "trace/base/mutex.h"
#include "trace/record/inject/nvtx/payload.h"

namespace shardscope::inject {

class ProcessRecording;

// Of NCCL's ranges too: a range is the time of the call on the host, not of what it puts on the
// GPU.
inline constexpr std::string_view kNvtxCategory = "host";

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

  // What NVTX itself says where no tool listens (NVTX_NO_PUSH_POP_TRACKING).
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
    int64_t track = 0;
    int64_t start_ns = 0;
    int64_t name = 0;
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

}  // namespace shardscope::inject
