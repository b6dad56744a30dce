#include "trace/record/live_recorder.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <system_error>

#include "trace/base/mutex.h"
#include "trace/base/process.h"
#include "trace/base/reasons.h"
#include "trace/base/time.h"
#include "trace/base/trace_keys.h"
#include "trace/base/words.h"
#include "trace/record/nvtx.h"

namespace shardscope::record {
namespace {

using words::CapabilityStatus;

// Less than the 33 ms between two frames of the app: each of its frames has newer rows.
constexpr auto kBatchTime = std::chrono::milliseconds(25);

uint64_t NextKey() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

struct RememberedRings {
  uint64_t key = 0;
  ThreadRings* rings = nullptr;
};
thread_local RememberedRings remembered;

}  // namespace

Result<std::unique_ptr<Recorder>> Recorder::Open(const RecorderOptions& options) {
  SHARDSCOPE_ASSIGN_OR_RETURN(std::unique_ptr<BatchWriter> batches,
                              BatchWriter::Create(options.run_folder, options.max_bytes));
  auto recorder = std::make_unique<LiveRecorder>(options, std::move(batches));
  SHARDSCOPE_RETURN_IF_ERROR(recorder->Start(options));
  return std::unique_ptr<Recorder>(std::move(recorder));
}

LiveRecorder::LiveRecorder(const RecorderOptions& options, std::unique_ptr<BatchWriter> batches)
    : Recorder(TakersOf<LiveRecorder>(schema::HotRecords())),
      key_(NextKey()),
      ring_records_(options.ring_records),
      source_(options.source),
      batches_(std::move(batches)),
      path_(batches_->trace().file().LivePath()) {}

LiveRecorder::~LiveRecorder() { StopThread(); }

Status LiveRecorder::Start(const RecorderOptions& options) {
  Add(schema::MetaRow{"pid", std::to_string(getpid())});
  Add(schema::MetaRow{"started_realtime_ns", std::to_string(RealtimeNs())});
  for (const auto& [key, value] : options.meta) Add(schema::MetaRow{key, value});
  for (const auto& [key, value] : options.config) Add(schema::ConfigRow{key, value});
  if (source_ == "engine") AddEngineSources();
  AddClockPair();
  Drain();  // the rows of the start are there when Open returns
  if (const Status begun = WriterStatus(); !begun.ok()) return batches_->trace().Discard(begun);
  try {
    thread_ = std::thread([this] { WriterThread(); });
  } catch (const std::system_error& error) {
    return GiveUp(fmt::format(
        "the recorder cannot start its thread: {}; fewer ranks or processes need fewer threads",
        error.code().message()));
  }
  calls_.Begin();
  return Status::Ok();
}

// The trace holds the reason why it has nothing else.
Status LiveRecorder::GiveUp(const std::string& reason) {
  Add(schema::CapabilityRowOf(source_, CapabilityStatus::kOff, reason));
  Drain();
  (void)batches_->trace().Finish();
  return Status::Error(reason);
}

std::string_view LiveRecorder::SourceOf(size_t kind) const {
  const std::string_view own = schema::kSourceOfRecord[kind];
  return own.empty() ? source_ : own;
}

void LiveRecorder::AddEngineSources() {
  Add(schema::CapabilityRowOf("engine", CapabilityStatus::kOn));
  Add(schema::CapabilityRowOf(trace_keys::kMemorySource, CapabilityStatus::kOn));
  if (NvtxAttached()) {
    Add(schema::CapabilityRowOf("nvtx", CapabilityStatus::kOn));
  } else {
    Add(schema::CapabilityRowOf("nvtx", CapabilityStatus::kOff, reasons::kNoNvtxTool));
  }
}

int64_t LiveRecorder::AddRow(RareRow row) {
  return std::visit([this](auto* rare) { return rare_.Add(std::move(*rare)); }, row);
}

ThreadRings& LiveRecorder::MyRings() {
  if (remembered.key == key_) return *remembered.rings;
  const MutexLock lock(threads_mutex_);
  // A thread id comes again after its thread ended; the new thread takes the rings over.
  std::unique_ptr<ThreadRings>& rings = threads_[std::this_thread::get_id()];
  if (!rings) rings = std::make_unique<ThreadRings>();
  remembered = {key_, rings.get()};
  return *rings;
}

template <typename T>
void LiveRecorder::Take(const T& record) {
  const bool wanted =
      schema::RecordOf<T>::kLate ? !finished_.load(std::memory_order_relaxed) : window_.is_open();
  if (!wanted) return;
  ThreadRings& mine = MyRings();
  SpscRing<T>& ring = std::get<LazyRing<T>>(mine.rings).Make(ring_records_);
  if (!ring.TryPush(record)) {
    mine.dropped[schema::RecordOf<T>::kIndex].fetch_add(1, std::memory_order_relaxed);
    mine.lost_memory.Add(record);
  } else if (ring.WaitingAtMost() == ring.capacity() / 2) {
    calls_.Hurry();
  }
}

void LiveRecorder::MakeRoom() {
  const auto is_crowded = [](auto& lazy) {
    auto* const ring = lazy.Get();
    return ring != nullptr && ring->Waiting() > ring->capacity() / 2;
  };
  const bool must_wait =
      std::apply([&](auto&... rings) { return (... || is_crowded(rings)); }, MyRings().rings);
  if (must_wait) (void)Flush();  // its error is the writer's, and reported by it
}

std::vector<ThreadRings*> LiveRecorder::AllRings() const {
  const MutexLock lock(threads_mutex_);
  std::vector<ThreadRings*> rings;
  for (const auto& [id, thread] : threads_) rings.push_back(thread.get());
  return rings;
}

void LiveRecorder::Drain() {
  bool more = true;
  // Bounded: threads that record faster than the disk takes it must not keep a Flush waiting.
  for (size_t batch = 0; more && batch < 1000; ++batch) {
    const Status status = batches_->WriteBatch(AllRings(), &rare_, &more);
    SetError(status);
    last_failed_ = !status.ok();
    NoteLosses();
    if (!status.ok()) return;
  }
}

// The writer thread has ended.
void LiveRecorder::WriteLosses() {
  batches_->LoseRest(AllRings());
  ReportLosses();
  SetError(batches_->WriteLastRareRows(&rare_));
  NoteLosses();
}

void LiveRecorder::NoteLosses() {
  const MutexLock lock(result_mutex_);
  for (size_t kind = 0; kind < schema::kNumHotRecords; ++kind) {
    lost_by_writer_[kind] = batches_->removed()[kind] + batches_->lost_to_bound()[kind] +
                            batches_->lost_to_errors()[kind];
  }
}

void LiveRecorder::SetError(const Status& status) {
  const MutexLock lock(result_mutex_);
  if (status.ok() || !status_.ok()) return;
  status_ = Status::Error("the trace loses records: " + status.message());
}

void LiveRecorder::ReportLosses() {
  HotCounts full_rings = {};
  for (const ThreadRings* thread : AllRings()) {
    for (size_t kind = 0; kind < schema::kNumHotRecords; ++kind) {
      full_rings[kind] += thread->dropped[kind].load(std::memory_order_relaxed);
    }
  }
  const auto report = [this](const HotCounts& now, HotCounts* reported, std::string_view reason) {
    for (size_t kind = 0; kind < schema::kNumHotRecords; ++kind) {
      const int64_t dropped = now[kind] - (*reported)[kind];
      if (dropped == 0) continue;
      Add(schema::CapabilityRowOf(SourceOf(kind), CapabilityStatus::kPartial, reason, dropped));
    }
    *reported = now;
  };
  report(full_rings, &reported_.rings, reasons::kRingFull);
  report(batches_->lost_to_bound(), &reported_.bound, reasons::kNoRoom);
  report(batches_->lost_to_errors(), &reported_.errors, reasons::kWriteFailed);
}

void LiveRecorder::AddClockPair() {
  const int64_t before = MonotonicNs();
  const int64_t realtime = RealtimeNs();
  const int64_t after = MonotonicNs();
  schema::ClockRow row;
  row.monotonic_ns = before + (after - before) / 2;
  row.realtime_ns = realtime;
  row.uncertainty_ns = (after - before + 1) / 2;
  rare_.Add(row);
}

// Where the thread ends by an error (no memory) no call waits for it any more, and nothing more is
// taken; Finish() says so, on a thread that may have what this one lacks.
void LiveRecorder::WriterThread() {
  pthread_setname_np(pthread_self(), "recorder");  // as top and debuggers show it
  ReserveForExceptions();
  try {
    WriteUntilStopped();
    return;
  } catch (...) {
    thread_failed_.store(true);
    finished_.store(true);
    window_.CloseForGood();
  }
  calls_.AnswerAll();
  try {
    SetError(Status::Error("the recorder's thread has no memory"));
  } catch (const std::exception&) {
  }
}

void LiveRecorder::WriteUntilStopped() {
  int64_t next_clock_ns = MonotonicNs() + kNsPerSecond;
  while (true) {
    const WriterCalls::Call call = calls_.Wait(kBatchTime);
    // While nothing can be written, rows about that would only pile up.
    if (!last_failed_ || call.stops) ReportLosses();
    if (call.stops || MonotonicNs() >= next_clock_ns) {
      AddClockPair();
      SetError(batches_->CheckFile());
      next_clock_ns = MonotonicNs() + kNsPerSecond;
    }
    Drain();
    calls_.Answer(call);
    if (call.stops) return;
  }
}

void LiveRecorder::StopThread() {
  if (!thread_.joinable()) return;
  calls_.Stop();
  thread_.join();
}

Status LiveRecorder::Flush() {
  calls_.Flush();
  return WriterStatus();
}

Status LiveRecorder::Finish() {
  finished_.store(true);
  window_.CloseForGood();
  StopThread();
  if (thread_failed_) {
    batches_->trace().Rollback();  // which also takes memory, of which the thread had none
    Add(schema::CapabilityRowOf(source_, CapabilityStatus::kPartial, reasons::kRecorderMemory));
  }
  // What the last drain itself lost.
  ReportLosses();
  Drain();
  if (last_failed_) WriteLosses();
  const Status finished = batches_->Finish(&rare_);
  const MutexLock lock(result_mutex_);
  if (!finished.ok()) {
    if (status_.ok()) status_ = finished;
    return finished;
  }
  path_ = batches_->trace().file().FinishedPath();
  return status_;
}

std::map<std::string, int64_t> LiveRecorder::Dropped() const {
  std::map<std::string, int64_t> dropped;
  for (const ThreadRings* thread : AllRings()) {
    for (size_t kind = 0; kind < schema::kNumHotRecords; ++kind) {
      dropped[std::string(SourceOf(kind))] += thread->dropped[kind].load();
    }
  }
  const MutexLock lock(result_mutex_);
  for (size_t kind = 0; kind < schema::kNumHotRecords; ++kind) {
    dropped[std::string(SourceOf(kind))] += lost_by_writer_[kind];
  }
  return dropped;
}

Status LiveRecorder::WriterStatus() const {
  const MutexLock lock(result_mutex_);
  return status_;
}

std::string LiveRecorder::path() const {
  const MutexLock lock(result_mutex_);
  return path_;
}

}  // namespace shardscope::record
