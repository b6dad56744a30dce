#include "trace/import/op_rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "trace/base/collective_names.h"
#include "trace/base/torch_types.h"
#include "trace/base/wire_bytes.h"
#include "trace/base/words.h"

namespace shardscope::imports {
namespace {

using words::Name;

// Bytes that each of `ranks` sends. No file says who the root is: what a gather or a scatter sends
// is that of the others, which is right for all ranks but one. Of what is no kind of the engine's
// (all-to-all; both ends of an exchange as one) there is no rule.
int64_t WireBytesOf(const RecordedCollective& collective, int64_t ranks) {
  const auto kind = words::ParseOpKind(collective.kind);
  return kind ? words::WireBytes(*kind, collective.payload_bytes, ranks) : 0;
}

const RecordedGroup* FindGroup(const Recording& recording, const std::string& name) {
  for (const RecordedGroup& group : recording.groups) {
    if (group.name == name) return &group;
  }
  return nullptr;
}

class OpRows {
 public:
  OpRows(const RunFacts& facts, const Recording& recording, const HostSteps& steps,
         const InferredOps& ops, store::FinishedWriter* writer)
      : facts_(facts), recording_(recording), steps_(steps), ops_(ops), writer_(*writer) {}

  Status Write() {
    SHARDSCOPE_RETURN_IF_ERROR(writer_.Insert(
        schema::ScheduleRow{kInferredSchedule, "inferred from " + std::string(facts_.format),
                            "# Inferred from what ran; no Schedule was planned.\n", 0}));
    SHARDSCOPE_RETURN_IF_ERROR(WriteGroups());
    SHARDSCOPE_RETURN_IF_ERROR(WritePlan());
    SHARDSCOPE_RETURN_IF_ERROR(WriteRuns());
    return WriteCollectives();
  }

 private:
  std::string CommunicatorOf(const RecordedCollective& collective) const {
    return CommunicatorOfGroup(recording_, collective.group);
  }

  int64_t SizeOf(const RecordedCollective& collective) const {
    if (collective.group_size > 0) return collective.group_size;
    const RecordedGroup* const group = FindGroup(recording_, collective.group);
    if (group != nullptr && !group->members.empty())
      return static_cast<int64_t>(group->members.size());
    return facts_.num_ranks;
  }

  Status WriteGroups() {
    int64_t id = 0;
    for (const RecordedGroup& group : recording_.groups) {
      if (group.members.empty()) continue;
      RecordedCollective named;
      named.group = group.name;
      SHARDSCOPE_RETURN_IF_ERROR(writer_.Insert(schema::CommunicatorGroupRow{
          schema::CommunicatorGroupId(++id), kInferredSchedule, CommunicatorOf(named), "", id - 1,
          fmt::format("{}", fmt::join(group.members, ","))}));
    }
    return Status::Ok();
  }

  Status WritePlan() {
    std::vector<uint32_t> lanes(ops_.ops.size());  // of the first run
    for (auto run = ops_.runs.rbegin(); run != ops_.runs.rend(); ++run) lanes[run->op] = run->lane;
    for (uint32_t at = 0; at < ops_.ops.size(); ++at) {
      const InferredOp& op = ops_.ops[at];
      schema::PlanOpRow row;
      row.id = IdOfOp(at);
      row.schedule = kInferredSchedule;
      row.program = facts_.rank;
      row.op = at;
      row.name = op.name;
      row.kind = op.kind;
      row.category = Name(op.category);
      row.phase = Name(op.phase);
      row.micro_batch = -1;
      row.unit = op.unit;
      row.stream = ops_.lanes[lanes[at]].name;
      if (op.collective >= 0) {
        const RecordedCollective& collective =
            recording_.collectives[static_cast<size_t>(op.collective)];
        row.communicator = CommunicatorOf(collective);
        row.dtype = TypeOfTorchType(collective.dtype);
        row.payload_bytes = std::max<int64_t>(collective.payload_bytes, 0);
        row.wire_bytes = WireBytesOf(collective, SizeOf(collective));
      }
      SHARDSCOPE_RETURN_IF_ERROR(writer_.Insert(row));
    }
    int64_t id = 0;
    for (const auto& [waits, awaited] : ops_.edges) {
      SHARDSCOPE_RETURN_IF_ERROR(writer_.Insert(
          schema::PlanEdgeRow{schema::PlanEdgeId(++id), IdOfOp(waits), IdOfOp(awaited),
                              std::string(Name(words::DependencyKind::kEvent))}));
    }
    return Status::Ok();
  }

  int64_t NumberOfStep(int32_t step) const {
    return steps_.steps()[static_cast<size_t>(step)].number;
  }

  Status WriteRuns() {
    int64_t id = 0;
    for (const InferredRun& run : ops_.runs) {
      schema::OpRunRow row;
      row.id = schema::OpRunId(++id);
      row.plan_op = IdOfOp(run.op);
      row.rank = facts_.rank;
      row.step = NumberOfStep(run.step);
      row.track = IdOfLane(recording_, run.lane);
      row.issued_ns = run.issued_ns;
      row.ready_ns = run.ready_ns;
      row.started_ns = run.started_ns;
      row.ended_ns = run.ended_ns;
      row.blocking_plan_op = run.blocker < 0
                                 ? schema::PlanOpId::None()
                                 : IdOfOp(ops_.runs[static_cast<size_t>(run.blocker)].op);
      row.blocking_kind = Name(run.blocking);
      SHARDSCOPE_RETURN_IF_ERROR(writer_.Insert(row));
    }
    return Status::Ok();
  }

  // In their groups collectives are counted as they were issued, unless the file counts them.
  std::vector<int64_t> Sequences(const std::vector<size_t>& runs,
                                 const std::vector<std::string>& communicators) const {
    std::map<std::string, std::set<int64_t>> told;
    std::map<std::string, size_t> counts;
    const auto told_of = [&](size_t run) {
      return recording_.collectives[static_cast<size_t>(ops_.runs[run].collective)].sequence;
    };
    for (size_t at = 0; at < runs.size(); ++at) {
      ++counts[communicators[at]];
      if (told_of(runs[at]) >= 0) told[communicators[at]].insert(told_of(runs[at]));
    }
    std::map<std::string, int64_t> next;
    std::vector<int64_t> sequences(runs.size());
    for (size_t at = 0; at < runs.size(); ++at) {
      const std::string& communicator = communicators[at];
      sequences[at] = told[communicator].size() == counts[communicator] ? told_of(runs[at])
                                                                        : next[communicator]++;
    }
    return sequences;
  }

  Status WriteCollectives() {
    std::vector<size_t> runs;
    for (size_t at = 0; at < ops_.runs.size(); ++at) {
      if (ops_.runs[at].collective >= 0) runs.push_back(at);
    }
    std::stable_sort(runs.begin(), runs.end(), [&](size_t a, size_t b) {
      return ops_.runs[a].issued_ns < ops_.runs[b].issued_ns;
    });
    std::vector<std::string> communicators;
    for (const size_t run : runs) {
      communicators.push_back(
          CommunicatorOf(recording_.collectives[static_cast<size_t>(ops_.runs[run].collective)]));
    }
    const std::vector<int64_t> sequences = Sequences(runs, communicators);
    const auto backend = recording_.meta.find("backend");
    for (size_t at = 0; at < runs.size(); ++at) {
      const InferredRun& run = ops_.runs[runs[at]];
      const RecordedCollective& collective =
          recording_.collectives[static_cast<size_t>(run.collective)];
      schema::CollectiveRow row;
      row.id = schema::CollectiveId(static_cast<int64_t>(at) + 1);
      row.op_run = schema::OpRunId(static_cast<int64_t>(runs[at]) + 1);
      row.rank = facts_.rank;
      row.step = NumberOfStep(run.step);
      row.communicator = communicators[at];
      row.sequence = sequences[at];
      row.kind = ops_.ops[run.op].kind;
      row.payload_bytes = std::max<int64_t>(collective.payload_bytes, 0);
      row.group_size = SizeOf(collective);
      row.wire_bytes = WireBytesOf(collective, row.group_size);
      row.dtype = TypeOfTorchType(collective.dtype);
      row.transport = backend == recording_.meta.end() ? "unknown" : backend->second;
      row.truth = words::Name(words::Truth::kMeasured);
      SHARDSCOPE_RETURN_IF_ERROR(writer_.Insert(row));
    }
    return Status::Ok();
  }

  const RunFacts& facts_;
  const Recording& recording_;
  const HostSteps& steps_;
  const InferredOps& ops_;
  store::FinishedWriter& writer_;
};

}  // namespace

std::string CommunicatorOfGroup(const Recording& recording, const std::string& name) {
  if (name.empty()) return "world";
  const RecordedGroup* const group = FindGroup(recording, name);
  if (group == nullptr || !SaysPurpose(group->description)) return name;
  if (group->description == kDefaultGroup) return "world";
  return fmt::format("{}/{}", group->description, group->name);
}

Status WriteOpRows(const RunFacts& facts, const Recording& recording, const HostSteps& steps,
                   const InferredOps& ops, store::FinishedWriter* writer) {
  return OpRows(facts, recording, steps, ops, writer).Write();
}

}  // namespace shardscope::imports
