// ProcessRecording: what is recorded of the foreign process that this library was loaded into: its
// one trace file, the tracks of its threads, the names of its spans, its end.
//
// It lives in a foreign program, so it changes nothing there: no signal handler,
// no thread that takes signals, no descriptor that survives exec, no exception (guarded.h). A
// forked child is never recorded: it shares the parent's memory, but not its writer thread. A
// killed process loses what came within the last batch (25 ms); the file is finished when it is
// opened.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "trace/base/mutex.h"
#include "trace/base/status.h"
#include "trace/base/words.h"
#include "trace/record/recorder.h"

namespace shardscope::inject {

// What the launcher passes in the environment.
inline constexpr const char* kRunVariable = "SHARDSCOPE_RECORD_RUN";      // absolute folder
inline constexpr const char* kUntilVariable = "SHARDSCOPE_RECORD_UNTIL";  // CLOCK_MONOTONIC ns

// More names than this become kOtherNames: names with numbers in them must not fill the memory of
// the program.
inline constexpr size_t kMaxNames = 1 << 16;
inline constexpr std::string_view kOtherNames = "(further names)";

class ProcessRecording {
 public:
  // Null: nothing was opened, this is a forked child, the process is ending, or its recording
  // failed. Any thread, any time: one load.
  static ProcessRecording* Active() { return active_.load(std::memory_order_acquire); }

  // Likewise null once the time to record is over, if it was limited, as TakesAt() has noticed.
  static ProcessRecording* Taking() { return taking_.load(std::memory_order_acquire); }
  // Whether there is a file to be finished, also one that takes nothing more.
  static bool IsOpen() { return opened_.load(std::memory_order_acquire) != nullptr; }

  // The recording of this process, opened by the first caller. Null: none was asked for
  // (kRunVariable), its time is over, or it cannot be written; then it is not tried again.
  static ProcessRecording* Open();

  // Whether the time to record lasts at `now_ns`; if not Taking() is null from now on.
  bool TakesAt(int64_t now_ns) {
    if (now_ns < until_ns_) return true;
    taking_.store(nullptr);
    return false;
  }

  // A source began: it gets its capability row, once.
  void SourceOn(std::string_view source);
  // A capability row: how far the source is there, and why. On disk when this returns.
  void State(std::string_view source, words::CapabilityStatus status, std::string_view reason);
  // Likewise of a status that another library of the process gives as its word.
  void State(std::string_view source, std::string_view status, std::string_view reason);
  // As State(), if this process is recorded, now or later: this opens no recording.
  static void StateIfRecorded(std::string_view source, std::string_view status,
                              std::string_view reason);
  // Records that a source itself lost; recorded at the end of the process.
  void CountLost(std::string_view source, std::string_view reason, int64_t records);

  // A track of this process; `name` is prefixed with program and process id.
  schema::TrackId AddTrack(std::string_view name, words::TrackRole role);
  // The calling thread's own.
  schema::TrackId ThreadTrack();
  // That of a thread of this process (gettid).
  schema::TrackId TrackOf(uint32_t thread);
  schema::StringId Name(std::string_view text);

  // Ignored if it starts after the recording's end.
  void Span(schema::TrackId track, int64_t start_ns, int64_t end_ns, schema::StringId name,
            words::SpanCategory category);

  // The same of a range whose end was not seen: its name has that.
  void SpanNotEnded(schema::TrackId track, int64_t start_ns, int64_t until_ns,
                    schema::StringId name, words::SpanCategory category);

  // Ignored as Span() ignores.
  void Counter(schema::TrackId track, int64_t time_ns, schema::StringId name, double value);
  // An allocation, or with negative `bytes` a release.
  void Memory(std::string_view device, int64_t time_ns, int64_t bytes);

  // What NCCL put on a stream, with its span. Ignored as Span() ignores.
  void Nccl(record::NcclRecord record, int64_t end_ns);

  // The program switches recording on and off (cudaProfilerStart, cudaProfilerStop): what begins
  // while it is off is not recorded. Any thread.
  void Switch(bool on, int64_t time_ns);
  bool IsRecorded(int64_t start_ns) const;

  // For sources that make rows of their own: they ask IsRecorded().
  record::Recorder& recorder() { return *recorder_; }
  int64_t rank() const { return rank_; }
  int64_t until_ns() const { return until_ns_; }
  // When the recording ends, if it does so now.
  int64_t EndNs() const;

  // From when on a caching allocator reports its events (allocator/allocator_rows.h): what the
  // driver hands out for it is no memory of its own any more. INT64_MAX: never.
  void SetAllocatorSince(int64_t time_ns) { allocator_since_ns_ = time_ns; }
  int64_t allocator_since_ns() const { return allocator_since_ns_; }

  // Called once before the file is finished; for a source with a thread or rows of its own.
  using AtEnd = void (*)(ProcessRecording& recording);
  void AddAtEnd(AtEnd at_end);

  // Ends the recording and finishes the file. The process calls it at exit; nothing can be recorded
  // afterwards.
  static void Finish();

  // Nothing more is recorded of this process, and its trace says why, if that can be written.
  static void Fail(std::string_view reason) noexcept;

 private:
  ProcessRecording(std::unique_ptr<record::Recorder> recorder, int64_t until_ns);
  static void OpenOnce();
  static Status Create();
  void WriteEnd();
  void SayFailed(std::string_view what, std::string_view reason) noexcept;

  static std::atomic<ProcessRecording*> active_, taking_;
  // As active_, but not null after a failure: the file is still to be finished.
  static std::atomic<ProcessRecording*> opened_;
  // Then: it is never destroyed, as threads may come until the process is gone.
  static std::atomic<ProcessRecording*> ended_;

  const std::unique_ptr<record::Recorder> recorder_;
  const int64_t until_ns_;
  const int64_t opened_ns_;
  const int64_t owner_;  // process id
  const int64_t rank_;
  const std::string process_;  // "python3 1234"
  std::atomic<int64_t> allocator_since_ns_ = INT64_MAX;

  // Times at which recording went off, on, off, ...; the further ones are not followed, and
  // counted.
  static constexpr size_t kMaxSwitches = 1 << 10;
  std::array<std::atomic<int64_t>, kMaxSwitches> switches_ = {};
  std::atomic<size_t> num_switches_ = 0;

  Mutex mutex_;
  std::vector<AtEnd> at_end_ GUARDED_BY(mutex_);
  std::set<std::string, std::less<>> sources_on_ GUARDED_BY(mutex_);
  std::map<std::string, schema::StringId, std::less<>> names_ GUARDED_BY(mutex_);
  std::unordered_map<schema::StringId, std::string_view> texts_
      GUARDED_BY(mutex_);  // of those names, whose nodes stay
  std::map<std::pair<std::string, std::string>, int64_t> lost_ GUARDED_BY(mutex_);
  int64_t next_position_ GUARDED_BY(mutex_) = 0;
  std::map<uint32_t, schema::TrackId> thread_tracks_ GUARDED_BY(mutex_);
};

}  // namespace shardscope::inject
