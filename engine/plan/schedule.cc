#include "engine/plan/schedule.h"

#include <algorithm>
#include <map>
#include <utility>

#include "trace/base/check.h"

namespace shardscope::plan {
namespace {

// One pass over a program; keeps the last op of every stream and queue.
class PredecessorWalk {
 public:
  // The predecessors of `op`, which stands at `index`; to be called for every op in host order.
  std::vector<OpIndex> Visit(const Op& op, OpIndex index) {
    std::vector<OpIndex> predecessors;
    for (const Dependency& dependency : op.dependencies) {
      if (dependency.kind == DependencyKind::kEvent) predecessors.push_back(dependency.target);
      if (dependency.kind == DependencyKind::kStream) {
        predecessors.push_back(At(last_of_stream_, dependency.target));
      }
    }
    predecessors.push_back(Exchange(last_of_stream_, op.stream, index));
    if (op.communicator != kNone) {
      const auto [last, is_new] = last_of_queue_.try_emplace(QueueOf(op), index);
      if (!is_new) predecessors.push_back(std::exchange(last->second, index));
    }
    std::sort(predecessors.begin(), predecessors.end());
    predecessors.erase(std::unique(predecessors.begin(), predecessors.end()), predecessors.end());
    if (predecessors.front() == kNone) predecessors.erase(predecessors.begin());
    return predecessors;
  }

 private:
  static OpIndex& At(std::vector<OpIndex>& last, int32_t index) {
    SHARDSCOPE_CHECK(index >= 0);
    const auto at = static_cast<size_t>(index);
    if (at >= last.size()) last.resize(at + 1, kNone);
    return last[at];
  }
  static OpIndex Exchange(std::vector<OpIndex>& last, int32_t at, OpIndex index) {
    return std::exchange(At(last, at), index);
  }

  std::vector<OpIndex> last_of_stream_;
  std::map<Queue, OpIndex> last_of_queue_;
};

std::string MicroBatchPart(int32_t micro_batch) {
  return micro_batch == kNone ? "" : "m" + std::to_string(micro_batch) + " ";
}

// "?3" for an index outside its table: names are also made for schedules that are still unchecked.
template <typename Named>
std::string NameOf(const std::vector<Named>& table, int32_t index) {
  if (index < 0 || static_cast<size_t>(index) >= table.size()) return "?" + std::to_string(index);
  return table[static_cast<size_t>(index)].name;
}

}  // namespace

Meeting MeetingOf(const Schedule& schedule, int32_t rank, const Op& op) {
  const Communicator& communicator = schedule.communicators[static_cast<size_t>(op.communicator)];
  const GroupPlace at = PlaceOf(schedule.mesh, communicator, rank);
  Meeting meeting = {.communicator = op.communicator, .group = at.group};
  if (op.peer == kNone) return meeting;
  meeting.from = op.kind == OpKind::kReceive ? op.peer : at.place;
  meeting.to = op.kind == OpKind::kReceive ? at.place : op.peer;
  return meeting;
}

std::vector<int32_t> RanksOf(const Schedule& schedule, const Meeting& meeting) {
  const Communicator& communicator =
      schedule.communicators[static_cast<size_t>(meeting.communicator)];
  std::vector<int32_t> members = MembersOf(schedule.mesh, communicator, meeting.group);
  if (!meeting.is_pair()) return members;
  const auto [first, second] = std::minmax(members[static_cast<size_t>(meeting.from)],
                                           members[static_cast<size_t>(meeting.to)]);
  return {first, second};
}

std::string OpName(const Schedule& schedule, const Op& op) {
  static constexpr std::string_view kPhaseLetters = "FBOE";
  std::string name;
  if (op.kind != OpKind::kControl) {
    name += kPhaseLetters[static_cast<size_t>(op.phase)];
    name += ' ';
  }
  name += MicroBatchPart(op.micro_batch);
  if (op.segment != kNone) name += NameOf(schedule.segments, op.segment) + " ";
  if (op.unit != kNone) name += NameOf(schedule.units, op.unit) + " ";
  if (op.peer != kNone) {
    return name + (op.phase == Phase::kBackward ? "gradient " : "activation ") +
           std::string(Name(op.kind));
  }
  const bool plain_wait = op.kind == OpKind::kRelease && op.frees.empty();
  name += plain_wait ? "wait" : Name(op.kind);
  return name;
}

std::string ExchangeName(const Schedule& schedule, const Op& op) {
  std::string name = OpName(schedule, op);
  name.resize(name.rfind(' '));
  return name;
}

std::string BufferName(const Schedule& schedule, const Buffer& buffer) {
  std::string name;
  if (buffer.segment != kNone) name += NameOf(schedule.segments, buffer.segment) + " ";
  if (buffer.unit != kNone) name += NameOf(schedule.units, buffer.unit) + " ";
  name += MicroBatchPart(buffer.micro_batch);
  name += Name(buffer.kind);
  return name;
}

OpIndex ResolveDependency(const Program& program, OpIndex index, const Dependency& dependency) {
  if (dependency.kind != DependencyKind::kStream) return dependency.target;
  for (OpIndex before = index - 1; before >= 0; --before) {
    if (program.ops[static_cast<size_t>(before)].stream == dependency.target) return before;
  }
  return kNone;
}

std::vector<std::vector<OpIndex>> AllPredecessors(const Program& program) {
  PredecessorWalk walk;
  std::vector<std::vector<OpIndex>> all;
  all.reserve(program.ops.size());
  for (size_t index = 0; index < program.ops.size(); ++index) {
    all.push_back(walk.Visit(program.ops[index], static_cast<OpIndex>(index)));
  }
  return all;
}

}  // namespace shardscope::plan
