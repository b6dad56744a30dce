// What a rank is doing right now, for the message about a rank that others wait for.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/executor/op_bodies.h"
#include "trace/base/mutex.h"

namespace shardscope::executor {

enum class OpStage : uint8_t {
  kSlot,     // it waits for a compute slot
  kRunning,  // also a collective that waits for other ranks
};

// The op that a stream is at; not one that still waits for the ops it depends on.
struct CurrentOp {
  plan::OpIndex op = plan::kNone;
  std::string name;
  plan::StreamIndex stream = 0;
  OpStage stage = OpStage::kRunning;
  bool waits_for_ranks = false;  // a collective, or the control op in which all ranks meet
  bool is_control = false;
  int64_t since_ns = 0;  // when it came to this stage
};

struct Activity {
  int rank = 0;
  int64_t step = -1;                         // -1: between steps
  const plan::Schedule* schedule = nullptr;  // of the step; lives as long as its owner says
  std::vector<CurrentOp> ops;                // of the streams that have one, in stream order

  // What keeps the rank busy: the op that has run longest and does not wait for other ranks, else
  // one that waits for a slot, else a collective; null if there is none.
  const CurrentOp* Main() const;
};

// "rank 2 hangs in 'F m0 block3.attention' (op 41, step 7) for 5.0 s". It "hangs" if it has been
// there for at least `patience_ns`.
std::string Describe(const Activity& activity, int64_t now_ns, int64_t patience_ns);

// Where a rank's threads note what they do. Two stores of an atomic a stage: cheap enough to be
// always on. Threads: Set and Clear on the stream's own thread, Begin and End on the host's, Read
// on any.
class ActivityBoard {
 public:
  explicit ActivityBoard(int rank) : rank_(rank) {}

  // `context` and what it points to live until End().
  void Begin(const OpContext& context);
  void End();

  void Set(plan::StreamIndex stream, plan::OpIndex op, OpStage stage, int64_t since_ns) {
    Slot& slot = slots_[static_cast<size_t>(stream)];
    slot.since_ns.store(since_ns, std::memory_order_relaxed);
    slot.op_and_stage.store(int64_t{op} * 4 + static_cast<int64_t>(stage),
                            std::memory_order_release);
  }
  void Clear(plan::StreamIndex stream) {
    slots_[static_cast<size_t>(stream)].op_and_stage.store(kNothing, std::memory_order_release);
  }

  Activity Read() const;

 private:
  static constexpr int64_t kNothing = -1;
  struct Slot {
    std::atomic<int64_t> op_and_stage{kNothing};
    std::atomic<int64_t> since_ns{0};
  };

  const int rank_;
  mutable Mutex mutex_;                               // guards `slots_` against being replaced, too
  std::optional<OpContext> step_ GUARDED_BY(mutex_);  // nothing between steps
  std::vector<Slot> slots_;                           // by stream
};

}  // namespace shardscope::executor
