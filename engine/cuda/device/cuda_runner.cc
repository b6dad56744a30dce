#include "engine/cuda/device/cuda_runner.h"

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/cuda/device/device_plan.h"
#include "engine/cuda/device/device_streams.h"
#include "engine/cuda/device/event_clock.h"
#include "engine/cuda/device/event_pool.h"
#include "engine/executor/cause.h"
#include "trace/base/time.h"
#include "trace/record/nvtx.h"

namespace shardscope::cuda {
namespace {

using executor::Culprit;
using executor::OpContext;
using executor::OpTimes;
using plan::BufferId;
using plan::OpIndex;

// What the host noted about an op of the running step.
struct OpState {
  bool is_issued = false;
  Event started = nullptr;  // without a DeviceLog only
  Event ended = nullptr;    // if somebody waits for it, or without a DeviceLog
  int64_t issued_ns = 0;
  int64_t issue_end_ns = 0;
  int64_t cpu_ns = 0;
  executor::HostWait host_wait;  // the last one before it was issued
  OpTimes times;                 // once the step is over
};

// A buffer that was given back, when the host issued that.
struct Freed {
  BufferId buffer = plan::kNone;
  OpIndex op = plan::kNone;  // the op that frees it
  int64_t bytes = 0;
  int64_t issued_ns = 0;
};
struct Allocated {
  BufferId buffer = plan::kNone;
  OpIndex op = plan::kNone;
  int64_t bytes = 0;
};

}  // namespace

class CudaRunner::Impl {
 public:
  explicit Impl(const CudaRunnerOptions& options)
      : options_(options),
        api_(options.api),
        board_(options.rank),
        time_events_(api_, kEventBlockingSync),
        wait_events_(api_, kEventBlockingSync | kEventDisableTiming),
        clock_(api_),
        streams_(api_, options.rank, options.log) {}
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Status SetSchedule(const plan::Schedule& schedule);
  Status RunStep(int64_t step);
  executor::Activity activity() const { return board_.Read(); }

  executor::OnFailure on_failure;
  executor::DelayHook delay_hook;
  int64_t last_end_ns = 0;

 private:
  bool has_log() const { return options_.log != nullptr; }
  bool is_recording() const { return options_.is_recording == nullptr || *options_.is_recording; }

  void Begin();
  void IssueAll();
  void Issue(const OpContext& context);
  void WaitOnHost(OpIndex index);
  void WaitOnStream(OpIndex index, Stream stream);
  void RunBodies(const OpContext& context);
  void GiveBack(const std::vector<BufferId>& buffers, int64_t issued_ns);
  void SynchronizeAll();
  void LeaveAll();
  void FindTimes();
  void FindTimesOf(OpIndex index, const DeviceInterval& interval, int64_t now_ns);
  void Report();

  OpContext ContextOf(OpIndex index) const;
  const plan::Op& OpAt(OpIndex index) const {
    return step_context_.program->ops[static_cast<size_t>(index)];
  }
  OpState& State(OpIndex index) { return states_[static_cast<size_t>(index)]; }
  const OpState& State(OpIndex index) const { return states_[static_cast<size_t>(index)]; }
  Stream StreamOf(plan::StreamIndex stream) const {
    return stream_of_[static_cast<size_t>(stream)];
  }
  void RecordEvent(Event event, Stream stream) {
    Check(api_, "cudaEventRecord", api_.EventRecord(event, stream));
  }
  // `caught` while the step was at `context`.
  void Fail(const OpContext& context, const std::exception_ptr& caught);

  const CudaRunnerOptions options_;
  const RuntimeApi api_;
  executor::ActivityBoard board_;
  EventPool time_events_;
  EventPool wait_events_;
  EventClock clock_;
  DeviceStreams streams_;

  // The step that runs.
  OpContext step_context_;
  DevicePlan plan_;
  std::vector<Stream> stream_of_;  // by StreamIndex
  std::vector<OpState> states_;
  std::vector<OpIndex> freed_by_;  // by buffer
  std::vector<Allocated> allocated_;
  std::vector<Freed> freed_;
  int64_t step_start_ns_ = 0;
  executor::HostWait last_host_wait_;
  Status status_;
};

Status CudaRunner::Impl::SetSchedule(const plan::Schedule& schedule) {
  const plan::Program& program = schedule.ProgramOf(options_.rank);
  Result<DevicePlan> made = MakeDevicePlan(schedule, program, options_.free_late);
  if (!made.ok()) return made.status();
  plan_ = std::move(made).value();
  step_context_ = {.schedule = &schedule, .program = &program, .rank = options_.rank};
  freed_by_.assign(program.buffers.size(), plan::kNone);
  for (size_t op = 0; op < program.ops.size(); ++op) {
    for (const BufferId id : program.ops[op].frees) {
      freed_by_[static_cast<size_t>(id)] = static_cast<OpIndex>(op);
    }
  }
  return Status::Ok();
}

Status CudaRunner::Impl::RunStep(int64_t step) {
  step_context_.step = step;
  status_ = Status::Ok();
  board_.Begin(step_context_);
  try {
    Begin();
  } catch (const std::exception& error) {
    status_ = Status::Error("rank " + std::to_string(options_.rank) + ", step " +
                            std::to_string(step) + ": " + error.what());
    if (on_failure) on_failure(Culprit::kThisRank);
  }
  if (status_.ok()) IssueAll();
  if (status_.ok()) SynchronizeAll();
  status_.ok() ? Report() : LeaveAll();
  board_.End();
  time_events_.TakeAllBack();
  wait_events_.TakeAllBack();
  return status_;
}

void CudaRunner::Impl::Begin() {
  Check(api_, "cudaSetDevice", api_.SetDevice(options_.device));
  stream_of_ = streams_.Of(*step_context_.schedule);
  if (!has_log()) clock_.Anchor();
  states_.assign(step_context_.program->ops.size(), {});
  allocated_.clear();
  freed_.clear();
  last_host_wait_ = {};
  step_start_ns_ = MonotonicNs();
}

void CudaRunner::Impl::IssueAll() {
  for (OpIndex index = 0; index < static_cast<OpIndex>(states_.size()) && status_.ok(); ++index) {
    const OpContext before = ContextOf(index);
    try {
      WaitOnHost(index);
      State(index).host_wait = last_host_wait_;
      Issue(ContextOf(index));
    } catch (...) {
      Fail(before, std::current_exception());
    }
    board_.Clear(before.op().stream);
  }
}

OpContext CudaRunner::Impl::ContextOf(OpIndex index) const {
  OpContext context = step_context_;
  context.index = index;
  context.issued_ns = State(index).is_issued ? State(index).issued_ns : MonotonicNs();
  context.device_stream = StreamOf(OpAt(index).stream);
  return context;
}

void CudaRunner::Impl::WaitOnHost(OpIndex index) {
  for (const OpIndex target : plan_.ops[static_cast<size_t>(index)].host_waits) {
    const Event event = State(target).ended;
    const Code code = QueryEvent(api_, event);
    if (code == kSuccess) continue;
    if (code != kErrorNotReady) Check(api_, "cudaEventQuery", code);
    board_.Set(OpAt(target).stream, target, executor::OpStage::kRunning, MonotonicNs());
    Check(api_, "cudaEventSynchronize", api_.EventSynchronize(event));
    board_.Clear(OpAt(target).stream);
    last_host_wait_ = {target, MonotonicNs()};
  }
}

void CudaRunner::Impl::Issue(const OpContext& context) {
  const plan::Op& op = context.op();
  OpState& state = State(context.index);
  state.is_issued = true;
  state.issued_ns = context.issued_ns;
  board_.Set(op.stream, context.index, executor::OpStage::kRunning, state.issued_ns);
  if (delay_hook) delay_hook(context);
  const bool is_recorded = is_recording();
  const bool takes_times = is_recorded && !has_log();
  if (has_log() && is_recorded) options_.log->OnBegin(context);
  const int64_t cpu_from_ns = ThreadCpuNs();
  {
    std::optional<record::NvtxRange> range;
    if (record::NvtxAttached()) range.emplace(plan::OpName(*context.schedule, op).c_str());
    WaitOnStream(context.index, context.device_stream);
    if (takes_times) {
      state.started = time_events_.Take();
      RecordEvent(state.started, context.device_stream);
    }
    RunBodies(context);
    const bool needs_event = plan_.ops[static_cast<size_t>(context.index)].needs_event;
    if (needs_event || takes_times) {
      state.ended = takes_times ? time_events_.Take() : wait_events_.Take();
      RecordEvent(state.ended, context.device_stream);
    }
  }
  state.issue_end_ns = MonotonicNs();
  state.cpu_ns = ThreadCpuNs() - cpu_from_ns;
  if (!has_log() || !is_recorded) return;
  static thread_local const auto thread = static_cast<uint32_t>(gettid());
  options_.log->OnIssued({.key = OpRunKey(context.rank, context.step, context.index),
                          .thread = thread,
                          .start_ns = state.issued_ns,
                          .end_ns = state.issue_end_ns});
}

void CudaRunner::Impl::WaitOnStream(OpIndex index, Stream stream) {
  const OpPlan& waits = plan_.ops[static_cast<size_t>(index)];
  const auto wait = [&](Event event) {
    Check(api_, "cudaStreamWaitEvent", api_.StreamWaitEvent(stream, event, 0));
  };
  if (waits.host_op_before != plan::kNone) wait(State(waits.host_op_before).ended);
  for (const OpIndex other : waits.event_waits) wait(State(other).ended);
  for (const plan::StreamIndex other : waits.stream_waits) {
    const Event event = wait_events_.Take();
    RecordEvent(event, StreamOf(other));
    wait(event);
  }
}

void CudaRunner::Impl::RunBodies(const OpContext& context) {
  const plan::Op& op = context.op();
  GiveBack(plan_.ops[static_cast<size_t>(context.index)].frees, context.issued_ns);
  for (const BufferId id : op.allocates) {
    allocated_.push_back({id, context.index, options_.bodies->Allocate(context, id)});
  }
  options_.bodies->Run(context);
  if (!options_.free_late) GiveBack(op.frees, context.issued_ns);
}

void CudaRunner::Impl::GiveBack(const std::vector<BufferId>& buffers, int64_t issued_ns) {
  for (const BufferId id : buffers) {
    const OpIndex op = freed_by_[static_cast<size_t>(id)];
    freed_.push_back({id, op, options_.bodies->Free(ContextOf(op), id), issued_ns});
  }
}

// In issue order and op by op, where there are events: what the rank waits for is then named by
// activity(), and an error by the first op that did not end well.
void CudaRunner::Impl::SynchronizeAll() {
  OpIndex index = 0;
  try {
    for (; index < static_cast<OpIndex>(states_.size()); ++index) {
      const Event event = State(index).ended;
      if (event == nullptr) continue;
      board_.Set(OpAt(index).stream, index, executor::OpStage::kRunning, MonotonicNs());
      Check(api_, "cudaEventSynchronize", api_.EventSynchronize(event));
      board_.Clear(OpAt(index).stream);
    }
    index = static_cast<OpIndex>(states_.size()) - 1;
    for (const Stream stream : stream_of_) {
      Check(api_, "cudaStreamSynchronize", api_.StreamSynchronize(stream));
    }
    GiveBack(plan_.frees_at_end, MonotonicNs());
    FindTimes();
  } catch (...) {
    Fail(ContextOf(index), std::current_exception());
    board_.Clear(OpAt(index).stream);
  }
}

// The step has failed: nothing of it may still run when the caller takes its memory away. Errors
// are those of the failure once more.
void CudaRunner::Impl::LeaveAll() {
  for (const Stream stream : stream_of_) api_.StreamSynchronize(stream);
  api_.GetLastError();
}

void CudaRunner::Impl::FindTimes() {
  const int64_t now_ns = MonotonicNs();
  // Without times of the GPU's work nothing else says when it ended.
  if (!is_recording()) last_end_ns = now_ns;
  std::vector<DeviceInterval> intervals(states_.size());
  if (has_log() && is_recording()) {
    intervals = options_.log->TakeStep(options_.rank, step_context_.step, states_.size());
    intervals.resize(states_.size());
  } else {
    for (size_t op = 0; op < states_.size(); ++op) {
      if (states_[op].started == nullptr) continue;  // it was not timed
      intervals[op] = {clock_.TimeOf(states_[op].started), clock_.TimeOf(states_[op].ended)};
    }
    if (is_recording() && options_.on_clock) options_.on_clock(now_ns, clock_.uncertainty_ns());
  }
  for (size_t op = 0; op < states_.size(); ++op) {
    FindTimesOf(static_cast<OpIndex>(op), intervals[op], now_ns);
  }
}

// An op for which the GPU did nothing ends when it is ready; the work of a host op is what the host
// did. The GPU's clock is tied to the host's within some microseconds, so times are put into the
// order that holds: issued, ready, started, ended, now.
void CudaRunner::Impl::FindTimesOf(OpIndex index, const DeviceInterval& interval, int64_t now_ns) {
  OpState& state = State(index);
  OpTimes& times = state.times;
  times.issued_ns = state.issued_ns;
  times.cpu_ns = state.cpu_ns;
  executor::FindCause(
      plan_.step.waits[static_cast<size_t>(index)], state.host_wait, step_start_ns_,
      [this](OpIndex op) { return State(op).times.ended_ns; }, &times);
  const bool is_host = OpAt(index).stream == 0;
  times.started_ns = std::max(times.ready_ns, is_host ? 0 : interval.started_ns);
  times.ended_ns =
      std::max({times.started_ns, interval.ended_ns, is_host ? state.issue_end_ns : 0});
  times.ended_ns = std::max(times.started_ns, std::min(times.ended_ns, now_ns));
}

void CudaRunner::Impl::Report() {
  for (OpIndex index = 0; index < static_cast<OpIndex>(states_.size()); ++index) {
    const OpState& state = State(index);
    options_.sink->OnOpEnd(ContextOf(index), state.times);
    last_end_ns = std::max(last_end_ns, state.times.ended_ns);
  }
  for (const Allocated& one : allocated_) {
    const OpTimes& times = State(one.op).times;
    options_.sink->OnMemory(ContextOf(one.op), one.buffer, one.bytes, times.issued_ns,
                            times.started_ns);
  }
  for (const Freed& one : freed_) {
    options_.sink->OnMemory(ContextOf(one.op), one.buffer, -one.bytes, one.issued_ns,
                            std::max(one.issued_ns, State(one.op).times.ended_ns));
  }
}

void CudaRunner::Impl::Fail(const OpContext& context, const std::exception_ptr& caught) {
  Culprit culprit = Culprit::kThisRank;
  try {
    std::rethrow_exception(caught);
  } catch (const executor::OtherRankError& error) {
    culprit = Culprit::kOtherRank;
    status_ = Status::Error(error.what());
  } catch (const RuntimeError& error) {
    // The GPU works behind the host's back, so the host hears of it later.
    status_ = Status::Error(
        executor::Located(context, error.what()) +
        "; the cause is this op or one that was issued before it and had not ended "
        "(CUDA_LAUNCH_BLOCKING=1 makes every op wait for itself and so names the right one)");
  } catch (const std::exception& error) {
    status_ = Status::Error(executor::Located(context, error.what()));
  } catch (...) {
    status_ =
        Status::Error(executor::Located(context, "threw something that is not a std::exception"));
  }
  if (on_failure) on_failure(culprit);
}

CudaRunner::CudaRunner(const CudaRunnerOptions& options) : impl_(std::make_unique<Impl>(options)) {}
CudaRunner::~CudaRunner() = default;

Status CudaRunner::SetSchedule(const plan::Schedule& schedule) {
  return impl_->SetSchedule(schedule);
}
Status CudaRunner::RunStep(int64_t step) { return impl_->RunStep(step); }
void CudaRunner::set_on_failure(executor::OnFailure on_failure) {
  impl_->on_failure = std::move(on_failure);
}
void CudaRunner::set_delay_hook(executor::DelayHook hook) { impl_->delay_hook = std::move(hook); }
int64_t CudaRunner::last_end_ns() const { return impl_->last_end_ns; }
executor::Activity CudaRunner::activity() const { return impl_->activity(); }

}  // namespace shardscope::cuda
