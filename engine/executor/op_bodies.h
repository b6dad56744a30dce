// OpBodies: what the ops of a rank do when their turn comes. engine/runtime implements it with
// LibTorch; tests and the interpreter implement it with plain arrays. When is up to the executor,
// what is up to this.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>

#include "engine/plan/schedule.h"
#include "trace/record/recorder.h"

namespace shardscope::executor {

struct OpContext {
  const plan::Schedule* schedule = nullptr;
  const plan::Program* program = nullptr;
  plan::OpIndex index = 0;
  int rank = 0;
  int64_t step = 0;
  int64_t issued_ns = 0;  // when the host issued the op
  // A GPU's queue that the op's work goes to (a cudaStream_t); null on the CPU.
  void* device_stream = nullptr;
  // On the CPU, of a receive: its body moves it from when it began to wait to when the sender came.
  int64_t* started_ns = nullptr;

  const plan::Op& op() const { return program->ops[static_cast<size_t>(index)]; }
  const plan::Buffer& buffer(plan::BufferId id) const {
    return program->buffers[static_cast<size_t>(id)];
  }
};

// What the trace calls an op run, so that rows of the GPU's work can refer to it. Any thread, for
// ops of Schedules that are registered with the trace.
struct OpIds {
  std::function<schema::PlanOpId(const OpContext& context)> plan_op;
  std::function<schema::TrackId(const OpContext& context)> track;  // of the op's stream
};

// `what` with the rank, step and op at which it went wrong, as errors reach the user.
inline std::string Located(const OpContext& context, const std::string& what) {
  return "rank " + std::to_string(context.rank) + ", step " + std::to_string(context.step) +
         ", op '" + plan::OpName(*context.schedule, context.op()) + "' (op " +
         std::to_string(context.index) + "): " + what;
}

// What is said of an op's error that says nothing itself.
inline constexpr const char* kForeignError = "threw something that is not a std::exception";

// An op failed because another rank did not do its part. The text names that rank and its op, so
// that nothing is added to it.
class OtherRankError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Threads, on the CPU: all three are called on the thread of the op's stream, one op of a stream at
// a time; ops of different streams run at the same moment. On a GPU: all three are called when the
// op is issued, on the rank's host thread in host order, and only put work on
// context.device_stream, which waits by itself for what the op depends on. An exception fails the
// step on all ranks; its text reaches the user with rank and op.
class OpBodies {
 public:
  virtual ~OpBodies() = default;

  // Before Run of an op that allocates `buffer`. Returns the bytes taken (for the memory ledgers).
  virtual int64_t Allocate(const OpContext& context, plan::BufferId buffer) = 0;

  // The work itself. Collectives block here until the transport is done (on a GPU: until they are
  // on the stream).
  virtual void Run(const OpContext& context) = 0;

  // On a GPU, of an op that the host does when the op's stream comes to it: that work, for which
  // Run is not called. It may throw as Run does, and asks nothing of the device, on one of whose
  // threads it runs; buffers that the op frees may be given back before. Empty: there is none.
  virtual std::function<void()> HostWork(const OpContext& /*context*/) { return nullptr; }

  // After Run of an op that frees `buffer`; on a GPU possibly later, once memory of the stream that
  // allocated it may be handed out again (engine/cuda/device/reuse.h), and always within the step.
  // Returns the bytes given back.
  virtual int64_t Free(const OpContext& context, plan::BufferId buffer) = 0;
};

}  // namespace shardscope::executor
