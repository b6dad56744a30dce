#include "trace/record/gpu/gpu_recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "trace/base/mutex.h"
#include "trace/base/reasons.h"
#include "trace/base/time.h"
#include "trace/base/trace_keys.h"
#include "trace/base/words.h"

namespace shardscope::gpu {
namespace {

// No thread holds the rows of others back longer than this, as by waiting in an op for ever.
constexpr int64_t kLongestHoldNs = 5 * kNsPerSecond;
constexpr auto kPoll = std::chrono::milliseconds(20);
// How often what is joined becomes rows; half as often while a rank waits for times.
constexpr int64_t kRowsPeriodNs = 20'000'000;

}  // namespace

class GpuRecorder::Impl final : public RowTarget {
 public:
  Impl(record::Recorder* recorder, GpuRecorderOptions options)
      : recorder_(recorder), options_(std::move(options)), rows_(this) {}

  void SetFlush(std::function<void()> flush) {
    const MutexLock lock(mutex_);
    flush_ = std::move(flush);
  }

  void OwnStream(cupti::StreamId stream, const StreamOwner& owner) {
    const MutexLock lock(mutex_);
    joiner_.SetOwner(stream, owner.rank);
    streams_[stream] = owner;
  }

  void OwnThread(uint32_t thread, const ThreadOwner& owner) {
    const MutexLock lock(mutex_);
    threads_[thread] = owner;
  }

  // The thread that issues must not wait while records are joined.
  void OpIssued(const cupti::HostOp& op, int32_t rank) {
    const MutexLock lock(issued_mutex_);
    issued_.push_back({op, rank});
  }

  void CalledNccl(NcclRange call) {
    const MutexLock lock(mutex_);
    nccl_calls_.push_back(std::move(call));
  }

  std::vector<cupti::OpWork> TakeOps(uint32_t thread, int64_t until_ns,
                                     const std::vector<int64_t>& ops, int64_t timeout_ns) {
    const int64_t deadline_ns = MonotonicNs() + timeout_ns;
    MutexLock lock(mutex_);
    // Another rank's thread may have issued some of them, and its records come by themselves.
    const auto is_here = [&]() REQUIRES(mutex_) {
      JoinIssued();
      return joiner_.IsComplete(thread, until_ns) && joiner_.AreComplete(ops);
    };
    ++num_waiting_;
    while (!is_here() && MonotonicNs() < deadline_ns) {
      const std::function<void()> flush = flush_;
      lock.unlock();
      if (flush) flush();
      lock.lock();
      came_.wait_for(lock, kPoll);
    }
    --num_waiting_;
    // Its streams are done: a record that has not come is lost, or comes too late for this step.
    // The next steps need not wait for it.
    if (!is_here()) joiner_.StopWaiting(thread, until_ns);
    return joiner_.Peek(ops);
  }

  void Add(const cupti::Batch& batch, const cupti::Names& names) {
    cupti::Joined joined;
    std::vector<NcclRange> nccl_calls;
    int64_t fence_ns = 0;
    bool is_put_off = false;
    {
      const MutexLock lock(mutex_);
      JoinIssued();
      joiner_.Add(batch);
      came_.notify_all();
      // Rows have time; a rank that waits for its step's times has none.
      const int64_t now_ns = MonotonicNs();
      const int64_t period_ns = num_waiting_ > 0 ? 2 * kRowsPeriodNs : kRowsPeriodNs;
      is_put_off = now_ns < last_rows_ns_ + period_ns;
      if (!is_put_off) {
        last_rows_ns_ = now_ns;
        fence_ns = Fence();
        joined = joiner_.Take(fence_ns);
        nccl_calls.swap(nccl_calls_);
      }
    }
    names_ = &names;
    for (const cupti::StreamInfo& stream : batch.streams) rows_.SetPriority(stream);
    if (is_put_off) return;
    Write(joined, names);
    rows_.WriteNccl(std::move(nccl_calls), fence_ns);
  }

  GpuCounts Finish() {
    GpuCounts counts;
    cupti::Joined joined;
    std::vector<NcclRange> nccl_calls;
    {
      const MutexLock lock(mutex_);
      JoinIssued();
      joined = joiner_.Take(cupti::kEnd);
      nccl_calls.swap(nccl_calls_);
    }
    if (names_ != nullptr) Write(joined, *names_);
    rows_.WriteNccl(std::move(nccl_calls), cupti::kEnd);
    rows_.Finish();
    counts.works = works_;
    counts.unplaced = rows_.unplaced();
    const auto count = [this](int64_t number, std::string_view reason) {
      if (number > 0)
        recorder_->Add(schema::CapabilityRowOf(trace_keys::kCuptiSource,
                                               words::CapabilityStatus::kPartial, reason, number));
    };
    count(counts.unplaced, reasons::kUnplaced);
    return counts;
  }

  record::Recorder& recorder() override { return *recorder_; }
  schema::StringId Name(std::string_view text) override { return recorder_->AddString(text); }

  StreamTrack AddStreamTrack(uint32_t device, cupti::StreamId stream) override {
    schema::TrackRow row;
    StreamTrack added;
    {
      const MutexLock lock(mutex_);
      const auto owner = streams_.find(stream);
      if (owner != streams_.end()) {
        row.rank = owner->second.rank;
        row.name = owner->second.name + " kernels";
        row.role = owner->second.role;
        row.position = owner->second.position;
        added.op_track = owner->second.op_track;
      } else {
        row.name = NameOfStream(device, stream);
        row.role = words::Name(words::TrackRole::kCompute);
        row.position = kOthersPosition;
      }
    }
    added.track = recorder_->Add(row);
    return added;
  }

  schema::TrackId CallTrack(uint32_t thread) override {
    schema::TrackRow row;
    row.role = words::Name(words::TrackRole::kHost);
    {
      const MutexLock lock(mutex_);
      const auto owner = threads_.find(thread);
      row.rank = owner == threads_.end() ? 0 : owner->second.rank;
      row.name = owner == threads_.end() ? fmt::format("thread {} calls", thread)
                                         : owner->second.name + " calls";
      row.position = owner == threads_.end() ? kOthersPosition : owner->second.position;
    }
    return recorder_->Add(row);
  }

  schema::TrackId OverheadTrack() override {
    schema::TrackRow row;
    row.name = trace_keys::kOverheadTrack;
    row.role = words::Name(words::TrackRole::kHost);
    row.position = kOthersPosition;
    return recorder_->Add(row);
  }

  OpIdentity IdentityOf(int64_t op) override { return options_.identity_of(op); }
  int32_t RankOfDevice(uint32_t device) override {
    return options_.rank_of_device ? options_.rank_of_device(device) : 0;
  }
  bool IsRecorded(int64_t start_ns) override { return recorder_->WasRecording(start_ns); }
  bool IsMemoryRecorded(int64_t /*time_ns*/) override { return true; }

 private:
  static constexpr int64_t kOthersPosition = 1000;  // below all that the engine names

  void JoinIssued() REQUIRES(mutex_) {
    std::vector<IssuedOp> issued;
    {
      const MutexLock lock(issued_mutex_);
      issued.swap(issued_);
    }
    for (const IssuedOp& one : issued) {
      joiner_.Add(one.op, one.rank);
      int64_t& issued_ns = issued_until_[one.op.thread];
      issued_ns = std::max(issued_ns, one.op.end_ns);
    }
  }

  // Ops are added once they are issued: those of a thread are known until its last
  // one.
  int64_t Fence() const REQUIRES(mutex_) {
    const int64_t now_ns = MonotonicNs();
    int64_t fence_ns = now_ns - options_.lag_ns;
    for (const auto& [thread, until_ns] : issued_until_) fence_ns = std::min(fence_ns, until_ns);
    return std::max(fence_ns, now_ns - kLongestHoldNs);
  }

  void Write(const cupti::Joined& joined, const cupti::Names& names) {
    works_ += static_cast<int64_t>(joined.works.size());
    rows_.Write(joined, names);
  }

  record::Recorder* const recorder_;
  const GpuRecorderOptions options_;
  RowWriter rows_;                       // decode thread
  int64_t works_ = 0;                    // decode thread
  const cupti::Names* names_ = nullptr;  // decode thread

  Mutex mutex_;  // neither CUPTI nor the trace's writer is waited for under it
  CondVar came_;
  cupti::Joiner joiner_ GUARDED_BY(mutex_);
  std::function<void()> flush_ GUARDED_BY(mutex_);
  std::map<cupti::StreamId, StreamOwner> streams_ GUARDED_BY(mutex_);
  std::map<uint32_t, ThreadOwner> threads_ GUARDED_BY(mutex_);
  std::map<uint32_t, int64_t> issued_until_ GUARDED_BY(mutex_);  // by thread
  std::vector<NcclRange> nccl_calls_ GUARDED_BY(mutex_);
  int num_waiting_ GUARDED_BY(mutex_) = 0;  // in TakeOps()
  int64_t last_rows_ns_ GUARDED_BY(mutex_) = 0;

  struct IssuedOp {
    cupti::HostOp op;
    int32_t rank = cupti::kNoRank;
  };
  Mutex issued_mutex_;  // inside mutex_
  std::vector<IssuedOp> issued_ GUARDED_BY(issued_mutex_);
};

GpuRecorder::GpuRecorder(record::Recorder* recorder, GpuRecorderOptions options)
    : impl_(std::make_unique<Impl>(recorder, std::move(options))) {}
GpuRecorder::~GpuRecorder() = default;

void GpuRecorder::SetFlush(std::function<void()> flush) { impl_->SetFlush(std::move(flush)); }
void GpuRecorder::OwnStream(cupti::StreamId stream, const StreamOwner& owner) {
  impl_->OwnStream(stream, owner);
}
void GpuRecorder::OwnThread(uint32_t thread, const ThreadOwner& owner) {
  impl_->OwnThread(thread, owner);
}
void GpuRecorder::OpIssued(const cupti::HostOp& op, int32_t rank) { impl_->OpIssued(op, rank); }
void GpuRecorder::CalledNccl(NcclRange call) { impl_->CalledNccl(std::move(call)); }
std::vector<cupti::OpWork> GpuRecorder::TakeOps(uint32_t thread, int64_t until_ns,
                                                const std::vector<int64_t>& ops,
                                                int64_t timeout_ns) {
  return impl_->TakeOps(thread, until_ns, ops, timeout_ns);
}
void GpuRecorder::Add(const cupti::Batch& batch, const cupti::Names& names) {
  impl_->Add(batch, names);
}
GpuCounts GpuRecorder::Finish() { return impl_->Finish(); }

}  // namespace shardscope::gpu
