#include "trace/record/cupti/session.h"

#include <cupti_driver_cbid.h>
#include <cupti_runtime_cbid.h>
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "trace/base/time.h"
#include "trace/record/cupti/decode.h"

namespace shardscope::cupti {
namespace {

// Fixed in 13.0 Update 1: before, the injection of NVTX crashes and synchronisation records are
// missing.
constexpr uint32_t kFirstGoodVersion = 130001;
constexpr size_t kSpareBuffers = 8;

std::atomic<Session*> the_session = nullptr;
std::atomic<bool> had_session = false;

uint64_t Timestamp() { return static_cast<uint64_t>(MonotonicNs()); }

// CONCURRENT_KERNEL, never KERNEL, which would make kernels wait for each other.
constexpr std::array kKinds = {
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
    CUPTI_ACTIVITY_KIND_MEMCPY2,           CUPTI_ACTIVITY_KIND_MEMSET,
    CUPTI_ACTIVITY_KIND_SYNCHRONIZATION,   CUPTI_ACTIVITY_KIND_CUDA_EVENT,
    CUPTI_ACTIVITY_KIND_MEMORY2,           CUPTI_ACTIVITY_KIND_OVERHEAD,
};
// Those that existed before are told as well.
constexpr std::array kDumpedKinds = {CUPTI_ACTIVITY_KIND_DEVICE, CUPTI_ACTIVITY_KIND_CONTEXT,
                                     CUPTI_ACTIVITY_KIND_STREAM};

// Calls that put work on a stream, order streams or wait. The whole kinds would also record every
// cudaGetDevice. nvcc 13 compiles <<<>>> to __cudaLaunchKernel, which older lists lack.
constexpr std::array kRuntimeCalls = {
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_ptsz_v7000,
    CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_v13000,
    CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_ptsz_v13000,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_v11060,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_ptsz_v11060,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchCooperativeKernel_v9000,
    CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchHostFunc_v10000,
    CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyBatchAsync_v13000,
    CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaMalloc_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaFree_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaMallocAsync_v11020,
    CUPTI_RUNTIME_TRACE_CBID_cudaFreeAsync_v11020,
    CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaEventRecord_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaEventRecordWithFlags_v11010,
    CUPTI_RUNTIME_TRACE_CBID_cudaEventSynchronize_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaStreamWaitEvent_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaDeviceSynchronize_v3020,
};
// NCCL launches with the driver's cuLaunchKernelEx.
constexpr std::array kDriverCalls = {
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz, CUPTI_DRIVER_TRACE_CBID_cuMemCreate,
    CUPTI_DRIVER_TRACE_CBID_cuMemMap};

// Counted when no buffer comes: enough to see that there are any.
constexpr std::array kCountedLaunches = {CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
                                         CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx};

// Keeps the first of several results that is an error. Without a driver every call gives
// CUPTI_ERROR_UNKNOWN, so no code is told from another.
class FirstError {
 public:
  explicit FirstError(const CuptiFunctions& functions) : functions_(functions) {}

  void operator()(CUptiResult result, const char* call) {
    if (result == CUPTI_SUCCESS || !status_.ok()) return;
    const char* text = nullptr;
    functions_.GetResultString(result, &text);
    status_ = Status::Error(fmt::format("CUPTI is not to be had: {} gave {} ({})", call,
                                        static_cast<int>(result), text == nullptr ? "?" : text));
  }
  const Status& status() const { return status_; }

 private:
  const CuptiFunctions& functions_;
  Status status_;
};

}  // namespace

Result<std::unique_ptr<Session>> Session::Start(const CuptiFunctions& functions,
                                                const SessionOptions& options, OnBatch on_batch) {
  const char* wanted = std::getenv(kSwitchVariable);
  if (wanted != nullptr && std::string_view(wanted) == "off") {
    return Status::Error(fmt::format("CUPTI is switched off by {}=off", kSwitchVariable));
  }
  if (had_session.exchange(true)) {
    return Status::Error("CUPTI: this process has had its one session");
  }
  std::unique_ptr<Session> session(new Session(functions, options, std::move(on_batch)));
  the_session = session.get();
  Status status = session->OpenDump();
  if (status.ok()) status = session->Subscribe();
  if (status.ok()) status = session->Configure();
  if (status.ok()) status = session->Enable();
  if (!status.ok()) return status;  // the destructor takes back what was switched on
  session->thread_ = std::thread([raw = session.get()] { raw->DecodeThread(); });
  return session;
}

Session::Session(const CuptiFunctions& functions, const SessionOptions& options, OnBatch on_batch)
    : functions_(functions),
      options_(options),
      on_batch_(std::move(on_batch)),
      pool_(options.buffer_bytes, options.max_buffers),
      silence_(options.silence_ns) {
  pool_.Refill(kSpareBuffers);
}

Session::~Session() {
  Stop();
  the_session = nullptr;
}

Status Session::OpenDump() {
  if (options_.dump_path.empty()) return Status::Ok();
  uint32_t version = 0;
  functions_.GetVersion(&version);
  Result<std::unique_ptr<BufferDump>> dump =
      BufferDump::Create(options_.dump_path, version, options_.dump_max_bytes);
  if (!dump.ok()) return dump.status();
  dump_ = std::move(dump).value();
  names_ = Names([this](const char* pointer) {
    dump_->AddName(pointer, pointer);
    return std::string(pointer);
  });
  return Status::Ok();
}

Status Session::Subscribe() {
  std::array<char, 128> holder = {};
  CUpti_SubscriberParams params = {};
  params.structSize = CUpti_SubscriberParams_STRUCT_SIZE;
  params.subscriberName = "shardscope";
  params.oldSubscriberName = holder.data();
  params.oldSubscriberSize = holder.size();
  const CUptiResult result =
      functions_.Subscribe(&subscriber_, &Session::OnCallback, this, &params);
  if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) {
    return Status::Error(
        fmt::format("CUPTI is held by '{}': only one tool at a time can have it; end that one",
                    holder[0] == '\0' ? "another tool" : holder.data()));
  }
  FirstError first(functions_);
  first(result, "cuptiSubscribe");
  return first.status();
}

Status Session::Configure() {
  uint32_t version = 0;
  functions_.GetVersion(&version);
  if (version < kFirstGoodVersion) {
    return Status::Error(
        fmt::format("CUPTI {} is older than 13.0 Update 1 ({}), whose fixes are needed; install "
                    "nvidia-cuda-cupti 13.0.85",
                    version, kFirstGoodVersion));
  }
  FirstError first(functions_);
  // The only notice of CUPTI switching itself off.
  first(functions_.EnableDomain(1, subscriber_, CUPTI_CB_DOMAIN_STATE), "cuptiEnableDomain");
  first(functions_.SetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM), "cuptiSetThreadIdType");
  // CUPTI's own clock is CLOCK_REALTIME, which may be stepped.
  first(functions_.ActivityRegisterTimestampCallback(&Timestamp),
        "cuptiActivityRegisterTimestampCallback");
  // Else CUPTI zeroes each buffer on the traced program's thread.
  uint8_t zeroed = 1;
  size_t size = sizeof zeroed;
  first(functions_.ActivitySetAttribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &size,
                                        &zeroed),
        "cuptiActivitySetAttribute");
  first(functions_.ActivityRegisterCallbacks(&Session::BufferRequested, &Session::BufferCompleted),
        "cuptiActivityRegisterCallbacks");
  return first.status();
}

Status Session::Enable() {
  FirstError first(functions_);
  enabled_ = true;
  for (const CUpti_CallbackId call : kRuntimeCalls) {
    first(functions_.ActivityEnableRuntimeApi(call, 1), "cuptiActivityEnableRuntimeApi");
  }
  for (const CUpti_CallbackId call : kDriverCalls) {
    first(functions_.ActivityEnableDriverApi(call, 1), "cuptiActivityEnableDriverApi");
  }
  for (const CUpti_ActivityKind kind : kKinds) {
    first(functions_.ActivityEnable(kind), "cuptiActivityEnable");
  }
  for (const CUpti_ActivityKind kind : kDumpedKinds) {
    first(functions_.ActivityEnableAndDump(kind), "cuptiActivityEnableAndDump");
  }
  // Else every poll of an event that is not done yet makes a record, and caching allocators poll.
  first(functions_.ActivityEnableAllSyncRecords(0), "cuptiActivityEnableAllSyncRecords");
  first(functions_.ActivityEnableEventTimestamps(1),
        "cuptiActivityEnableCudaEventDeviceTimestamps");
  if (options_.on_profiler && first.status().ok()) {
    EnableDriverCallback(CUPTI_DRIVER_TRACE_CBID_cuProfilerStart, true);
    EnableDriverCallback(CUPTI_DRIVER_TRACE_CBID_cuProfilerStop, true);
  }
  return first.status();
}

void Session::FlushSoon() {
  {
    const std::lock_guard lock(mutex_);
    flush_soon_ = true;
  }
  wake_.notify_all();
}

void Session::Stop() {
  if (thread_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }
  if (enabled_) {
    functions_.ActivityFlushAll(0);
    DecodeFull();
    for (const CUpti_ActivityKind kind : kKinds) functions_.ActivityDisable(kind);
    for (const CUpti_ActivityKind kind : kDumpedKinds) functions_.ActivityDisable(kind);
    for (const CUpti_CallbackId call : kRuntimeCalls) functions_.ActivityEnableRuntimeApi(call, 0);
    for (const CUpti_CallbackId call : kDriverCalls) functions_.ActivityEnableDriverApi(call, 0);
    // Forced once, at the end: it also hands out what still runs, which then never comes again.
    functions_.ActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    DecodeFull();
    enabled_ = false;
  }
  if (subscriber_ != nullptr) {
    // No cuptiFinalize: a process that called it can never be traced again.
    functions_.Unsubscribe(subscriber_);
    subscriber_ = nullptr;
  }
}

SessionCounts Session::counts() const {
  SessionCounts counts;
  counts.decoded = decoded_.load();
  counts.dropped = dropped_.load();
  counts.buffers_refused = pool_.times_empty();
  counts.damaged_buffers = damaged_.load();
  counts.discarded_buffers = discarded_.load();
  counts.fatal = fatal_.load();
  counts.silent = silent_.load();
  return counts;
}

void Session::DecodeThread() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    wake_.wait_for(lock, std::chrono::nanoseconds(options_.flush_period_ns),
                   [this] { return stopping_ || flush_soon_; });
    if (stopping_) break;
    flush_soon_ = false;
    lock.unlock();
    if (!fatal_) functions_.ActivityFlushAll(0);
    // Who joins records over time goes on while none come.
    if (!DecodeFull()) on_batch_({}, names_);
    WatchSilence();
    lock.lock();
  }
}

bool Session::DecodeFull() {
  const std::vector<BufferPool::Full> buffers = pool_.TakeFull();
  for (const BufferPool::Full& full : buffers) {
    if (discard_.load(std::memory_order_relaxed)) {
      ++discarded_;
      pool_.Recycle(full);
      continue;
    }
    Batch batch;
    if (dump_ != nullptr) dump_->AddBuffer(full.data, full.valid_bytes);
    const DecodeCounts counts = Decode(functions_, full.data, full.valid_bytes, names_, batch);
    decoded_ += counts.decoded;
    damaged_ += counts.damaged ? 1 : 0;
    pool_.Recycle(full);
    on_batch_(std::move(batch), names_);
  }
  pool_.Refill(kSpareBuffers);
  size_t dropped = 0;
  if (functions_.ActivityGetNumDroppedRecords(nullptr, 0, &dropped) == CUPTI_SUCCESS) {
    dropped_ += static_cast<int64_t>(dropped);
  }
  return !buffers.empty();
}

void Session::BufferRequested(uint8_t** buffer, size_t* size, size_t* max_records) {
  Session* session = the_session.load();
  *buffer = session == nullptr ? nullptr : session->pool_.Take();
  *size = *buffer == nullptr ? 0 : session->pool_.buffer_bytes();
  *max_records = 0;  // as many as fit
  if (session != nullptr) session->buffers_.fetch_add(1, std::memory_order_relaxed);
}

void Session::BufferCompleted(CUcontext /*context*/, uint32_t /*stream*/, uint8_t* buffer,
                              size_t /*size*/, size_t valid_size) {
  Session* session = the_session.load();
  if (session == nullptr || buffer == nullptr) return;
  session->pool_.GiveBack(buffer, valid_size);
  session->buffers_.fetch_add(1, std::memory_order_relaxed);
}

void Session::OnCallback(void* session, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                         const void* data) {
  auto* self = static_cast<Session*>(session);
  if (domain == CUPTI_CB_DOMAIN_STATE && id == CUPTI_CBID_STATE_FATAL_ERROR) self->fatal_ = true;
  if (domain != CUPTI_CB_DOMAIN_DRIVER_API || data == nullptr) return;
  const bool enters = static_cast<const CUpti_CallbackData*>(data)->callbackSite == CUPTI_API_ENTER;
  if (id == CUPTI_DRIVER_TRACE_CBID_cuProfilerStart) {
    if (!enters && self->options_.on_profiler) self->options_.on_profiler(true, MonotonicNs());
  } else if (id == CUPTI_DRIVER_TRACE_CBID_cuProfilerStop) {
    if (enters && self->options_.on_profiler) self->options_.on_profiler(false, MonotonicNs());
  } else if (enters) {
    self->launches_.fetch_add(1, std::memory_order_relaxed);
  }
}

void Session::EnableDriverCallback(CUpti_CallbackId call, bool on) {
  functions_.EnableCallback(on ? 1 : 0, subscriber_, CUPTI_CB_DOMAIN_DRIVER_API, call);
}

void Session::WatchSilence() {
  const bool counted = silence_.counts_launches();
  silence_.Look(MonotonicNs(), buffers_.load(), launches_.load());
  if (silence_.is_silent()) silent_ = true;
  if (silence_.counts_launches() == counted) return;
  for (const CUpti_CallbackId call : kCountedLaunches) EnableDriverCallback(call, !counted);
}

}  // namespace shardscope::cupti
