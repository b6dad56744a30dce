// For tests: ranks that run a Schedule on plain numbers. A buffer is one number; every op mixes
// what it reads into what it writes, so any wrong order changes the result, and any use of memory
// that is not there throws.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/executor/cpu_runner.h"
#include "trace/base/mutex.h"
#include "trace/base/time.h"

namespace shardscope::executor {

// Whom a rank meets for an op, as it is to the toys' exchanges: all ranks where it has no
// communicator.
struct ToyMeeting {
  plan::Meeting key;
  size_t place = 0;
  size_t size = 0;
};
inline ToyMeeting ToyMeetingOf(const OpContext& context) {
  const auto rank = static_cast<size_t>(context.rank);
  if (context.op().communicator == plan::kNone) {
    return {{}, rank, static_cast<size_t>(context.schedule->num_ranks())};
  }
  const plan::Meeting key = plan::MeetingOf(*context.schedule, context.rank, context.op());
  const std::vector<int32_t> ranks = plan::RanksOf(*context.schedule, key);
  const auto at = std::find(ranks.begin(), ranks.end(), context.rank);
  return {key, static_cast<size_t>(at - ranks.begin()), ranks.size()};
}

// Where toy ranks exchange numbers.
class ToyExchange {
 public:
  // What every rank brought, in rank order; throws if aborted.
  std::vector<uint64_t> Gather(const ToyMeeting& with, uint64_t value) {
    MutexLock lock(mutex_);
    if (!abort_reason_.empty()) throw std::runtime_error("aborted: " + abort_reason_);
    Meeting& meeting = meetings_[with.key];
    meeting.values.resize(with.size);
    meeting.values[with.place] = value;
    if (++meeting.num_arrived == with.size) {
      meeting.num_arrived = 0;
      meeting.result = meeting.values;
      ++meeting.generation;
      changed_.notify_all();
      return meeting.result;
    }
    const int generation = meeting.generation;
    changed_.wait(lock, [&]() REQUIRES(mutex_) {
      return meeting.generation != generation || !abort_reason_.empty();
    });
    if (meeting.generation == generation) throw std::runtime_error("aborted: " + abort_reason_);
    return meeting.result;
  }

  void Abort(const std::string& reason) {
    const MutexLock lock(mutex_);
    if (abort_reason_.empty()) abort_reason_ = reason;
    changed_.notify_all();
  }

 private:
  struct Meeting {
    std::vector<uint64_t> values;
    std::vector<uint64_t> result;  // stays until all ranks have come again
    size_t num_arrived = 0;
    int generation = 0;
  };
  Mutex mutex_;
  CondVar changed_;
  std::map<plan::Meeting, Meeting> meetings_ GUARDED_BY(mutex_);
  std::string abort_reason_ GUARDED_BY(mutex_);
};

class ToyBodies : public OpBodies {
 public:
  // `exchange` outlives this; null if the Schedule has neither collectives nor control ops. A
  // forward or backward takes `work_ns`. `on_run` is called first thing in every op.
  explicit ToyBodies(ToyExchange* exchange, int64_t work_ns = 0, DelayHook on_run = nullptr)
      : exchange_(exchange), work_ns_(work_ns), on_run_(std::move(on_run)) {}

  int64_t Allocate(const OpContext& context, plan::BufferId buffer) override {
    Cell& cell = CellOf(context, buffer);
    if (cell.is_live) throw std::runtime_error("allocated twice");
    cell = {.is_live = true, .value = 1};
    return context.buffer(buffer).bytes;
  }
  void Run(const OpContext& context) override;
  int64_t Free(const OpContext& context, plan::BufferId buffer) override {
    Cell& cell = CellOf(context, buffer);
    if (!cell.is_live) throw std::runtime_error("freed twice");
    cell.is_live = false;
    return context.buffer(buffer).bytes;
  }

  // Gives every buffer of the rank's program its place. Before each step.
  void Prepare(const plan::Program& program);

  // The persistent buffers by kind and unit.
  const std::map<std::pair<plan::BufferKind, int32_t>, uint64_t>& Persistent();

 private:
  struct Cell {
    bool is_live = false;
    uint64_t value = 0;
  };
  static uint64_t Mix(uint64_t a, uint64_t b) {
    uint64_t x = a * 0x9E3779B97F4A7C15 + b;
    x ^= x >> 29;
    return x * 0xBF58476D1CE4E5B9;
  }
  Cell& CellOf(const OpContext& /*context*/, plan::BufferId buffer) {
    return cells_[static_cast<size_t>(buffer)];
  }
  uint64_t Exchange(const OpContext& context, uint64_t value);

  ToyExchange* exchange_;
  const int64_t work_ns_;
  const DelayHook on_run_;
  const plan::Program* program_ = nullptr;
  std::vector<Cell> cells_;
  std::map<std::pair<plan::BufferKind, int32_t>, uint64_t> persistent_;
};

inline void ToyBodies::Run(const OpContext& context) {
  const plan::Op& op = context.op();
  if (on_run_) on_run_(context);
  if (op.kind == plan::OpKind::kControl) {
    const auto step = static_cast<uint64_t>(context.step);
    if (exchange_->Gather(ToyMeetingOf(context), step).front() != step) {
      throw std::runtime_error("ranks are in different steps");
    }
  }
  if (plan::CategoryOf(op.kind) == plan::Category::kCompute && work_ns_ > 0) {
    SleepUntilNs(MonotonicNs() + work_ns_);
  }
  uint64_t mixed = Mix(static_cast<uint64_t>(op.kind), static_cast<uint64_t>(op.phase));
  mixed = Mix(mixed, static_cast<uint64_t>(op.segment));
  for (const plan::BufferId buffer : op.reads) {
    if (!CellOf(context, buffer).is_live) throw std::runtime_error("reads what is not there");
    mixed = Mix(mixed, CellOf(context, buffer).value);
  }
  if (op.communicator != plan::kNone) mixed = Exchange(context, mixed);
  for (const plan::BufferId buffer : op.writes) {
    if (!CellOf(context, buffer).is_live) throw std::runtime_error("writes what is not there");
    CellOf(context, buffer).value = Mix(CellOf(context, buffer).value, mixed);
  }
}

// Every collective is an all-gather here: what matters is that all ranks' numbers go in.
inline uint64_t ToyBodies::Exchange(const OpContext& context, uint64_t value) {
  uint64_t mixed = static_cast<uint64_t>(context.rank);
  for (const uint64_t one : exchange_->Gather(ToyMeetingOf(context), value)) {
    mixed = Mix(mixed, one);
  }
  return mixed;
}

inline void ToyBodies::Prepare(const plan::Program& program) {
  Persistent();
  program_ = &program;
  cells_.assign(program.buffers.size(), {});
  for (size_t i = 0; i < cells_.size(); ++i) {
    const plan::Buffer& buffer = program.buffers[i];
    if (buffer.persistent) cells_[i] = {true, persistent_[{buffer.kind, buffer.unit}]};
  }
}

inline const std::map<std::pair<plan::BufferKind, int32_t>, uint64_t>& ToyBodies::Persistent() {
  for (size_t i = 0; i < cells_.size(); ++i) {
    const plan::Buffer& buffer = program_->buffers[i];
    if (buffer.persistent) {
      persistent_[{buffer.kind, buffer.unit}] = cells_[i].value;
    } else if (cells_[i].is_live) {
      throw std::runtime_error("leaked");
    }
  }
  return persistent_;
}

// Keeps what the executor reports about one rank's current step.
class KeepingSink : public ExecutionSink {
 public:
  struct MemoryEvent {
    plan::BufferId buffer;
    int64_t bytes;
    int64_t issued_ns;
    int64_t executed_ns;
  };

  void OnOpEnd(const OpContext& context, const OpTimes& times) override {
    const MutexLock lock(mutex_);
    times_[context.index] = times;
  }
  void OnMemory(const OpContext& /*context*/, plan::BufferId buffer, int64_t bytes,
                int64_t issued_ns, int64_t executed_ns) override {
    const MutexLock lock(mutex_);
    memory_.push_back({buffer, bytes, issued_ns, executed_ns});
  }
  void OnOtherMemory(const OpContext& /*context*/, const MemoryChange& /*change*/) override {}

  void Clear() {
    times_.clear();
    memory_.clear();
  }

  // After the step; ops that did not run have no entry.
  const std::map<plan::OpIndex, OpTimes>& times() const { return times_; }
  const std::vector<MemoryEvent>& memory() const { return memory_; }

 private:
  Mutex mutex_;
  std::map<plan::OpIndex, OpTimes> times_;
  std::vector<MemoryEvent> memory_;
};

struct ToyRun {
  std::vector<Status> statuses;                     // by rank
  std::vector<std::unique_ptr<KeepingSink>> sinks;  // by rank, of the last step
  std::vector<std::map<std::pair<plan::BufferKind, int32_t>, uint64_t>> persistent;  // by rank
};

struct ToyOptions {
  int steps = 1;
  int slots = 2;
  int64_t work_ns = 0;   // of a forward or backward
  DelayHook delay_hook;  // before an op takes its compute slot
  DelayHook on_run;      // in its body, with the slot
};

// Runs all ranks of a Schedule on toy bodies.
inline ToyRun RunToy(const plan::Schedule& schedule, const ToyOptions& options) {
  ToyExchange exchange;
  ComputeSlots slots(options.slots);
  const auto num_ranks = static_cast<size_t>(schedule.num_ranks());
  ToyRun run;
  run.statuses.resize(num_ranks);
  run.sinks.resize(num_ranks);
  run.persistent.resize(num_ranks);
  std::vector<std::thread> hosts;
  for (size_t rank = 0; rank < num_ranks; ++rank) {
    hosts.emplace_back([&, rank] {
      ToyBodies bodies(&exchange, options.work_ns, options.on_run);
      run.sinks[rank] = std::make_unique<KeepingSink>();
      CpuRunner executor(static_cast<int>(rank), &bodies, run.sinks[rank].get(), &slots);
      executor.set_delay_hook(options.delay_hook);
      executor.set_on_failure(
          [&](Culprit) { exchange.Abort("rank " + std::to_string(rank) + " failed"); });
      run.statuses[rank] = executor.SetSchedule(schedule);
      for (int step = 0; step < options.steps && run.statuses[rank].ok(); ++step) {
        run.sinks[rank]->Clear();
        bodies.Prepare(schedule.ProgramOf(static_cast<int>(rank)));
        run.statuses[rank] = executor.RunStep(step);
      }
      if (run.statuses[rank].ok()) run.persistent[rank] = bodies.Persistent();
    });
  }
  for (std::thread& host : hosts) host.join();
  return run;
}

}  // namespace shardscope::executor
