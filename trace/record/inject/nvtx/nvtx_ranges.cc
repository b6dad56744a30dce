#include "trace/record/inject/nvtx/nvtx_ranges.h"

#include <pthread.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "trace/base/time.h"
#include "trace/record/inject/process_recording.h"

namespace shardscope::inject {
namespace {

constexpr size_t kMaxOpen = 1 << 12;    // ranges that a thread, or the process, leaves open
constexpr size_t kMaxCached = 1 << 12;  // names that a thread remembers
constexpr size_t kMaxNameBytes = 1 << 10;

struct TextHash : std::hash<std::string_view> {
  using is_transparent = void;
};

struct OpenRange {
  const NvtxDomain* domain = nullptr;
  int64_t start_ns = 0;
  int64_t name = 0;
};

// On the heap behind a plain pointer: destructors of thread_local objects run before those of the
// program, which may still use NVTX.
struct ThreadState {
  std::vector<OpenRange> open;
  std::unordered_map<std::string, int64_t, TextHash, std::equal_to<>> names;
  std::string text;  // reused, so that a known name costs no allocation
  int64_t crossing_track = 0;
};
thread_local ThreadState* thread_state = nullptr;

// None: the program has used up all keys; then the state of a thread that ends stays.
std::optional<pthread_key_t> MakeKey() {
  pthread_key_t key = 0;
  const int failed = pthread_key_create(&key, [](void* state) {
    thread_state = nullptr;
    delete static_cast<ThreadState*>(state);
  });
  return failed != 0 ? std::optional<pthread_key_t>() : key;
}

ThreadState& MyState() {
  if (thread_state == nullptr) {
    static const std::optional<pthread_key_t> key = MakeKey();
    thread_state = new ThreadState;
    if (key) pthread_setspecific(*key, thread_state);
  }
  return *thread_state;
}

// PyTorch's emit_nvtx counts inside the names ("aten::mm, seq = 12, op_id = 34"): without the
// counts one op is one name.
std::string_view WithoutCounts(std::string_view text) {
  text = text.substr(0, std::min(text.find(", seq = "), text.find(", op_id = ")));
  return text.substr(0, kMaxNameBytes);
}

int64_t NameOf(ProcessRecording& recording, ThreadState& state, const NvtxDomain& domain,
               std::string_view text) {
  state.text = domain.name;
  if (!domain.name.empty()) state.text += ": ";
  state.text += WithoutCounts(text);
  const auto known = state.names.find(std::string_view(state.text));
  if (known != state.names.end()) return known->second;
  if (state.names.size() >= kMaxCached) state.names.clear();
  const int64_t name = recording.Name(state.text);
  state.names.emplace(state.text, name);
  return name;
}

// Also NCCL's: a range is the time of the call on the host, not of what it puts on the GPU.
constexpr std::string_view kCategory = "host";

void CountUnrecorded(ProcessRecording& recording) {
  recording.CountLost("nvtx", "ranges: too many are open", 1);
}

}  // namespace

// A forked child has no thread that could give back a lock which was held at the fork: here, and
// wherever else a lock is taken, it does not come so far.
NvtxDomain* NvtxRanges::Domain(std::string_view name) {
  if (ProcessRecording::Active() == nullptr) return &default_;
  const std::lock_guard lock(mutex_);
  return &domains_.try_emplace(std::string(name), NvtxDomain{std::string(name)}).first->second;
}

NvtxString* NvtxRanges::Register(std::string_view text) {
  if (ProcessRecording::Active() == nullptr) return &unrecorded_;
  const std::lock_guard lock(mutex_);
  return &strings_.try_emplace(std::string(text), NvtxString{std::string(text)}).first->second;
}

int NvtxRanges::Push(NvtxDomain* domain, std::string_view text) {
  ProcessRecording* recording = ProcessRecording::Active();
  if (recording == nullptr) return 0;
  domain = OrDefault(domain);
  ThreadState& state = MyState();
  const auto level = std::count_if(state.open.begin(), state.open.end(),
                                   [&](const OpenRange& range) { return range.domain == domain; });
  if (state.open.size() >= kMaxOpen) {
    // The pops that belong to these end outer ranges early: the trace says that it has holes.
    CountUnrecorded(*recording);
    return static_cast<int>(level);
  }
  const int64_t name = NameOf(*recording, state, *domain, text);
  state.open.push_back({domain, MonotonicNs(), name});
  return static_cast<int>(level);
}

int NvtxRanges::Pop(NvtxDomain* domain) {
  ProcessRecording* recording = ProcessRecording::Active();
  if (recording == nullptr) return 0;
  const int64_t end_ns = MonotonicNs();
  domain = OrDefault(domain);
  std::vector<OpenRange>& open = MyState().open;
  const auto last = std::find_if(open.rbegin(), open.rend(),
                                 [&](const OpenRange& range) { return range.domain == domain; });
  if (last == open.rend()) return -1;
  recording->Span(recording->ThreadTrack(), last->start_ns, end_ns, last->name, kCategory);
  const auto level = std::count_if(last + 1, open.rend(),
                                   [&](const OpenRange& range) { return range.domain == domain; });
  open.erase(std::next(last).base());
  return static_cast<int>(level);
}

uint64_t NvtxRanges::Start(NvtxDomain* domain, std::string_view text) {
  ProcessRecording* recording = ProcessRecording::Active();
  if (recording == nullptr) return 0;
  domain = OrDefault(domain);
  ThreadState& state = MyState();
  // A track of their own: they may cross the ranges of the thread.
  if (state.crossing_track == 0) state.crossing_track = recording->AddTrack("ranges", "host");
  Crossing range{state.crossing_track, 0, NameOf(*recording, state, *domain, text)};
  const std::lock_guard lock(mutex_);
  if (crossing_.size() >= kMaxOpen) {
    CountUnrecorded(*recording);
    return 0;
  }
  range.start_ns = MonotonicNs();
  crossing_.emplace(++last_id_, range);
  return last_id_;
}

void NvtxRanges::End(uint64_t id) {
  ProcessRecording* recording = ProcessRecording::Active();
  if (recording == nullptr) return;
  const int64_t end_ns = MonotonicNs();
  Crossing range;
  {
    const std::lock_guard lock(mutex_);
    const auto found = crossing_.find(id);
    if (found == crossing_.end()) return;
    range = found->second;
    crossing_.erase(found);
  }
  recording->Span(range.track, range.start_ns, end_ns, range.name, kCategory);
}

void NvtxRanges::Mark(NvtxDomain* domain, std::string_view text) {
  ProcessRecording* recording = ProcessRecording::Active();
  if (recording == nullptr) return;
  domain = OrDefault(domain);
  const int64_t time_ns = MonotonicNs();
  recording->Span(recording->ThreadTrack(), time_ns, time_ns,
                  NameOf(*recording, MyState(), *domain, text), kCategory);
}

}  // namespace shardscope::inject
