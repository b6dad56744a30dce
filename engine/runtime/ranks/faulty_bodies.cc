#include "engine/runtime/ranks/faulty_bodies.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <stdexcept>
#include <vector>

#include "trace/base/text.h"

namespace shardscope::runtime {
namespace {

// By its name or its index; names may repeat, and the first op of that name in the step fails.
bool IsAt(const config::Fault& fault, const plan::Schedule& schedule, const plan::Op& op,
          plan::OpIndex index) {
  return fault.op == std::to_string(index) || fault.op == plan::OpName(schedule, op);
}

}  // namespace

Status CheckFault(const config::Fault& fault, const plan::Schedule& schedule) {
  std::vector<std::string> names;
  const plan::Program& program = schedule.ProgramOf(fault.rank);
  for (size_t index = 0; index < program.ops.size(); ++index) {
    if (IsAt(fault, schedule, program.ops[index], static_cast<plan::OpIndex>(index))) {
      return Status::Ok();
    }
    names.push_back(plan::OpName(schedule, program.ops[index]));
  }
  std::string message = "debug.fault: the schedule has no op '" + fault.op + "'";
  const auto nearest = NearestName(fault.op, names);
  message += nearest ? "; did you mean '" + *nearest + "'?"
                     : "; its ops are 0 to " + std::to_string(names.size() - 1) +
                           ", `shardscope plan` names them";
  return Status::Error(message);
}

void FaultyBodies::Run(const executor::OpContext& context) {
  const bool is_here = context.rank == fault_.rank && context.step == fault_.step &&
                       IsAt(fault_, *context.schedule, context.op(), context.index);
  if (!is_here) return bodies_->Run(context);
  switch (fault_.kind) {
    case config::FaultKind::kThrow:
      throw std::runtime_error("debug.fault threw");
    case config::FaultKind::kHang:
      while (true) pause();
    case config::FaultKind::kKill:
      raise(SIGKILL);
      return;
  }
}

}  // namespace shardscope::runtime
