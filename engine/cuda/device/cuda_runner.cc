#include "engine/cuda/device/cuda_runner.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "trace/base/time.h"
#include "trace/record/nvtx.h"

namespace shardscope::cuda {
using executor::Culprit;
using executor::OpContext;
using executor::OpTimes;
using plan::BufferId;
using plan::OpIndex;

CudaRunner::CudaRunner(const CudaRunnerOptions& options)
    : options_(options),
      api_(options.api),
      board_(options.rank),
      time_events_(api_, kEventBlockingSync),
      wait_events_(api_, kEventBlockingSync | kEventDisableTiming),
      clock_(api_),
      streams_(api_, options.rank, options.log) {}

CudaRunner::~CudaRunner() = default;

Status CudaRunner::SetSchedule(const plan::Schedule& schedule) {
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

Status CudaRunner::RunStep(int64_t step) {
  step_context_.step = step;
  status_ = Status::Ok();
  board_.Begin(step_context_);
  try {
    Begin();
  } catch (const std::exception& error) {
    status_ = Status::Error("rank " + std::to_string(options_.rank) + ", step " +
                            std::to_string(step) + ": " + error.what());
    if (on_failure_) on_failure_(Culprit::kThisRank);
  }
  if (status_.ok()) IssueAll();
  if (status_.ok()) SynchronizeAll();
  status_.ok() ? Report() : LeaveAll();
  board_.End();
  time_events_.TakeAllBack();
  wait_events_.TakeAllBack();
  return status_;
}

void CudaRunner::Begin() {
  Check(api_, "cudaSetDevice", api_.SetDevice(options_.device));
  stream_of_ = streams_.Of(*step_context_.schedule);
  if (!has_log()) clock_.Anchor();
  states_.assign(step_context_.program->ops.size(), {});
  host_calls_.clear();
  allocated_.clear();
  freed_.clear();
  last_host_wait_ = {};
  step_start_ns_ = MonotonicNs();
}

void CudaRunner::IssueAll() {
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

OpContext CudaRunner::ContextOf(OpIndex index) const {
  OpContext context = step_context_;
  context.index = index;
  context.issued_ns = State(index).is_issued ? State(index).issued_ns : MonotonicNs();
  context.device_stream = StreamOf(OpAt(index).stream);
  return context;
}

void CudaRunner::WaitOnHost(OpIndex index) {
  for (const OpIndex target : plan_.ops[static_cast<size_t>(index)].host_waits) {
    if (HasWaitedFor(target)) last_host_wait_ = {target, MonotonicNs()};
  }
}

// Asking costs less than waiting, of which CUPTI makes a record.
bool CudaRunner::HasWaitedFor(OpIndex target) {
  const Event event = State(target).ended;
  const Code code = QueryEvent(api_, event);
  if (code == kSuccess) return false;
  if (code != kErrorNotReady) Check(api_, "cudaEventQuery", code);
  board_.Set(OpAt(target).stream, target, executor::OpStage::kRunning, MonotonicNs());
  Check(api_, "cudaEventSynchronize", api_.EventSynchronize(event));
  board_.Clear(OpAt(target).stream);
  return true;
}

void CudaRunner::Issue(const OpContext& context) {
  const plan::Op& op = context.op();
  OpState& state = State(context.index);
  state.is_issued = true;
  state.issued_ns = context.issued_ns;
  board_.Set(op.stream, context.index, executor::OpStage::kRunning, state.issued_ns);
  if (delay_hook_) delay_hook_(context);
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

void CudaRunner::WaitOnStream(OpIndex index, Stream stream) {
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

void CudaRunner::RunBodies(const OpContext& context) {
  const plan::Op& op = context.op();
  GiveBack(plan_.ops[static_cast<size_t>(context.index)].frees, context.issued_ns);
  for (const BufferId id : op.allocates) {
    allocated_.push_back({id, context.index, options_.bodies->Allocate(context, id)});
  }
  if (std::function<void()> work = options_.bodies->HostWork(context)) {
    HostCall& call = host_calls_[context.index];
    call.work = std::move(work);
    Check(api_, "cudaLaunchHostFunc",
          api_.LaunchHostFunc(context.device_stream, &CudaRunner::DoHostCall, &call));
  } else {
    options_.bodies->Run(context);
  }
  if (!options_.free_late) GiveBack(op.frees, context.issued_ns);
}

void CudaRunner::DoHostCall(void* argument) {
  HostCall& call = *static_cast<HostCall*>(argument);
  call.is_running = true;
  call.started_ns = MonotonicNs();
  const int64_t cpu_from_ns = ThreadCpuNs();
  try {
    call.work();
  } catch (...) {
    call.error = std::current_exception();
  }
  call.cpu_ns = ThreadCpuNs() - cpu_from_ns;
  call.ended_ns = MonotonicNs();
  call.is_running = false;
}

void CudaRunner::GiveBack(const std::vector<BufferId>& buffers, int64_t issued_ns) {
  for (const BufferId id : buffers) {
    const OpIndex op = freed_by_[static_cast<size_t>(id)];
    freed_.push_back({id, op, options_.bodies->Free(ContextOf(op), id), issued_ns});
  }
}

// In issue order and op by op, where there are events: what the rank waits for is then named by
// activity(), and an error by the first op that did not end well.
void CudaRunner::SynchronizeAll() {
  OpIndex index = 0;
  try {
    for (; index < static_cast<OpIndex>(states_.size()); ++index) {
      if (State(index).ended != nullptr) HasWaitedFor(index);
    }
    index = static_cast<OpIndex>(states_.size()) - 1;
    for (const Stream stream : stream_of_) {
      Check(api_, "cudaStreamSynchronize", api_.StreamSynchronize(stream));
    }
    for (const auto& [op, call] : host_calls_) {
      index = op;
      if (call.error != nullptr) std::rethrow_exception(call.error);
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
void CudaRunner::LeaveAll() {
  for (const Stream stream : stream_of_) api_.StreamSynchronize(stream);
  // After an error of the device these come back at once, while CUDA's thread may be in a call.
  for (const auto& [op, call] : host_calls_) {
    while (call.is_running) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  api_.GetLastError();
}

void CudaRunner::FindTimes() {
  const int64_t now_ns = MonotonicNs();
  // Without times of the GPU's work nothing else says when it ended.
  if (!is_recording()) last_end_ns_ = now_ns;
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
  for (const auto& [op, call] : host_calls_) {
    intervals[static_cast<size_t>(op)] = {call.started_ns, call.ended_ns};
    State(op).cpu_ns = call.cpu_ns;
  }
  for (size_t op = 0; op < states_.size(); ++op) {
    FindTimesOf(static_cast<OpIndex>(op), intervals[op], now_ns);
  }
}

// An op for which the GPU did nothing ends when it is ready; the work of a host op is what the host
// did. The GPU's clock is tied to the host's within some microseconds, so times are put into the
// order that holds: issued, ready, started, ended, now.
void CudaRunner::FindTimesOf(OpIndex index, const DeviceInterval& interval, int64_t now_ns) {
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

void CudaRunner::Report() {
  for (OpIndex index = 0; index < static_cast<OpIndex>(states_.size()); ++index) {
    const OpState& state = State(index);
    options_.sink->OnOpEnd(ContextOf(index), state.times);
    last_end_ns_ = std::max(last_end_ns_, state.times.ended_ns);
  }
  for (const Allocated& one : allocated_) {
    const OpTimes& times = State(one.op).times;
    options_.sink->OnMemory(ContextOf(one.op), one.buffer, one.bytes, times.issued_ns,
                            times.started_ns);
  }
  // The step has not ended before its last buffers were given back.
  for (const Freed& one : freed_) {
    const int64_t executed_ns = std::max(one.issued_ns, State(one.op).times.ended_ns);
    options_.sink->OnMemory(ContextOf(one.op), one.buffer, -one.bytes, one.issued_ns, executed_ns);
    last_end_ns_ = std::max(last_end_ns_, executed_ns);
  }
}

void CudaRunner::Fail(const OpContext& context, const std::exception_ptr& caught) {
  Culprit culprit = Culprit::kThisRank;
  try {
    std::rethrow_exception(caught);
  } catch (const executor::OtherRankError& error) {
    culprit = Culprit::kOtherRank;
    status_ = Status::Error(error.what());
  } catch (const RuntimeError& error) {
    // The GPU works behind the host's back, so errors reach the host later.
    status_ = Status::Error(
        executor::Located(context, error.what()) +
        "; the cause is this op or one that was issued before it and had not ended "
        "(CUDA_LAUNCH_BLOCKING=1 makes every op wait for itself and so names the right one)");
  } catch (const std::exception& error) {
    status_ = Status::Error(executor::Located(context, error.what()));
  } catch (...) {
    status_ = Status::Error(executor::Located(context, executor::kForeignError));
  }
  if (on_failure_) on_failure_(culprit);
}

}  // namespace shardscope::cuda
