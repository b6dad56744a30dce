#include "engine/executor/cpu_runner.h"

#include <pthread.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/executor/cause.h"
#include "trace/base/process.h"
#include "trace/base/time.h"
#include "trace/record/nvtx.h"

namespace shardscope::executor {

using plan::OpIndex;

namespace {

// Of an op: until `done` is set.
void WaitUntilDone(const std::atomic<uint32_t>& done) {
  while (done.load(std::memory_order_acquire) == 0) done.wait(0, std::memory_order_acquire);
}

// Holds a compute slot for the length of an op.
class SlotHolder {
 public:
  SlotHolder(ComputeSlots* slots, bool needed) : slots_(needed ? slots : nullptr) {
    if (slots_ != nullptr) waited_ns_ = slots_->Acquire();
  }
  ~SlotHolder() {
    if (slots_ != nullptr) slots_->Release();
  }
  SlotHolder(const SlotHolder&) = delete;
  SlotHolder& operator=(const SlotHolder&) = delete;
  int64_t waited_ns() const { return waited_ns_; }

 private:
  ComputeSlots* slots_;
  int64_t waited_ns_ = 0;
};

}  // namespace

StreamWorker::StreamWorker(const std::string& thread_name, std::function<void(plan::OpIndex)> run)
    : run_(std::move(run)), thread_([this] { Loop(); }) {
  constexpr size_t kLongestName = 15;  // the kernel's limit
  pthread_setname_np(thread_.native_handle(), thread_name.substr(0, kLongestName).c_str());
}

StreamWorker::~StreamWorker() {
  {
    const MutexLock lock(mutex_);
    closed_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void StreamWorker::Push(plan::OpIndex index) {
  {
    const MutexLock lock(mutex_);
    queue_.push_back(index);
  }
  changed_.notify_one();
}

void StreamWorker::Loop() {
  MutexLock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&]() REQUIRES(mutex_) { return !queue_.empty() || closed_; });
    if (queue_.empty()) return;
    const plan::OpIndex index = queue_.front();
    queue_.pop_front();
    lock.unlock();
    run_(index);
    lock.lock();
  }
}

CpuRunner::CpuRunner(int rank, OpBodies* bodies, ExecutionSink* sink, ComputeSlots* slots)
    : rank_(rank), bodies_(bodies), sink_(sink), slots_(slots), board_(rank) {}

CpuRunner::~CpuRunner() = default;

Status CpuRunner::SetSchedule(const plan::Schedule& schedule) {
  const plan::Program& program = schedule.ProgramOf(rank_);
  Result<StepPlan> step_plan = MakeStepPlan(schedule, program);
  if (!step_plan.ok()) return step_plan.status();
  step_plan_ = std::move(*step_plan);
  step_context_ = {.schedule = &schedule, .program = &program, .rank = rank_};
  StartWorkers(schedule);
  return Status::Ok();
}

Status CpuRunner::RunStep(int64_t step) {
  const plan::Program& program = *step_context_.program;
  step_context_.step = step;
  states_ = std::vector<OpState>(program.ops.size());
  step_start_ns_ = MonotonicNs();
  last_host_wait_ = {};
  failed_ = false;
  error_.clear();
  unfinished_ = static_cast<uint32_t>(program.ops.size());
  board_.Begin(step_context_);

  for (size_t index = 0; index < program.ops.size(); ++index) Issue(static_cast<OpIndex>(index));

  while (const uint32_t unfinished = unfinished_.load(std::memory_order_acquire)) {
    unfinished_.wait(unfinished, std::memory_order_acquire);
  }
  board_.End();
  for (const OpState& state : states_) last_end_ns_ = std::max(last_end_ns_, state.ended_ns);
  return failed_ ? Status::Error(error_) : Status::Ok();
}

void CpuRunner::StartWorkers(const plan::Schedule& schedule) {
  if (workers_.empty()) workers_.emplace_back();
  for (size_t stream = workers_.size(); stream < schedule.streams.size(); ++stream) {
    // The name is that of the first Schedule that needed the stream; it serves debuggers only.
    const std::string name = "r" + std::to_string(rank_) + " " + schedule.streams[stream].name;
    workers_.push_back(
        std::make_unique<StreamWorker>(name, [this](OpIndex index) { Execute(index); }));
  }
}

void CpuRunner::Issue(OpIndex index) {
  WaitOnHost(index);
  const plan::StreamIndex stream = step_context_.program->ops[static_cast<size_t>(index)].stream;
  OpState& state = State(index);
  state.host_wait = last_host_wait_;
  state.issued_ns = MonotonicNs();
  if (stream == 0) {
    Execute(index);
  } else {
    workers_[static_cast<size_t>(stream)]->Push(index);
  }
}

void CpuRunner::WaitOnHost(OpIndex index) {
  for (const plan::Dependency& dependency :
       step_context_.program->ops[static_cast<size_t>(index)].dependencies) {
    if (dependency.kind != plan::DependencyKind::kHost) continue;
    const OpState& target = State(dependency.target);
    if (target.done.load(std::memory_order_acquire) != 0) continue;
    WaitUntilDone(target.done);
    last_host_wait_ = {dependency.target, target.ended_ns};
  }
}

// Note: how a failure ends the step
// After a failure nothing is woken specially: every op still takes its turn, in order, but without
// running. Waits end because the ops they wait for take theirs; collectives that are already
// running end because on_failure aborts the transport.
void CpuRunner::Execute(OpIndex index) {
  OpContext context = step_context_;
  context.index = index;
  context.issued_ns = State(index).issued_ns;
  for (const Wait& wait : step_plan_.waits[static_cast<size_t>(index)]) {
    WaitUntilDone(State(wait.op).done);
  }
  OpState& state = State(index);
  OpTimes times;
  bool ran = false;
  if (!failed_.load(std::memory_order_acquire)) {
    try {
      times = RunOp(context);
      state.ended_ns = times.ended_ns;
      ran = true;
    } catch (const OtherRankError& error) {
      Fail(error.what(), Culprit::kOtherRank);
    } catch (const std::exception& error) {
      Fail(Located(context, ErrorText(error)), Culprit::kThisRank);
    } catch (...) {
      Fail(Located(context, kForeignError), Culprit::kThisRank);
    }
    board_.Clear(context.op().stream);
  }
  // Those who wait go first; the record of this op can be made while they wake.
  state.done.store(1, std::memory_order_release);
  state.done.notify_all();
  if (ran) sink_->OnOpEnd(context, times);
  if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) unfinished_.notify_one();
}

OpTimes CpuRunner::RunOp(OpContext context) {
  const plan::Op& op = context.op();
  const bool takes_slot = step_plan_.takes_slot[static_cast<size_t>(context.index)];
  board_.Set(op.stream, context.index, takes_slot ? OpStage::kSlot : OpStage::kRunning,
             MonotonicNs());
  if (delay_hook_) delay_hook_(context);
  OpTimes times;
  times.issued_ns = context.issued_ns;
  context.started_ns = &times.started_ns;
  {
    const SlotHolder slot(slots_, takes_slot);
    times.slot_wait_ns = slot.waited_ns();
    std::optional<record::NvtxRange> range;
    if (record::NvtxAttached()) range.emplace(plan::OpName(*context.schedule, op).c_str());
    const int64_t cpu_from_ns = ThreadCpuNs();
    times.started_ns = MonotonicNs();
    board_.Set(op.stream, context.index, OpStage::kRunning, times.started_ns);
    for (const plan::BufferId buffer : op.allocates) {
      const int64_t bytes = bodies_->Allocate(context, buffer);
      sink_->OnMemory(context, buffer, bytes, times.issued_ns, MonotonicNs());
    }
    bodies_->Run(context);
    for (const plan::BufferId buffer : op.frees) {
      const int64_t bytes = bodies_->Free(context, buffer);
      sink_->OnMemory(context, buffer, -bytes, times.issued_ns, MonotonicNs());
    }
    times.ended_ns = MonotonicNs();
    times.cpu_ns = ThreadCpuNs() - cpu_from_ns;
  }
  const auto index = static_cast<size_t>(context.index);
  FindCause(
      step_plan_.waits[index], State(context.index).host_wait, step_start_ns_,
      [this](OpIndex before) { return State(before).ended_ns; }, &times);
  return times;
}

void CpuRunner::Fail(const std::string& error, Culprit culprit) {
  if (failed_.exchange(true, std::memory_order_acq_rel)) return;
  error_ = error;
  if (on_failure_) on_failure_(culprit);
}

}  // namespace shardscope::executor
