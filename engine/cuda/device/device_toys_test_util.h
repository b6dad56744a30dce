// For tests: executor::ToyBodies on the fake GPU. The same numbers, but kept in device memory that
// is really handed out again, and mixed by work on streams: whatever runs in the wrong order, or
// writes where something else still lies, changes the result.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "engine/cuda/device/cuda_runner.h"
#include "engine/cuda/device/reuse.h"
#include "engine/executor/toy_bodies_test_util.h"
#include "tests/fake_cuda/fake_runtime_test_util.h"
#include "trace/base/mutex.h"

namespace shardscope::cuda {

// One rank's part in a collective: a number on the device, there once `ready` is passed.
struct DeviceShare {
  const uint64_t* number = nullptr;
  Event ready = nullptr;
};

// The hosts of all ranks meet, so that every event is recorded before anything waits for it.
class DeviceExchange {
 public:
  // What every rank brought, in rank order; throws if aborted.
  std::vector<DeviceShare> Meet(const executor::ToyMeeting& with, DeviceShare share) {
    MutexLock lock(mutex_);
    Meeting& meeting = meetings_[with.key];
    meeting.shares.resize(with.size);
    meeting.shares[with.place] = share;
    const int generation = meeting.generation;
    if (++meeting.num_arrived == with.size) {
      meeting.num_arrived = 0;
      meeting.result = meeting.shares;
      ++meeting.generation;
      changed_.notify_all();
    }
    changed_.wait(
        lock, [&]() REQUIRES(mutex_) { return meeting.generation != generation || is_aborted_; });
    if (meeting.generation == generation) throw executor::OtherRankError("aborted");
    return meeting.result;
  }

  void Abort() {
    const MutexLock lock(mutex_);
    is_aborted_ = true;
    changed_.notify_all();
  }

 private:
  struct Meeting {
    std::vector<DeviceShare> shares;
    std::vector<DeviceShare> result;
    size_t num_arrived = 0;
    int generation = 0;
  };
  Mutex mutex_;
  CondVar changed_;
  std::map<plan::Meeting, Meeting> meetings_ GUARDED_BY(mutex_);
  bool is_aborted_ GUARDED_BY(mutex_) = false;
};

enum class ToyMemory : uint8_t { kPool, kCaching };

class DeviceToyBodies : public executor::OpBodies {
 public:
  using Persistent = std::map<std::pair<plan::BufferKind, int32_t>, uint64_t>;

  DeviceToyBodies(DeviceExchange* exchange, ToyMemory memory)
      : exchange_(exchange), memory_(memory) {}
  ~DeviceToyBodies() override;

  // Before each step.
  void Prepare(const plan::Schedule& schedule, const plan::Program& program);
  // After the last.
  Persistent TakePersistent() const;

  int64_t Allocate(const executor::OpContext& context, plan::BufferId buffer) override;
  void Run(const executor::OpContext& context) override;
  // Of the stream on which the host updates.
  std::function<void()> HostWork(const executor::OpContext& context) override;
  int64_t Free(const executor::OpContext& context, plan::BufferId buffer) override;

  // Ops that throw, for tests.
  executor::DelayHook on_run;

 private:
  // Where a buffer lies now: all of its words hold its number.
  struct Cell {
    uint64_t* words = nullptr;
    size_t size = 0;
    Stream stream = nullptr;  // that allocated it
  };
  static constexpr uint64_t kSpoiled = 0xDDDD'DDDD'DDDD'DDDD;
  static size_t WordsOf(const plan::Buffer& buffer) {
    // Of the toy model's megabytes as many as keep the sizes apart.
    return 1 + static_cast<size_t>(buffer.bytes) / 512;
  }
  static uint64_t Mix(uint64_t a, uint64_t b);
  static uint64_t Read(const Cell& cell);
  static void Fill(const Cell& cell, uint64_t value);
  void Enqueue(Stream stream, std::function<void()> work);
  uint64_t* Slot();
  std::function<void()> Mixing(const executor::OpContext& context, uint64_t* mixed);
  std::function<void()> Writing(const executor::OpContext& context, const uint64_t* mixed);
  // What ToyBodies makes of all ranks' numbers.
  uint64_t* Exchange(const executor::OpContext& context, uint64_t* mixed);
  Cell& CellOf(plan::BufferId buffer) { return cells_[static_cast<size_t>(buffer)]; }

  DeviceExchange* const exchange_;
  const ToyMemory memory_;
  std::vector<Cell> cells_;
  std::map<std::pair<plan::BufferKind, int32_t>, uint64_t> persistent_;
  // Numbers that work on the device leaves for other work; kept, as other ranks read them.
  std::deque<uint64_t> slots_;
  std::deque<std::function<void()>> works_;
  std::vector<Event> events_;
  std::byte* slab_ = nullptr;
  Placement placement_;
  std::map<std::pair<Stream, size_t>, std::vector<uint64_t*>> freed_;  // by stream and size
  std::vector<void*> blocks_;
};

inline DeviceToyBodies::~DeviceToyBodies() {
  const RuntimeApi& api = TheFake().api;
  for (const Event event : events_) api.EventDestroy(event);
  for (void* const block : blocks_) api.Free(block);
}

inline uint64_t DeviceToyBodies::Mix(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9E3779B97F4A7C15 + b;
  x ^= x >> 29;
  return x * 0xBF58476D1CE4E5B9;
}

// A buffer that was partly overwritten reads as another number.
inline uint64_t DeviceToyBodies::Read(const Cell& cell) {
  for (size_t i = 1; i < cell.size; ++i) {
    if (cell.words[i] != cell.words[0]) return ~cell.words[i];
  }
  return cell.words[0];
}

inline void DeviceToyBodies::Fill(const Cell& cell, uint64_t value) {
  for (size_t i = 0; i < cell.size; ++i) cell.words[i] = value;
}

// Kept until the end: after a fault the device never comes to it.
inline void DeviceToyBodies::Enqueue(Stream stream, std::function<void()> work) {
  works_.push_back(std::move(work));
  const auto run = [](void* argument) { (*static_cast<std::function<void()>*>(argument))(); };
  Check(TheFake().api, "launch", TheFake().launch(stream, run, &works_.back()));
}

inline uint64_t* DeviceToyBodies::Slot() {
  slots_.push_back(0);
  return &slots_.back();
}

inline void DeviceToyBodies::Prepare(const plan::Schedule& schedule, const plan::Program& program) {
  cells_.assign(program.buffers.size(), {});
  for (size_t i = 0; i < cells_.size(); ++i) {
    const plan::Buffer& buffer = program.buffers[i];
    if (buffer.persistent) cells_[i] = {&persistent_[{buffer.kind, buffer.unit}], 1};
  }
  if (memory_ == ToyMemory::kCaching) return;
  placement_ = PlaceBuffers(schedule, program, [](const plan::Buffer& buffer) {
    return static_cast<int64_t>(WordsOf(buffer) * sizeof(uint64_t));
  });
  void* slab = nullptr;
  const auto bytes = static_cast<size_t>(placement_.bytes);
  Check(TheFake().api, "cudaMalloc", TheFake().api.Malloc(&slab, bytes));
  slab_ = static_cast<std::byte*>(slab);
  blocks_.push_back(slab);
}

inline DeviceToyBodies::Persistent DeviceToyBodies::TakePersistent() const { return persistent_; }

inline int64_t DeviceToyBodies::Allocate(const executor::OpContext& context,
                                         plan::BufferId buffer) {
  Cell& cell = CellOf(buffer);
  if (cell.words != nullptr) throw std::runtime_error("allocated twice");
  cell.size = WordsOf(context.buffer(buffer));
  cell.stream = context.device_stream;
  if (memory_ == ToyMemory::kPool) {
    const int64_t offset = placement_.offsets[static_cast<size_t>(buffer)];
    cell.words = reinterpret_cast<uint64_t*>(slab_ + offset);
  } else if (std::vector<uint64_t*>& kept = freed_[{cell.stream, cell.size}]; !kept.empty()) {
    cell.words = kept.back();
    kept.pop_back();
  } else {
    void* block = nullptr;
    Check(TheFake().api, "cudaMalloc", TheFake().api.Malloc(&block, cell.size * sizeof(uint64_t)));
    blocks_.push_back(block);
    cell.words = static_cast<uint64_t*>(block);
  }
  Enqueue(context.device_stream, [cell] { Fill(cell, 1); });
  return context.buffer(buffer).bytes;
}

// Caching: at once handed out to the next op of its stream that needs as much. In the pool: spoiled
// when the stream gets there, to expose a read after that.
inline int64_t DeviceToyBodies::Free(const executor::OpContext& context, plan::BufferId buffer) {
  Cell& cell = CellOf(buffer);
  if (cell.words == nullptr) throw std::runtime_error("freed twice");
  if (memory_ == ToyMemory::kCaching) {
    freed_[{cell.stream, cell.size}].push_back(cell.words);
  } else {
    Enqueue(context.device_stream, [freed = cell] { Fill(freed, kSpoiled); });
  }
  cell = {};
  return context.buffer(buffer).bytes;
}

inline void DeviceToyBodies::Run(const executor::OpContext& context) {
  const plan::Op& op = context.op();
  if (on_run) on_run(context);
  if (op.kind == plan::OpKind::kControl) exchange_->Meet(executor::ToyMeetingOf(context), {});
  uint64_t* mixed = Slot();
  Enqueue(context.device_stream, Mixing(context, mixed));
  if (op.communicator != plan::kNone) mixed = Exchange(context, mixed);
  Enqueue(context.device_stream, Writing(context, mixed));
}

inline std::function<void()> DeviceToyBodies::HostWork(const executor::OpContext& context) {
  const auto stream = static_cast<size_t>(context.op().stream);
  if (context.schedule->streams[stream].role != plan::StreamRole::kHostOptimizer) return nullptr;
  uint64_t* const mixed = Slot();
  return [context, hook = on_run, mix = Mixing(context, mixed), write = Writing(context, mixed)] {
    if (hook) hook(context);
    mix();
    write();
  };
}

inline std::function<void()> DeviceToyBodies::Writing(const executor::OpContext& context,
                                                      const uint64_t* mixed) {
  std::vector<Cell> written;
  for (const plan::BufferId buffer : context.op().writes) written.push_back(CellOf(buffer));
  return [written, mixed] {
    for (const Cell& cell : written) Fill(cell, Mix(Read(cell), *mixed));
  };
}

// What ToyBodies mixes from the op and what it reads.
inline std::function<void()> DeviceToyBodies::Mixing(const executor::OpContext& context,
                                                     uint64_t* mixed) {
  const plan::Op& op = context.op();
  uint64_t seed = Mix(static_cast<uint64_t>(op.kind), static_cast<uint64_t>(op.phase));
  seed = Mix(seed, static_cast<uint64_t>(op.segment));
  std::vector<Cell> read;
  for (const plan::BufferId buffer : op.reads) {
    if (CellOf(buffer).words == nullptr) throw std::runtime_error("reads what is not there");
    read.push_back(CellOf(buffer));
  }
  return [read, seed, mixed] {
    *mixed = seed;
    for (const Cell& cell : read) *mixed = Mix(*mixed, Read(cell));
  };
}

inline uint64_t* DeviceToyBodies::Exchange(const executor::OpContext& context, uint64_t* mixed) {
  const RuntimeApi& api = TheFake().api;
  Event ready = nullptr;
  Check(api, "cudaEventCreateWithFlags", api.EventCreateWithFlags(&ready, kEventDisableTiming));
  events_.push_back(ready);
  Check(api, "cudaEventRecord", api.EventRecord(ready, context.device_stream));
  const std::vector<DeviceShare> shares =
      exchange_->Meet(executor::ToyMeetingOf(context), {mixed, ready});
  for (const DeviceShare& share : shares) {
    Check(api, "cudaStreamWaitEvent", api.StreamWaitEvent(context.device_stream, share.ready, 0));
  }
  const auto rank = static_cast<uint64_t>(context.rank);
  uint64_t* const result = Slot();
  Enqueue(context.device_stream, [shares, rank, result] {
    *result = rank;
    for (const DeviceShare& share : shares) *result = Mix(*result, *share.number);
  });
  return result;  // and `mixed` stays: the others may still read it
}

struct DeviceToyOptions {
  int steps = 2;
  ToyMemory memory = ToyMemory::kCaching;
  // Freed when the op is issued although an allocator with one pool a stream needs it later: wrong.
  bool free_at_once = false;
  FakeOptions fake;
  executor::DelayHook on_run;
};

struct DeviceToyRun {
  std::vector<Status> statuses;                               // by rank
  std::vector<std::unique_ptr<executor::KeepingSink>> sinks;  // by rank, of the last step
  std::vector<DeviceToyBodies::Persistent> persistent;        // by rank
  std::string violations;
  std::string calls;
  FakeCounts left;  // after everything was destroyed
};

// Runs all ranks of a Schedule on one fake GPU.
inline DeviceToyRun RunOnDevice(const plan::Schedule& schedule, const DeviceToyOptions& options) {
  const Fake& fake = TheFake();
  fake.control->reset(&options.fake);
  DeviceExchange exchange;
  const auto num_ranks = static_cast<size_t>(schedule.num_ranks());
  std::vector<std::unique_ptr<DeviceToyBodies>> bodies(num_ranks);
  DeviceToyRun run;
  run.statuses.resize(num_ranks);
  run.sinks.resize(num_ranks);
  run.persistent.resize(num_ranks);
  std::vector<std::thread> hosts;
  for (size_t rank = 0; rank < num_ranks; ++rank) {
    run.sinks[rank] = std::make_unique<executor::KeepingSink>();
    bodies[rank] = std::make_unique<DeviceToyBodies>(&exchange, options.memory);
    bodies[rank]->on_run = options.on_run;
    hosts.emplace_back([&, rank] {
      fake.control->name_thread(static_cast<int>(rank));
      CudaRunner executor(
          {.rank = static_cast<int>(rank),
           .api = fake.api,
           .bodies = bodies[rank].get(),
           .sink = run.sinks[rank].get(),
           .free_late = options.memory == ToyMemory::kCaching && !options.free_at_once});
      executor.set_on_failure([&](executor::Culprit) { exchange.Abort(); });
      run.statuses[rank] = executor.SetSchedule(schedule);
      for (int step = 0; step < options.steps && run.statuses[rank].ok(); ++step) {
        run.sinks[rank]->Clear();
        bodies[rank]->Prepare(schedule, schedule.ProgramOf(static_cast<int>(rank)));
        run.statuses[rank] = executor.RunStep(step);
      }
      run.persistent[rank] = bodies[rank]->TakePersistent();
    });
  }
  for (std::thread& host : hosts) host.join();
  bodies.clear();
  run.violations = fake.control->violations();
  run.calls = fake.control->calls();
  run.left = fake.control->counts();
  return run;
}

}  // namespace shardscope::cuda
