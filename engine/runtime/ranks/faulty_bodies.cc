#include "engine/runtime/ranks/faulty_bodies.h"

#include <unistd.h>

#include <csignal>
#include <stdexcept>
#include <vector>

#include "engine/model/initialize.h"
#include "trace/base/text.h"
#include "trace/base/time.h"

namespace shardscope::runtime {

using executor::OpContext;

namespace {

int64_t ShareOf(int64_t time_ns, double share) {
  return static_cast<int64_t>(share * static_cast<double>(time_ns));
}

bool IsFor(config::FaultKind kind, const plan::Op& op) {
  if (kind == config::FaultKind::kSkip) return plan::IsCollective(op.kind);
  return op.kind == plan::OpKind::kForward;
}

// Names may repeat: the first op of that name. kNone: there is none.
plan::OpIndex FindOp(const config::Fault& fault, const plan::Schedule& schedule) {
  const std::vector<plan::Op>& ops = schedule.ProgramOf(fault.rank).ops;
  for (size_t index = 0; index < ops.size(); ++index) {
    const bool is_it = fault.op.empty() ? IsFor(fault.kind, ops[index])
                                        : fault.op == std::to_string(index) ||
                                              fault.op == plan::OpName(schedule, ops[index]);
    if (is_it) return static_cast<plan::OpIndex>(index);
  }
  return plan::kNone;
}

}  // namespace

Status CheckFault(const config::Fault& fault, const plan::Schedule& schedule) {
  const std::vector<plan::Op>& ops = schedule.ProgramOf(fault.rank).ops;
  const plan::OpIndex found = FindOp(fault, schedule);
  std::string message(config::KeyOf(fault.kind));
  if (found != plan::kNone) {
    const plan::Op& op = ops[static_cast<size_t>(found)];
    if (fault.kind != config::FaultKind::kSkip || plan::IsCollective(op.kind)) return Status::Ok();
    return Status::Error(message + ": '" + plan::OpName(schedule, op) + "' is no collective");
  }
  if (fault.op.empty()) return Status::Error(message + ": the schedule has no collective");
  std::vector<std::string> names;
  for (const plan::Op& op : ops) names.push_back(plan::OpName(schedule, op));
  message += ": the schedule has no op '" + fault.op + "'";
  const auto nearest = NearestName(fault.op, names);
  message += nearest ? "; did you mean '" + *nearest + "'?"
                     : "; its ops are 0 to " + std::to_string(names.size() - 1) +
                           ", `shardscope plan` names them";
  return Status::Error(message);
}

int64_t DelayNs(const config::Delay& delay, const OpContext& context, int64_t op_ns) {
  const bool is_here = context.rank == delay.rank && context.step >= delay.steps.begin &&
                       context.step < delay.steps.end;
  if (!is_here) return 0;
  const plan::Op& op = context.op();
  const bool is_first = op.kind == plan::OpKind::kForward && op.segment == 0 && op.micro_batch == 0;
  return (is_first ? delay.slowdown.duration_ns : 0) + ShareOf(op_ns, delay.slowdown.share);
}

int64_t JitterNs(const config::Slowdown& jitter, uint64_t seed, const OpContext& context,
                 int64_t op_ns) {
  for (const int64_t number : {context.step, int64_t{context.rank}, int64_t{context.index}}) {
    seed = model::MixedBits(seed, static_cast<uint64_t>(number));
  }
  const double uniform = static_cast<double>(seed >> 11) * 0x1p-53;
  return ShareOf(jitter.duration_ns + ShareOf(op_ns, jitter.share), uniform);
}

void FaultyBodies::RunLate(const OpContext& context) {
  const int64_t start_ns = MonotonicNs();
  bodies_->Run(context);
  const int64_t end_ns = MonotonicNs();
  int64_t more_ns = 0;
  if (lateness_.delay) more_ns += DelayNs(*lateness_.delay, context, end_ns - start_ns);
  if (lateness_.jitter) {
    more_ns += JitterNs(*lateness_.jitter, job_.training.seed, context, end_ns - start_ns);
  }
  SleepUntilNs(end_ns + more_ns);
}

const config::Fault* FaultyBodies::FaultAt(const OpContext& context) const {
  for (const config::Fault& fault : job_.faults) {
    if (context.rank == fault.rank && context.step == fault.step &&
        context.index == FindOp(fault, *context.schedule)) {
      return &fault;
    }
  }
  return nullptr;
}

void FaultyBodies::Run(const OpContext& context) {
  if (const config::Fault* fault = FaultAt(context)) return Break(fault->kind);
  const bool may_be_late = plan::CategoryOf(context.op().kind) == plan::Category::kCompute &&
                           (lateness_.delay || lateness_.jitter);
  may_be_late ? RunLate(context) : bodies_->Run(context);
}

void FaultyBodies::Break(config::FaultKind kind) const {
  switch (kind) {
    case config::FaultKind::kDie:
      if (job_.only_rank) raise(SIGKILL);
      throw std::runtime_error("the rank dies (fault.die)");
    case config::FaultKind::kHang:
      while (true) pause();
    case config::FaultKind::kSkip:
      return;
  }
}

}  // namespace shardscope::runtime
