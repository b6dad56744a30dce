#include "trace/analysis/names.h"

#include <algorithm>
#include <array>

#include "trace/base/enum_count.h"

namespace shardscope::analysis {
namespace {

// What stands in front of the unit or segment.
std::string Verb(const query::PlanOp& op) {
  if (const auto known = words::ParseOpKind(op.kind)) {
    return std::string(words::TraitsOf(*known).short_name);
  }
  std::string verb = op.kind;
  std::replace(verb.begin(), verb.end(), '_', ' ');
  return verb;
}

}  // namespace

std::string ShortName(const query::PlanOp& op) {
  std::string name = Verb(op);
  if (op.micro_batch > 0) name += " m" + std::to_string(op.micro_batch);
  const std::string& object = op.segment.empty() ? op.unit : op.segment;
  if (!object.empty()) name += " " + object;
  return name;
}

std::string_view PhaseLetter(const query::PlanOp& op) {
  const auto phase = words::ParsePhase(op.phase);
  if (!phase) return "";
  switch (*phase) {
    case words::Phase::kForward:
      return "F";
    case words::Phase::kBackward:
      return "B";
    case words::Phase::kOptimizer:
      return "O";
    case words::Phase::kEvaluation:
      break;
  }
  return "E";
}

std::string StallTitle(const query::PlanOp& blocking, const query::PlanOp& waiting) {
  const std::string_view letter = PhaseLetter(waiting);
  std::string title = ShortName(blocking);
  if (!letter.empty()) title += " \xE2\x86\x92 " + std::string(letter);
  return title;
}

std::string_view Name(ScopeKind kind) {
  static constexpr auto kNames = std::to_array<std::string_view>(
      {"since_change", "last_steps", "in_view", "selection", "whole_run", "steps"});
  static_assert(kNames.size() == kCountOf<ScopeKind>);
  return kNames[static_cast<size_t>(kind)];
}

}  // namespace shardscope::analysis
