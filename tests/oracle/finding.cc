#include "tests/oracle/finding.h"

#include <array>

namespace shardscope::oracle {

std::string_view Name(Harm harm) {
  static constexpr std::array<std::string_view, 13> kNames = {
      "nothing",           "names nothing",     "wrong bytes",        "mismatch",
      "no partner",        "deadlock",          "use of dead memory", "read of poison",
      "changed under use", "double allocation", "bad free",           "leak",
      "wrong result"};
  return kNames[static_cast<size_t>(harm)];
}

std::string Describe(const plan::Schedule& schedule, const Finding& finding) {
  const plan::Program& program = schedule.ProgramOf(finding.rank);
  const auto named = [&](plan::OpIndex op) {
    return "op " + std::to_string(op) + " '" +
           plan::OpName(schedule, program.ops[static_cast<size_t>(op)]) + "'";
  };
  std::string text = "rank " + std::to_string(finding.rank);
  if (finding.op != plan::kNone) text += " " + named(finding.op);
  text += ": " + std::string(Name(finding.harm));
  if (finding.buffer != plan::kNone) {
    const plan::Buffer& buffer = program.buffers[static_cast<size_t>(finding.buffer)];
    text += ", buffer " + std::to_string(finding.buffer) + " '" +
            plan::BufferName(schedule, buffer) + "'";
  }
  return text;
}

}  // namespace shardscope::oracle
