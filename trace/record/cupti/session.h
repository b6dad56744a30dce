// Session: CUPTI switched on for this process, from before the first CUDA context to the end.
//
// There is one a process and it is never started twice: CUPTI 13.0 confuses correlation ids in a
// second session, and its buffer callbacks carry no pointer to their owner. It can pause.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "trace/base/mutex.h"
#include "trace/base/status.h"
#include "trace/record/cupti/activity.h"
#include "trace/record/cupti/buffer_pool.h"
#include "trace/record/cupti/dump.h"
#include "trace/record/cupti/functions.h"
#include "trace/record/cupti/names.h"
#include "trace/record/cupti/sources.h"

namespace shardscope::cupti {

// Notices that another tool took CUPTI's buffers over. PyTorch's profiler can
// register callbacks of its own over ours, without an error here: then launches go on and no buffer
// comes.
//
// Counting launches costs a call of ours in each, so it is asked for only when no buffer has come
// for a while. One thread.
class SilenceWatch {
 public:
  explicit SilenceWatch(int64_t silence_ns) : silence_ns_(silence_ns) {}

  // With the numbers so far: of buffers that CUPTI asked for or gave back, and of launches counted.
  // Called once a while; before the first call there was nothing.
  void Look(int64_t now_ns, int64_t buffers, int64_t launches) {
    if (!started_ || buffers != buffers_) {
      started_ = true;
      buffers_ = buffers;
      last_buffer_ns_ = now_ns;
      counts_launches_ = is_silent_ = false;
      first_launch_ns_ = 0;
      return;
    }
    if (is_silent_) return;
    if (counts_launches_ && launches > launches_ && first_launch_ns_ == 0)
      first_launch_ns_ = now_ns;
    if (first_launch_ns_ > 0 && now_ns - first_launch_ns_ >= silence_ns_) {
      is_silent_ = true;
      counts_launches_ = false;
    } else if (!counts_launches_ && now_ns - last_buffer_ns_ >= silence_ns_) {
      counts_launches_ = true;
      launches_ = launches;
    }
  }

  // Whether launches are to be counted now.
  bool counts_launches() const { return counts_launches_; }
  // Launches went on for the whole time without a buffer. Ends with the next buffer.
  bool is_silent() const { return is_silent_; }

 private:
  const int64_t silence_ns_;
  bool started_ = false;
  int64_t buffers_ = 0;
  int64_t launches_ = 0;  // when counting began
  int64_t last_buffer_ns_ = 0;
  int64_t first_launch_ns_ = 0;  // seen while counting; 0: none
  bool counts_launches_ = false;
  bool is_silent_ = false;
};

// "off": no session in this process; to measure what CUPTI costs, or to leave it to another tool.
inline constexpr const char* kSwitchVariable = "SHARDSCOPE_CUPTI";

struct SessionOptions {
  size_t buffer_bytes = 2UL << 20;
  size_t max_buffers = 64;
  int64_t flush_period_ns = 100'000'000;              // how often completed records are asked for
  std::string dump_path = DumpPathFromEnvironment();  // where raw buffers go too; empty: nowhere
  int64_t dump_max_bytes = 15L << 20;
  int64_t silence_ns = 2'000'000'000;  // SilenceWatch
  // The program called cudaProfilerStart (true) or cudaProfilerStop, on its thread; null: not
  // asked.
  std::function<void(bool on, int64_t time_ns)> on_profiler;
};

struct SessionCounts {
  int64_t decoded = 0;          // records
  int64_t dropped = 0;          // records that CUPTI could not put anywhere
  int64_t buffers_refused = 0;  // times that no buffer was free
  int64_t damaged_buffers = 0;  // whose rest could not be read
  bool fatal = false;           // CUPTI met an error and switched itself off
  bool failed = false;          // an error of ours: what came afterwards is lost
  bool silent = false;          // once at least: launches went on, but no buffer came
};

// Owner: the recorder of a process. Threads: Start and Stop on one; batches come on the decode
// thread, which also asks CUPTI for them.
class Session {
 public:
  // Called with each decoded batch, on the decode thread; `names` is theirs and lives as long as
  // the session. An empty batch when none came for a flush period.
  using OnBatch = std::function<void(Batch batch, const Names& names)>;

  // Subscribes and enables everything. Error: CUPTI refuses what is needed (no driver, another tool
  // holds it: the message names it, no privilege, ...), or this process has had its session.
  static Result<std::unique_ptr<Session>> Start(const CuptiFunctions& functions,
                                                const SessionOptions& options, OnBatch on_batch);
  ~Session();

  // Asks CUPTI for its completed records now, not only with the next period. Any thread.
  void FlushSoon();

  // Switches records of the GPU's work and of calls off or on; memory of the driver is told
  // throughout. To be called where nothing is under way: the devices are synchronised and no thread
  // calls CUDA, in no process that this one's collectives wait for.
  void SetRecording(bool on);

  // What this driver or CUPTI refuses, one sentence each: the rest is recorded.
  const std::vector<std::string>& missing() const { return missing_; }

  // What CUPTI takes of a GPU's memory for its own records when a context is made, by its
  // attributes: it may take more later. 0: nothing, or not known.
  int64_t device_bytes() const { return device_bytes_; }

  // Takes in all that CUPTI has, then switches it off. The caller has synchronised its devices:
  // work that still runs is reported without its end. Once.
  void Stop();

  SessionCounts counts() const;

  // CUPTI's callbacks; public because they are C functions without a pointer to their owner.
  static void BufferRequested(uint8_t** buffer, size_t* size, size_t* max_records);
  static void BufferCompleted(CUcontext context, uint32_t stream, uint8_t* buffer, size_t size,
                              size_t valid_size);
  static void OnCallback(void* session, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                         const void* data);

 private:
  Session(const CuptiFunctions& functions, const SessionOptions& options, OnBatch on_batch);

  Status OpenDump();
  Status Subscribe();
  Status Needed(CUptiResult result, const char* call) const;
  void Wanted(CUptiResult result, const char* what, const char* call);
  Status Configure();
  Status Enable();
  int64_t AskDeviceBytes() const;
  void DecodeThread();
  void DecodeUntilStopped();
  // Decode thread, or Stop() after it has ended.
  // Whether there was a buffer.
  bool DecodeFull();
  size_t SpareBuffers() const;
  // Decode thread.
  void WatchSilence();
  void EnableDriverCallback(CUpti_CallbackId call, bool on);

  const CuptiFunctions functions_;
  const SessionOptions options_;
  const OnBatch on_batch_;
  BufferPool pool_;
  std::unique_ptr<BufferDump> dump_;  // as a rule null
  Names names_;
  CUpti_SubscriberHandle subscriber_ = nullptr;
  bool enabled_ = false;
  std::vector<std::string> missing_;  // constant once started
  int64_t device_bytes_ = 0;          // constant once started

  Sources sources_;

  // As SessionCounts has them.
  struct Counts {
    std::atomic<int64_t> decoded = 0, dropped = 0, damaged_buffers = 0;
  };
  Counts counts_;
  std::atomic<int64_t> buffers_ = 0;   // asked for and given back, both
  std::atomic<int64_t> launches_ = 0;  // while they are counted
  std::atomic<bool> fatal_ = false, failed_ = false, silent_ = false;
  SilenceWatch silence_;                // decode thread
  std::atomic<bool> recording_ = true;  // not paused

  Mutex mutex_;  // no CUPTI call is made under it
  CondVar wake_;
  bool stopping_ GUARDED_BY(mutex_) = false;
  bool flush_soon_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace shardscope::cupti
