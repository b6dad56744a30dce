#include "engine/executor/activity.h"

#include <tuple>

#include "trace/base/mutex.h"
#include "trace/base/units.h"

namespace shardscope::executor {
namespace {

// Smaller is blamed first.
int Blame(const CurrentOp& op) {
  if (op.stage == OpStage::kRunning) return op.waits_for_ranks ? 2 : 0;
  return 1;
}

}  // namespace

const CurrentOp* Activity::Main() const {
  const CurrentOp* main = nullptr;
  for (const CurrentOp& op : ops) {
    if (main == nullptr ||
        std::tuple(Blame(op), op.since_ns) < std::tuple(Blame(*main), main->since_ns)) {
      main = &op;
    }
  }
  return main;
}

std::string Describe(const Activity& activity, int64_t now_ns, int64_t patience_ns) {
  const std::string rank = "rank " + std::to_string(activity.rank);
  if (activity.step == -1) return rank + " is between two steps or has ended";
  const CurrentOp* op = activity.Main();
  const std::string step =
      activity.step < 0 ? "an evaluation" : "step " + std::to_string(activity.step);
  if (op == nullptr) return rank + " is between two ops of " + step;
  const int64_t length_ns = now_ns - op->since_ns;
  std::string verb = length_ns >= patience_ns ? " hangs in" : " is still in";
  if (op->stage == OpStage::kSlot) verb = " waits for a compute slot for";
  // Whether it waits for others there or never got as far, only the transport can tell.
  if (op->waits_for_ranks && !op->is_control) verb = " has been in the collective";
  return rank + verb + " '" + op->name + "' (op " + std::to_string(op->op) + ", " + step +
         ") for " + FormatDuration(length_ns);
}

void ActivityBoard::Begin(const OpContext& context) {
  const MutexLock lock(mutex_);
  const size_t num_streams = context.schedule->streams.size();
  if (slots_.size() < num_streams) slots_ = std::vector<Slot>(num_streams);
  step_ = context;
}

void ActivityBoard::End() {
  const MutexLock lock(mutex_);
  step_.reset();
}

Activity ActivityBoard::Read() const {
  const MutexLock lock(mutex_);
  Activity activity;
  activity.rank = rank_;
  if (!step_) return activity;
  activity.step = step_->step;
  activity.schedule = step_->schedule;
  for (size_t stream = 0; stream < slots_.size(); ++stream) {
    const int64_t packed = slots_[stream].op_and_stage.load(std::memory_order_acquire);
    if (packed == kNothing) continue;
    CurrentOp current;
    current.op = static_cast<plan::OpIndex>(packed / 4);
    current.stage = static_cast<OpStage>(packed % 4);
    current.since_ns = slots_[stream].since_ns.load(std::memory_order_relaxed);
    current.stream = static_cast<plan::StreamIndex>(stream);
    const plan::Op& op = step_->program->ops[static_cast<size_t>(current.op)];
    current.name = plan::OpName(*step_->schedule, op);
    current.is_control = op.kind == plan::OpKind::kControl;
    current.waits_for_ranks = op.communicator != plan::kNone || current.is_control;
    activity.ops.push_back(std::move(current));
  }
  return activity;
}

}  // namespace shardscope::executor
