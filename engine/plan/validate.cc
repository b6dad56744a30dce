#include "engine/plan/validate.h"

#include <algorithm>
#include <vector>

#include "engine/plan/checks/checks.h"

namespace shardscope::plan {
namespace {

constexpr OpIndex kRowsAround = 5;  // before and after the failing op

std::string Padded(std::string text, size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

std::string Grid(const Schedule& schedule, const Program& program, OpIndex failing) {
  const OpIndex begin = std::max(0, failing - kRowsAround);
  const OpIndex end = std::min(static_cast<OpIndex>(program.ops.size()), failing + kRowsAround + 1);
  const auto cell_of = [&](OpIndex index) {
    return OpName(schedule, program.ops[static_cast<size_t>(index)]);
  };
  std::vector<size_t> widths;
  for (const Stream& stream : schedule.streams) widths.push_back(stream.name.size());
  for (OpIndex index = begin; index < end; ++index) {
    const auto stream = static_cast<size_t>(program.ops[static_cast<size_t>(index)].stream);
    if (stream < widths.size()) widths[stream] = std::max(widths[stream], cell_of(index).size());
  }

  constexpr size_t kIndexWidth = 7;
  std::string text = std::string(kIndexWidth + 2, ' ');
  for (size_t stream = 0; stream < widths.size(); ++stream) {
    text += "| " + Padded(schedule.streams[stream].name, widths[stream]) + " ";
  }
  for (OpIndex index = begin; index < end; ++index) {
    std::string number = std::to_string(index);
    number.insert(0, kIndexWidth - std::min(number.size(), kIndexWidth), ' ');
    text += (index == failing ? "\n>" : "\n ") + number + " ";
    const auto own = static_cast<size_t>(program.ops[static_cast<size_t>(index)].stream);
    for (size_t stream = 0; stream < widths.size(); ++stream) {
      text += "| " + Padded(stream == own ? cell_of(index) : "", widths[stream]) + " ";
    }
  }
  return text;
}

}  // namespace

Refusal RefusalAt(const Schedule& schedule, const Program& program, RefusalKind kind, OpIndex index,
                  const std::string& what) {
  Refusal refusal;
  refusal.kind = kind;
  refusal.program = static_cast<int32_t>(&program - schedule.programs.data());
  refusal.op = index;
  std::string text = "op " + std::to_string(index) + " '" +
                     OpName(schedule, program.ops[static_cast<size_t>(index)]) + "' " + what;
  if (schedule.programs.size() > 1) {
    for (size_t rank = 0; rank < schedule.program_of_rank.size(); ++rank) {
      if (schedule.program_of_rank[rank] != refusal.program) continue;
      text += " (rank " + std::to_string(rank) + ")";
      break;
    }
  }
  refusal.message = text + "\n" + Grid(schedule, program, index);
  return refusal;
}

std::optional<Refusal> FindRefusal(const Schedule& schedule) {
  for (const auto check : {CheckStructure, CheckSizes, CheckCollectivesMatch, CheckNoDeadlock}) {
    if (std::optional<Refusal> refusal = check(schedule)) return refusal;
  }
  for (const Program& program : schedule.programs) {
    if (std::optional<Refusal> refusal = CheckLifetimes(schedule, program)) return refusal;
  }
  return std::nullopt;
}

Status Validate(const Schedule& schedule) {
  std::optional<Refusal> refusal = FindRefusal(schedule);
  return refusal ? Status::Error(std::move(refusal->message)) : Status::Ok();
}

}  // namespace shardscope::plan
