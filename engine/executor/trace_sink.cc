#include "engine/executor/trace_sink.h"

#include <algorithm>
#include <map>

#include "engine/plan/text.h"
#include "trace/base/check.h"
#include "trace/base/mutex.h"
#include "trace/base/not_ended.h"
#include "trace/base/time.h"
#include "trace/base/trace_keys.h"
#include "trace/base/words.h"
#include "trace/record/memory_account.h"

namespace shardscope::executor {
namespace {

// Ranks start a step together, so steps further back than this are over everywhere.
constexpr size_t kStepsRemembered = 16;
constexpr const char* kHostTrack = "host";  // stream 0 of every Schedule

// Views, because the hot path must not allocate.
std::string_view UnitName(const plan::Schedule& schedule, int32_t unit) {
  if (unit == plan::kNone) return "";
  return schedule.units[static_cast<size_t>(unit)].name;
}
std::string_view SegmentName(const plan::Schedule& schedule, int32_t segment) {
  if (segment == plan::kNone) return "";
  return schedule.segments[static_cast<size_t>(segment)].name;
}

// What memory of an op or a buffer is booked to.
std::string_view OwnerName(const plan::Schedule& schedule, int32_t segment, int32_t unit) {
  return segment != plan::kNone ? SegmentName(schedule, segment) : UnitName(schedule, unit);
}

schema::PlanOpRow PlanOpRowOf(const plan::Schedule& schedule, const plan::Op& op) {
  schema::PlanOpRow row;
  row.name = plan::OpName(schedule, op);
  row.kind = plan::Name(op.kind);
  row.category = plan::Name(plan::CategoryOf(op.kind));
  row.phase = plan::Name(op.phase);
  row.micro_batch = op.micro_batch;
  row.unit = UnitName(schedule, op.unit);
  row.segment = SegmentName(schedule, op.segment);
  row.stream = schedule.streams[static_cast<size_t>(op.stream)].name;
  if (op.communicator != plan::kNone) {
    row.communicator = schedule.communicators[static_cast<size_t>(op.communicator)].name;
    row.dtype = plan::Name(op.dtype);
  }
  row.payload_bytes = op.payload_bytes;
  row.wire_bytes = op.wire_bytes;
  return row;
}

// "shard"; "shard/1" where the communicator has several groups.
std::string GroupName(const plan::Schedule& schedule, const plan::Communicator& communicator,
                      int32_t number) {
  const bool is_alone = plan::GroupSize(schedule.mesh, communicator) == schedule.num_ranks();
  return is_alone ? communicator.name : communicator.name + "/" + std::to_string(number);
}

// The rank's group; "activation/0>1" from one rank to another.
std::string GroupNameOf(const plan::Schedule& schedule, const plan::Op& op, int rank) {
  const plan::Communicator& communicator =
      schedule.communicators[static_cast<size_t>(op.communicator)];
  const plan::Meeting meeting = plan::MeetingOf(schedule, rank, op);
  if (meeting.is_pair()) {
    const std::vector<int32_t> members =
        plan::MembersOf(schedule.mesh, communicator, meeting.group);
    return communicator.name + "/" + std::to_string(members[static_cast<size_t>(meeting.from)]) +
           ">" + std::to_string(members[static_cast<size_t>(meeting.to)]);
  }
  return GroupName(schedule, communicator, meeting.group);
}

// For each op its position in its queue; 0 for ops without a communicator.
std::vector<int64_t> OrdinalsOf(const plan::Program& program) {
  std::map<plan::Queue, int64_t> next;
  std::vector<int64_t> ordinals;
  for (const plan::Op& op : program.ops) {
    ordinals.push_back(op.communicator == plan::kNone ? 0 : next[plan::QueueOf(op)]++);
  }
  return ordinals;
}

}  // namespace

// What the hot path looks up.
struct TraceSink::Registered {
  struct OfProgram {
    std::vector<schema::PlanOpId> plan_ops;  // by op
    std::vector<int64_t> ordinals;           // by op
  };
  std::vector<OfProgram> programs;
  std::map<int, std::vector<schema::TrackId>> tracks;  // by rank and stream
  // By communicator: most that one queue of it has in a step. Of collectives, all have as many.
  std::vector<int64_t> collectives;

  const OfProgram& Of(const OpContext& context) const {
    return programs[static_cast<size_t>(context.program - context.schedule->programs.data())];
  }
  schema::PlanOpId PlanOp(const OpContext& context, plan::OpIndex index) const {
    return index == plan::kNone ? schema::PlanOpId::None()
                                : Of(context).plan_ops[static_cast<size_t>(index)];
  }
};

TraceSink::TraceSink(record::Recorder* recorder, CollectiveInfo info)
    : recorder_(recorder),
      info_(std::move(info)),
      allocated_string_(recorder->AddString("allocated_bytes")),
      reserved_string_(recorder->AddString(trace_keys::kReservedBytes)),
      resident_string_(recorder->AddString("resident_bytes")),
      device_used_string_(recorder->AddString(trace_keys::kDeviceUsedBytes)),
      learning_rate_string_(recorder->AddString("learning_rate")),
      loss_scale_string_(recorder->AddString("loss_scale")) {}
TraceSink::~TraceSink() = default;

schema::ScheduleId TraceSink::RegisterSchedule(const plan::Schedule& schedule,
                                               const std::vector<int>& ranks,
                                               const PredictedPeaks& predicted) {
  schema::ScheduleRow row;
  row.name = schedule.name;
  row.text = plan::PrintSchedule(schedule);
  row.predicted_peak_bytes = predicted.largest.issued;
  const schema::ScheduleId schedule_id = recorder_->Add(row);
  recorder_->Add(schema::ScheduleBoundRow{.schedule = schedule_id,
                                          .executed_peak_bytes = predicted.largest.executed});
  for (const int rank : ranks) {
    if (predicted.by_rank.empty()) break;
    const PredictedPeak& peak = predicted.by_rank[static_cast<size_t>(rank)];
    recorder_->Add(schema::RankPeakRow{.schedule = schedule_id,
                                       .rank = rank,
                                       .predicted_peak_bytes = peak.issued,
                                       .executed_peak_bytes = peak.executed});
  }

  AddGroups(schedule, schedule_id);

  auto registered = std::make_unique<Registered>();
  for (size_t program = 0; program < schedule.programs.size(); ++program) {
    registered->programs.push_back(
        {AddPlanOps(schedule, schedule_id, program), OrdinalsOf(schedule.programs[program])});
  }
  registered->collectives.assign(schedule.communicators.size(), 0);
  for (size_t program = 0; program < schedule.programs.size(); ++program) {
    const std::vector<plan::Op>& ops = schedule.programs[program].ops;
    for (size_t op = 0; op < ops.size(); ++op) {
      if (ops[op].communicator == plan::kNone) continue;
      int64_t& most = registered->collectives[static_cast<size_t>(ops[op].communicator)];
      most = std::max(most, registered->programs[program].ordinals[op] + 1);
    }
  }
  for (const int rank : ranks) registered->tracks[rank] = TracksOf(schedule, rank);
  schedules_[&schedule] = std::move(registered);
  return schedule_id;
}

void TraceSink::AddGroups(const plan::Schedule& schedule, schema::ScheduleId schedule_id) {
  for (const plan::Communicator& communicator : schedule.communicators) {
    const int32_t ranks = plan::GroupSize(schedule.mesh, communicator);
    for (int32_t number = 0; number < schedule.num_ranks() / ranks; ++number) {
      schema::CommunicatorGroupRow row;
      row.schedule = schedule_id;
      row.communicator = GroupName(schedule, communicator, number);
      row.dimensions = plan::Print(communicator.dimensions);
      row.number = number;
      for (const int32_t rank : plan::MembersOf(schedule.mesh, communicator, number)) {
        row.members += (row.members.empty() ? "" : ",") + std::to_string(rank);
      }
      recorder_->Add(row);
    }
  }
}

std::vector<schema::PlanOpId> TraceSink::AddPlanOps(const plan::Schedule& schedule,
                                                    schema::ScheduleId schedule_id,
                                                    size_t program) {
  const std::vector<plan::Op>& ops = schedule.programs[program].ops;
  std::vector<schema::PlanOpId> ids;
  for (size_t index = 0; index < ops.size(); ++index) {
    schema::PlanOpRow row = PlanOpRowOf(schedule, ops[index]);
    row.schedule = schedule_id;
    row.program = static_cast<int64_t>(program);
    row.op = static_cast<int64_t>(index);
    ids.push_back(recorder_->Add(row));
    for (const plan::Dependency& dependency : ops[index].dependencies) {
      const plan::OpIndex predecessor = plan::ResolveDependency(
          schedule.programs[program], static_cast<plan::OpIndex>(index), dependency);
      if (predecessor == plan::kNone) continue;  // nothing was issued on that stream yet
      schema::PlanEdgeRow edge;
      edge.plan_op = ids[index];
      edge.predecessor = ids[static_cast<size_t>(predecessor)];
      edge.kind = plan::Name(dependency.kind);
      recorder_->Add(edge);
    }
  }
  return ids;
}

// Streams on which the rank never runs anything have none.
std::vector<schema::TrackId> TraceSink::TracksOf(const plan::Schedule& schedule, int rank) {
  std::vector<bool> used(schedule.streams.size());
  for (const plan::Op& op : schedule.ProgramOf(rank).ops) {
    used[static_cast<size_t>(op.stream)] = true;
  }
  std::vector<schema::TrackId> tracks;
  for (size_t stream = 0; stream < used.size(); ++stream) {
    tracks.push_back(used[stream] ? TrackOf(rank, schedule.streams[stream])
                                  : schema::TrackId::None());
  }
  return tracks;
}

schema::TrackId TraceSink::TrackOf(int rank, const plan::Stream& stream) {
  const auto [entry, is_new] = tracks_.try_emplace({rank, stream.name});
  if (is_new) {
    schema::TrackRow row;
    row.rank = rank;
    row.name = stream.name;
    row.role = plan::Name(stream.role);
    // Lanes of a rank stand in the order of the roles.
    row.position = static_cast<int64_t>(stream.role);
    entry->second = recorder_->Add(row);
  }
  return entry->second;
}

const TraceSink::Registered& TraceSink::Find(const plan::Schedule* schedule) const {
  const auto entry = schedules_.find(schedule);
  SHARDSCOPE_CHECK(entry != schedules_.end());
  return *entry->second;
}

schema::PlanOpId TraceSink::PlanOpOf(const OpContext& context) const {
  return Find(context.schedule).PlanOp(context, context.index);
}

schema::TrackId TraceSink::TrackOf(const OpContext& context) const {
  return Find(context.schedule).tracks.at(context.rank)[static_cast<size_t>(context.op().stream)];
}

void TraceSink::OnOpEnd(const OpContext& context, const OpTimes& times) {
  const Registered& registered = Find(context.schedule);
  const plan::Op& op = context.op();
  record::OpRecord record;
  record.run.plan_op = registered.PlanOp(context, context.index);
  record.run.rank = context.rank;
  record.run.step = context.step;
  record.run.track = registered.tracks.at(context.rank)[static_cast<size_t>(op.stream)];
  record.run.issued_ns = times.issued_ns;
  record.run.ready_ns = times.ready_ns;
  record.run.started_ns = times.started_ns;
  record.run.ended_ns = times.ended_ns;
  record.run.slot_wait_ns = times.slot_wait_ns;
  record.run.cpu_ns = times.cpu_ns;
  record.run.blocking_plan_op = registered.PlanOp(context, times.blocking_op);
  record.run.blocking_kind = Name(times.blocking_kind);
  if (op.communicator != plan::kNone) {
    schema::CollectiveRow& collective = record.collective;
    collective.rank = context.rank;
    collective.step = context.step;
    collective.communicator = GroupNameOf(*context.schedule, op, context.rank);
    collective.sequence = FirstSequence(registered, context, op.communicator) +
                          registered.Of(context).ordinals[static_cast<size_t>(context.index)];
    collective.kind = plan::Name(op.kind);
    collective.payload_bytes = op.payload_bytes;
    collective.wire_bytes = op.wire_bytes;
    collective.dtype = plan::Name(op.dtype);
    collective.group_size =
        op.peer == plan::kNone ? context.schedule->GroupSize(op.communicator) : 2;
    collective.transport = info_.transport;
    collective.truth = words::Name(info_.truth);
  }
  recorder_->Record(record);
}

// Note: sequence numbers
// A collective's number is the count of its communicator's collectives in earlier steps plus its
// position in the program: the same on all ranks, whichever of them comes here first, because the
// first op of a step to arrive here finds all earlier steps counted (its own rank ran them).
int64_t TraceSink::FirstSequence(const Registered& registered, const OpContext& context,
                                 plan::CommunicatorIndex communicator) {
  const MutexLock lock(mutex_);
  const auto [entry, is_new] = steps_.try_emplace(context.step);
  std::vector<int64_t>& first = entry->second;
  if (is_new) {
    for (size_t i = 0; i < registered.collectives.size(); ++i) {
      int64_t& next = next_sequence_[context.schedule->communicators[i].name];
      first.push_back(next);
      next += registered.collectives[i];
    }
    order_.push_back(context.step);
    if (order_.size() > kStepsRemembered) {
      steps_.erase(order_.front());
      order_.pop_front();
    }
  }
  return first[static_cast<size_t>(communicator)];
}

void TraceSink::OnUnfinished(const Activity& activity) {
  if (activity.schedule == nullptr) return;
  for (const CurrentOp& op : activity.ops) {
    const plan::Op& planned =
        activity.schedule->ProgramOf(activity.rank).ops[static_cast<size_t>(op.op)];
    schema::SpanRow row;
    row.track = Find(activity.schedule).tracks.at(activity.rank)[static_cast<size_t>(op.stream)];
    row.start_ns = op.since_ns;
    row.duration_ns = MonotonicNs() - op.since_ns;
    row.name_string = recorder_->AddString(op.name + std::string(kNotEnded));
    row.category = plan::Name(plan::CategoryOf(planned.kind));
    row.op_run = schema::OpRunId::None();
    recorder_->Record(row);
  }
}

void TraceSink::OnMemory(const OpContext& context, plan::BufferId buffer, int64_t bytes,
                         int64_t issued_ns, int64_t executed_ns) {
  if (context.buffer(buffer).slot != plan::kNone) return;  // nothing is taken or given back
  RecordMemory(context, issued_ns,
               {.category = plan::MemoryCategoryOf(context.buffer(buffer).kind),
                .bytes = bytes,
                .executed_ns = executed_ns,
                .buffer = buffer});
}

void TraceSink::OnOtherMemory(const OpContext& context, const MemoryChange& change) {
  RecordMemory(context, context.issued_ns, change);
}

void TraceSink::RecordMemory(const OpContext& context, int64_t issued_ns,
                             const MemoryChange& change) {
  schema::MemoryEventRow row;
  row.rank = context.rank;
  row.device = info_.device;
  row.issued_ns = issued_ns;
  row.executed_ns = change.executed_ns;
  row.bytes = change.bytes;
  row.category = plan::Name(change.category);
  if (change.buffer != plan::kNone) {
    const plan::Buffer& buffer = context.buffer(change.buffer);
    row.unit = OwnerName(*context.schedule, buffer.segment, buffer.unit);
  } else {
    row.unit = OwnerName(*context.schedule, context.op().segment, context.op().unit);
  }
  row.plan_op = Find(context.schedule).PlanOp(context, context.index);
  row.step = context.step;
  recorder_->Record(row);
}

void TraceSink::OnMemoryOutsideOps(int rank, plan::MemoryCategory category, const std::string& unit,
                                   int64_t bytes, int64_t time_ns) {
  const record::MemoryAccount account{rank, info_.device, plan::Name(category), unit};
  recorder_->Record(account.Event(time_ns, time_ns, bytes));
}

void TraceSink::OnStepMemory(int rank, const StepMemory& memory) {
  schema::CounterRow row;
  row.track = tracks_.at({rank, kHostTrack});
  row.time_ns = memory.time_ns;
  const auto record = [&](schema::StringId name_string, int64_t bytes) {
    row.name_string = name_string;
    row.value = static_cast<double>(bytes);
    recorder_->Record(row);
  };
  record(allocated_string_, memory.allocated_bytes);
  record(reserved_string_, memory.reserved_bytes);
  if (memory.resident_bytes >= 0) record(resident_string_, memory.resident_bytes);
  if (memory.device_used_bytes >= 0) record(device_used_string_, memory.device_used_bytes);
}

void TraceSink::OnStepRates(int rank, double learning_rate, double loss_scale, int64_t time_ns) {
  schema::CounterRow row;
  row.track = tracks_.at({rank, kHostTrack});
  row.time_ns = time_ns;
  row.name_string = learning_rate_string_;
  row.value = learning_rate;
  recorder_->Record(row);
  if (loss_scale == 0) return;
  row.name_string = loss_scale_string_;
  row.value = loss_scale;
  recorder_->Record(row);
}

}  // namespace shardscope::executor
