#include "trace/record/cupti/session.h"

#include <cupti_driver_cbid.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <string_view>
#include <system_error>
#include <utility>

#include "trace/base/mutex.h"
#include "trace/base/process.h"
#include "trace/base/time.h"
#include "trace/record/cupti/decode.h"

namespace shardscope::cupti {
namespace {

// Fixed in 13.0 Update 1: before, the injection of NVTX crashes and synchronisation records are
// missing.
constexpr uint32_t kFirstGoodVersion = 130001;
// What CUPTI may fill while others are decoded.
constexpr size_t kSpareBytes = 16UL << 20;

std::atomic<Session*> the_session = nullptr;
std::atomic<bool> had_session = false;

uint64_t Timestamp() { return static_cast<uint64_t>(MonotonicNs()); }

// Counted when no buffer comes: enough to see that there are any.
constexpr std::array kCountedLaunches = {CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
                                         CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx};

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
  if (status.ok()) session->device_bytes_ = session->AskDeviceBytes();
  if (!status.ok()) return status;  // the destructor takes back what was switched on
  try {
    session->thread_ = std::thread([raw = session.get()] { raw->DecodeThread(); });
  } catch (const std::system_error& error) {
    return Status::Error(
        fmt::format("CUPTI's records cannot be taken: there is no thread for them: {}",
                    error.code().message()));
  }
  return session;
}

Session::Session(const CuptiFunctions& functions, const SessionOptions& options, OnBatch on_batch)
    : functions_(functions),
      options_(options),
      on_batch_(std::move(on_batch)),
      pool_(options.buffer_bytes, options.max_buffers),
      sources_(functions_),
      silence_(options.silence_ns) {
  pool_.Refill(SpareBuffers());
}

size_t Session::SpareBuffers() const {
  return std::max<size_t>(1, kSpareBytes / options_.buffer_bytes);
}

Session::~Session() {
  Stop();
  the_session = nullptr;
}

Status Session::OpenDump() {
  if (options_.dump_path.empty()) return Status::Ok();
  uint32_t version = 0;
  functions_.GetVersion(&version);
  SHARDSCOPE_ASSIGN_OR_RETURN(
      std::unique_ptr<BufferDump> dump,
      BufferDump::Create(options_.dump_path, version, options_.dump_max_bytes));
  dump_ = std::move(dump);
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
  return Needed(result, "cuptiSubscribe");
}

// Without a driver every call gives CUPTI_ERROR_UNKNOWN, so no code is told from another.
Status Session::Needed(CUptiResult result, const char* call) const {
  if (result == CUPTI_SUCCESS) return Status::Ok();
  return Status::Error("CUPTI is not to be had: " + Refusal(functions_, call, result));
}

void Session::Wanted(CUptiResult result, const char* what, const char* call) {
  if (result == CUPTI_SUCCESS) return;
  missing_.push_back(fmt::format("{}: {}", what, Refusal(functions_, call, result)));
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
  Wanted(functions_.EnableDomain(1, subscriber_, CUPTI_CB_DOMAIN_STATE),
         "CUPTI would not say if it switched itself off", "cuptiEnableDomain(STATE)");
  SHARDSCOPE_RETURN_IF_ERROR(Needed(
      functions_.SetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM), "cuptiSetThreadIdType"));
  // CUPTI's own clock is CLOCK_REALTIME, which may be stepped.
  SHARDSCOPE_RETURN_IF_ERROR(Needed(functions_.ActivityRegisterTimestampCallback(&Timestamp),
                                    "cuptiActivityRegisterTimestampCallback"));
  uint8_t zeroed = 1;
  size_t size = sizeof zeroed;
  Wanted(functions_.ActivitySetAttribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &size,
                                         &zeroed),
         "CUPTI zeroes its buffers itself, on the program's threads",
         "cuptiActivitySetAttribute(ZEROED_OUT_ACTIVITY_BUFFER)");
  return Needed(
      functions_.ActivityRegisterCallbacks(&Session::BufferRequested, &Session::BufferCompleted),
      "cuptiActivityRegisterCallbacks");
}

// CUPTI's buffers on the device are no memory that the driver tells of, and count for whoever uses
// the context (CUPTI's documentation of CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE).
int64_t Session::AskDeviceBytes() const {
  const auto ask = [this]<typename T>(CUpti_ActivityAttribute attribute, T* value) {
    size_t size = sizeof *value;
    return functions_.ActivityGetAttribute(attribute, &size, value) == CUPTI_SUCCESS;
  };
  uint8_t is_on_host = 0;
  ask(CUPTI_ACTIVITY_ATTR_MEM_ALLOCATION_TYPE_HOST_PINNED, &is_on_host);
  size_t bytes = 0;
  size_t buffers = 0;
  const bool known = ask(CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE, &bytes) &&
                     ask(CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_PRE_ALLOCATE_VALUE, &buffers);
  return known && is_on_host == 0 ? static_cast<int64_t>(bytes * buffers) : 0;
}

Status Session::Enable() {
  enabled_ = true;
  SHARDSCOPE_RETURN_IF_ERROR(sources_.Enable());
  missing_.insert(missing_.end(), sources_.missing().begin(), sources_.missing().end());
  if (options_.on_profiler) {
    EnableDriverCallback(CUPTI_DRIVER_TRACE_CBID_cuProfilerStart, true);
    EnableDriverCallback(CUPTI_DRIVER_TRACE_CBID_cuProfilerStop, true);
  }
  return Status::Ok();
}

void Session::FlushSoon() {
  {
    const MutexLock lock(mutex_);
    flush_soon_ = true;
  }
  wake_.notify_all();
}

void Session::SetRecording(bool on) {
  if (fatal_ || recording_.exchange(on) == on) return;
  on ? sources_.Resume() : sources_.Pause();
}

void Session::Stop() {
  if (thread_.joinable()) {
    {
      const MutexLock lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }
  if (enabled_ && fatal_) {
    DecodeFull();  // CUPTI has finalised itself: only what it handed out before
    enabled_ = false;
  }
  if (enabled_) {
    functions_.ActivityFlushAll(0);
    DecodeFull();
    sources_.Disable();
    // Forced once, at the end: it also hands out what still runs, which then never comes again.
    functions_.ActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    DecodeFull();
    enabled_ = false;
  }
  if (subscriber_ != nullptr && !fatal_) {
    // No cuptiFinalize: a process that called it can never be traced again.
    functions_.Unsubscribe(subscriber_);
    subscriber_ = nullptr;
  }
}

SessionCounts Session::counts() const {
  SessionCounts counts;
  counts.decoded = counts_.decoded.load();
  counts.dropped = counts_.dropped.load();
  counts.buffers_refused = pool_.times_empty();
  counts.damaged_buffers = counts_.damaged_buffers.load();
  counts.fatal = fatal_.load();
  counts.failed = failed_.load();
  counts.silent = silent_.load();
  return counts;
}

void Session::DecodeThread() {
  ReserveForExceptions();
  try {
    DecodeUntilStopped();
  } catch (const std::exception&) {
    failed_ = true;  // out of memory: CUPTI drops what comes once its buffers are full
  }
}

void Session::DecodeUntilStopped() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    wake_.wait_for(lock, std::chrono::nanoseconds(options_.flush_period_ns),
                   [this]() REQUIRES(mutex_) { return stopping_ || flush_soon_; });
    if (stopping_) break;
    flush_soon_ = false;
    lock.unlock();
    if (!fatal_) functions_.ActivityFlushAll(0);
    // Joining over time goes on while no records come.
    if (!DecodeFull()) on_batch_({}, names_);
    WatchSilence();
    lock.lock();
  }
}

bool Session::DecodeFull() {
  const std::vector<BufferPool::Full> buffers = pool_.TakeFull();
  pool_.Refill(SpareBuffers());
  for (const BufferPool::Full& full : buffers) {
    Batch batch;
    if (dump_ != nullptr) dump_->AddBuffer(full.data, full.valid_bytes);
    const DecodeResult done = Decode(functions_, full.data, full.valid_bytes, names_, batch);
    counts_.decoded += done.decoded;
    counts_.damaged_buffers += done.damaged ? 1 : 0;
    for (void* const data : done.overhead_data) std::free(data);
    on_batch_(std::move(batch), names_);
  }
  // Takes time, which nothing that waits for the records need spend.
  for (const BufferPool::Full& full : buffers) pool_.Recycle(full);
  pool_.Refill(SpareBuffers());
  size_t dropped = 0;
  if (!fatal_ && functions_.ActivityGetNumDroppedRecords(nullptr, 0, &dropped) == CUPTI_SUCCESS) {
    counts_.dropped += static_cast<int64_t>(dropped);
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
  if (!recording_ || fatal_) return;  // no buffer is wanted, or will come
  const bool counted = silence_.counts_launches();
  silence_.Look(MonotonicNs(), buffers_.load(), launches_.load());
  if (silence_.is_silent()) silent_ = true;
  if (silence_.counts_launches() == counted) return;
  for (const CUpti_CallbackId call : kCountedLaunches) EnableDriverCallback(call, !counted);
}

}  // namespace shardscope::cupti
