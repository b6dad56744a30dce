#include "engine/plan/written_schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "engine/plan/text.h"
#include "engine/plan/validate.h"
#include "trace/base/input_file.h"

namespace shardscope::plan {
namespace {

constexpr size_t kMaxScheduleBytes = size_t{256} << 20;

// All of an op but when it runs. Buffers are the same in both, so their ids say which.
std::string WorkText(const Op& op) {
  const Category category = CategoryOf(op.kind);
  // A release does nothing but free: files of before outputs were freed on the copy-in stream stay
  // usable.
  const bool may_change_stream =
      op.stream != 0 && (category == Category::kCommunication || category == Category::kCopy ||
                         op.kind == OpKind::kRelease);
  return fmt::format("{} {} {} {} {} {} {} {} {}", op.communicator, op.peer, op.root,
                     Name(op.dtype), op.payload_bytes, op.wire_bytes,
                     may_change_stream ? kNone : op.stream, fmt::join(op.reads, ","),
                     fmt::join(op.writes, ","));
}

// By name of an op all that is so called.
using Works = std::map<std::string, std::vector<std::string>>;

Works OpsOf(const Schedule& schedule, const Program& program) {
  Works works;
  for (const Op& op : program.ops) works[OpName(schedule, op)].push_back(WorkText(op));
  for (auto& [name, texts] : works) std::ranges::sort(texts);
  return works;
}

// Who uses a buffer: each op that writes it, behind those that read it before.
using Uses = std::vector<std::string>;

// By buffer. The validator has shown that what writes a buffer is ordered with all else that uses
// it, and an order is never against that of the list: so this is the order in which they run.
std::vector<Uses> UsesOf(const Schedule& schedule, const Program& program) {
  std::vector<Uses> uses(program.buffers.size());
  std::vector<Uses> readers(program.buffers.size());  // since it was written last
  const auto end_reading = [&](size_t buffer) {
    std::ranges::sort(readers[buffer]);
    std::ranges::move(readers[buffer], std::back_inserter(uses[buffer]));
    readers[buffer].clear();
  };
  for (const Op& op : program.ops) {
    const std::string name = OpName(schedule, op);
    for (const BufferId id : op.reads) {
      const bool writes = std::ranges::find(op.writes, id) != op.writes.end();
      if (!writes) readers[static_cast<size_t>(id)].push_back(name);
    }
    for (const BufferId id : op.writes) {
      const auto buffer = static_cast<size_t>(id);
      end_reading(buffer);
      uses[buffer].push_back("writes: " + name);
    }
  }
  for (size_t buffer = 0; buffer < uses.size(); ++buffer) end_reading(buffer);
  return uses;
}

bool Touches(const Op& op, BufferId buffer) {
  for (const auto* touched : {&op.allocates, &op.reads, &op.writes, &op.frees}) {
    if (std::ranges::find(*touched, buffer) != touched->end()) return true;
  }
  return false;
}

// Whether op `after` has to stay behind op `before`.
bool Needs(const Program& program, OpIndex after, OpIndex before) {
  const Op& late = program.ops[static_cast<size_t>(after)];
  const Op& early = program.ops[static_cast<size_t>(before)];
  for (const Dependency& dependency : late.dependencies) {
    const bool is_stream = dependency.kind == DependencyKind::kStream;
    if (dependency.target == (is_stream ? early.stream : before)) return true;
  }
  const auto is_shared = [](const Op& changing, const Op& other) {
    for (const auto* changed : {&changing.allocates, &changing.writes, &changing.frees}) {
      for (const BufferId buffer : *changed) {
        if (Touches(other, buffer)) return true;
      }
    }
    return false;
  };
  return is_shared(early, late) || is_shared(late, early);
}

// "" if the ops of both are the same.
std::string OtherOp(const Works& built, const Works& written) {
  for (const auto& [name, texts] : built) {
    const auto found = written.find(name);
    const size_t there = found == written.end() ? 0 : found->second.size();
    if (there < texts.size()) {
      return fmt::format("op '{}' is there {} instead of {}", name,
                         there == 0 ? "not at all" : fmt::format("{} times", there),
                         texts.size() == 1 ? "once" : fmt::format("{} times", texts.size()));
    }
    if (there == texts.size() && found->second != texts) {
      return fmt::format(
          "op '{}' is another one: other bytes, buffers, type, communicator or stream", name);
    }
  }
  for (const auto& [name, texts] : written) {
    const auto found = built.find(name);
    const size_t there = found == built.end() ? 0 : found->second.size();
    if (there < texts.size()) return fmt::format("op '{}' is one too many", name);
  }
  return "";
}

// "" if `written` does the work of `built`, which has the same buffers.
std::string OtherWork(const Schedule& schedule, const Program& built, const Program& written) {
  const std::string other = OtherOp(OpsOf(schedule, built), OpsOf(schedule, written));
  if (!other.empty()) return other;
  const std::vector<Uses> before = UsesOf(schedule, built);
  const std::vector<Uses> after = UsesOf(schedule, written);
  const auto differs = std::ranges::mismatch(before, after).in1;
  if (differs == before.end()) return "";
  const auto& buffer = built.buffers[static_cast<size_t>(differs - before.begin())];
  return fmt::format("buffer '{}' is written and read in another order",
                     BufferName(schedule, buffer));
}

}  // namespace

Result<Schedule> ReadSchedule(const std::string& path) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxScheduleBytes));
  Result<Schedule> schedule = ParseSchedule(text);
  if (!schedule.ok()) return Status::Error(path + ": " + schedule.message());
  const Status valid = Validate(*schedule);
  if (!valid.ok()) return Status::Error(path + ": " + valid.message());
  return schedule;
}

Status CheckSameWork(const Schedule& built, const Schedule& written, const std::string& path) {
  const auto differs = [&path](std::string_view what) {
    return Status::Error(
        fmt::format("{}: its {} other than this run's; begin with a text from the run's folder "
                    "schedules",
                    path, what));
  };
  if (built.mesh != written.mesh) return differs("mesh of ranks is");
  if (built.num_micro_batches != written.num_micro_batches) return differs("micro-batches are");
  if (built.units != written.units) return differs("units are");
  if (built.segments != written.segments) return differs("segments are");
  if (built.optimizer_state != written.optimizer_state) return differs("optimizer state is");
  if (built.streams != written.streams) return differs("streams are");
  if (built.communicators != written.communicators) return differs("communicators are");
  if (built.program_of_rank != written.program_of_rank) return differs("programs of ranks are");
  if (built.programs.size() != written.programs.size()) return differs("programs are");
  for (size_t index = 0; index < built.programs.size(); ++index) {
    const Program& from = built.programs[index];
    const Program& to = written.programs[index];
    // What ranks keep lies in memory in their order.
    if (from.buffers != to.buffers) return differs("buffers are");
    const std::string other = OtherWork(built, from, to);
    if (!other.empty()) {
      return Status::Error(
          fmt::format("{}: it does other work than this run does: {}", path, other));
    }
    // Ranks agree there on what the next step is, before anything of this one.
    if (!to.ops.empty() && to.ops[0].kind != from.ops[0].kind) {
      return Status::Error(
          fmt::format("{}: the first op has to be '{}'", path, OpName(built, from.ops[0])));
    }
  }
  return Status::Ok();
}

void MoveOp(OpIndex from, OpIndex to, Program* program) {
  const auto begin = program->ops.begin();
  if (from < to) std::rotate(begin + from, begin + from + 1, begin + to + 1);
  if (to < from) std::rotate(begin + to, begin + from, begin + from + 1);
  const auto moved = [from, to](OpIndex op) {
    if (op == from) return to;
    if (from < op && op <= to) return op - 1;
    if (to <= op && op < from) return op + 1;
    return op;
  };
  for (Op& op : program->ops) {
    for (Dependency& dependency : op.dependencies) {
      if (dependency.kind != DependencyKind::kStream) dependency.target = moved(dependency.target);
    }
  }
}

OpIndex IssueEarlier(OpIndex op, Program* program) {
  OpIndex first = op;  // of those that move together
  const auto is_needed = [&](OpIndex before) {
    for (OpIndex moving = first; moving <= op; ++moving) {
      if (Needs(*program, moving, before)) return true;
    }
    return false;
  };
  while (first > 1 && is_needed(first - 1)) --first;
  if (first <= 1) return op;  // the first op of a step stays
  MoveOp(first - 1, op, program);
  return op - 1;
}

OpIndex IssueLater(OpIndex op, Program* program) {
  const auto num_ops = static_cast<OpIndex>(program->ops.size());
  OpIndex last = op;
  const auto needs_one = [&](OpIndex after) {
    for (OpIndex moving = op; moving <= last; ++moving) {
      if (Needs(*program, after, moving)) return true;
    }
    return false;
  };
  while (last + 1 < num_ops && needs_one(last + 1)) ++last;
  if (op == 0 || last + 1 == num_ops) return op;
  MoveOp(last + 1, op, program);
  return op + 1;
}

}  // namespace shardscope::plan
