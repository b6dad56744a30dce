#include "engine/plan/checks/checks.h"

#include <algorithm>
#include <string>
#include <utility>

namespace shardscope::plan {
namespace {

template <typename Table>
bool Names(int32_t index, const Table& table) {
  return index >= 0 && static_cast<size_t>(index) < table.size();
}

template <typename Table>
bool NamesOrNone(int32_t index, const Table& table) {
  return index == kNone || Names(index, table);
}

bool MicroBatchOk(const Schedule& schedule, int32_t micro_batch) {
  return micro_batch == kNone || (micro_batch >= 0 && micro_batch < schedule.num_micro_batches);
}

// All buffers of a rank together, or one payload: sums of buffers and twice a payload fit into
// int64.
constexpr int64_t kMostBytes = int64_t{1} << 61;

// "" if fine, otherwise what is wrong with the op.
std::string IndexProblem(const Schedule& schedule, const Program& program, const Op& op) {
  if (!Names(op.stream, schedule.streams)) {
    return "is on stream " + std::to_string(op.stream) + ", which does not exist";
  }
  if (!NamesOrNone(op.unit, schedule.units)) {
    return "names unit " + std::to_string(op.unit) + ", which does not exist";
  }
  if (TraitsOf(op.kind).runs_segment ? !Names(op.segment, schedule.segments)
                                     : !NamesOrNone(op.segment, schedule.segments)) {
    return "names segment " + std::to_string(op.segment) + ", which does not exist";
  }
  if (!MicroBatchOk(schedule, op.micro_batch)) {
    return "names micro-batch " + std::to_string(op.micro_batch) + " of " +
           std::to_string(schedule.num_micro_batches);
  }
  for (const auto* buffers : {&op.allocates, &op.reads, &op.writes, &op.frees}) {
    for (const BufferId buffer : *buffers) {
      if (!Names(buffer, program.buffers)) {
        return "names buffer " + std::to_string(buffer) + ", which does not exist";
      }
    }
  }
  return "";
}

std::string DependencyProblem(const Schedule& schedule, const Op& op, OpIndex index) {
  for (const Dependency& dependency : op.dependencies) {
    if (dependency.kind == DependencyKind::kStream) {
      if (!Names(dependency.target, schedule.streams)) {
        return "waits for stream " + std::to_string(dependency.target) + ", which does not exist";
      }
    } else if (dependency.target < 0 || dependency.target >= index) {
      return "waits for op " + std::to_string(dependency.target) +
             ", which is not issued before it: a deadlock";
    }
  }
  return "";
}

// Parts of a segment's output are added up by the ranks that share its work, and stages are ranks
// along the pipeline. Of a unit ranks with other samples gather and reduce, or those that share its
// work add up what they all have of its gradient.
bool IsAlongItsDimension(const Schedule& schedule, const Op& op) {
  if (TraitsOf(op.kind).has_root) return true;
  const auto is_within = [&](MeshDimensions allowed) {
    return schedule.mesh.SizeOf(schedule.DimensionsOf(op.communicator) & ~allowed) == 1;
  };
  if (TraitsOf(op.kind).has_peer) return is_within(Only(MeshDimension::kPipeline));
  if (op.segment != kNone) return is_within(Only(MeshDimension::kTensor));
  return op.unit == kNone || is_within(kDataDimensions) || is_within(Only(MeshDimension::kTensor));
}

std::string CollectiveProblem(const Schedule& schedule, const Op& op) {
  if (!IsCollective(op.kind)) {
    const bool clean = op.communicator == kNone && op.peer == kNone && op.root == kNone &&
                       op.payload_bytes == 0 && op.wire_bytes == 0;
    return clean ? "" : "is no collective but has a communicator, payload or wire bytes";
  }
  if (!Names(op.communicator, schedule.communicators)) {
    return "is on communicator " + std::to_string(op.communicator) + ", which does not exist";
  }
  if (op.payload_bytes < 0 || op.payload_bytes > kMostBytes) {
    return "has a payload of " + std::to_string(op.payload_bytes) + " bytes, which cannot be";
  }
  const OpKindTraits& traits = TraitsOf(op.kind);
  const auto is_place = [&](int32_t place) {
    return place >= 0 && place < schedule.GroupSize(op.communicator);
  };
  if (traits.has_peer ? !is_place(op.peer) : op.peer != kNone) {
    return "names place " + std::to_string(op.peer) + " of a group as its peer, which cannot be";
  }
  if (traits.has_root ? !is_place(op.root) : op.root != kNone) {
    return "names place " + std::to_string(op.root) + " of a group as its root, which cannot be";
  }
  if (!IsAlongItsDimension(schedule, op)) {
    return "is of what not all ranks of a group of communicator " +
           std::to_string(op.communicator) + " share";
  }
  bool has_buffer = !op.writes.empty();
  if (traits.payload == PayloadSide::kReads) has_buffer = !op.reads.empty();
  if (traits.has_root) has_buffer = !op.reads.empty() || !op.writes.empty();
  return has_buffer ? "" : "is a collective without a buffer";
}

// No single op is at fault.
Refusal Unlocated(std::string message) {
  Refusal refusal;
  refusal.message = std::move(message);
  return refusal;
}

bool SlotOk(const Program& program, const Buffer& buffer) {
  if (buffer.slot == kNone) return true;
  if (!Names(buffer.slot, program.buffers) || buffer.persistent) return false;
  const Buffer& slot = program.buffers[static_cast<size_t>(buffer.slot)];
  return slot.persistent && slot.slot == kNone &&
         TraitsOf(slot.kind).memory == TraitsOf(buffer.kind).memory;
}

std::optional<Refusal> CheckBuffers(const Schedule& schedule, const Program& program) {
  int64_t left_bytes = kMostBytes;
  for (size_t id = 0; id < program.buffers.size(); ++id) {
    const Buffer& buffer = program.buffers[id];
    if (!SlotOk(program, buffer)) {
      return Unlocated("buffer " + std::to_string(id) + " '" + BufferName(schedule, buffer) +
                       "' is in a slot that is none for it");
    }
    if (NamesOrNone(buffer.unit, schedule.units) &&
        NamesOrNone(buffer.segment, schedule.segments) &&
        MicroBatchOk(schedule, buffer.micro_batch) && buffer.bytes >= 0 &&
        buffer.bytes <= left_bytes) {
      left_bytes -= buffer.bytes;
      continue;
    }
    return Unlocated("buffer " + std::to_string(id) + " '" + BufferName(schedule, buffer) +
                     "' has a unit, segment, micro-batch or size that cannot be");
  }
  return std::nullopt;
}

// Whether sizes made from the unit's shapes fit into int64, whatever the number of ranks.
bool UnitSizeOk(const Unit& unit) {
  constexpr int64_t kMostElements = int64_t{1} << 38;
  int64_t total = 0;
  for (const Parameter& parameter : unit.parameters) {
    int64_t elements = 1;
    for (const int64_t size : parameter.shape) {
      if (size < 1 || size > kMostElements / elements) return false;
      elements *= size;
    }
    total += elements;
    if (total > kMostElements) return false;
  }
  return true;
}

// "" if what the tables say of frozen parameters goes together.
std::string FrozenProblem(const Schedule& schedule) {
  for (const Unit& unit : schedule.units) {
    if (std::ranges::is_sorted(unit.parameters, {}, &Parameter::is_frozen)) continue;
    return "unit '" + unit.name + "' has frozen parameters before others";
  }
  for (const Segment& segment : schedule.segments) {
    const auto is_fine = [&](int32_t unit) {
      return std::ranges::find(segment.units, unit) != segment.units.end();
    };
    if (std::ranges::is_sorted(segment.frozen_units) &&
        std::ranges::all_of(segment.frozen_units, is_fine)) {
      continue;
    }
    return "segment '" + segment.name + "' has frozen parameters of a unit that it does not use";
  }
  const bool is_any_trained =
      schedule.units.empty() || std::ranges::any_of(schedule.units, IsTrained);
  return is_any_trained ? "" : "all parameters are frozen: there is nothing to train";
}

std::optional<Refusal> CheckTables(const Schedule& schedule) {
  const auto is_positive = [](int32_t size) { return size >= 1; };
  if (!std::all_of(schedule.mesh.sizes.begin(), schedule.mesh.sizes.end(), is_positive) ||
      schedule.num_micro_batches < 1) {
    return Unlocated("a schedule needs at least one rank and one micro-batch");
  }
  if (schedule.streams.empty() || schedule.streams.front().role != StreamRole::kHost) {
    return Unlocated("stream 0 of a schedule must be the host");
  }
  for (const Communicator& communicator : schedule.communicators) {
    if (communicator.dimensions == 0 || communicator.dimensions > kAllDimensions) {
      return Unlocated("communicator '" + communicator.name + "' has no dimension of the mesh");
    }
    const int32_t places = schedule.mesh.SizeOf(communicator.dimensions);
    if (communicator.run < 0 || (communicator.run > 0 && places % communicator.run != 0)) {
      return Unlocated("communicator '" + communicator.name + "' has runs of " +
                       std::to_string(communicator.run) + " of " + std::to_string(places) +
                       " ranks, which cannot be");
    }
  }
  if (schedule.streams.size() > kMostStreams) {
    return Unlocated("a schedule has at most " + std::to_string(kMostStreams) + " streams, not " +
                     std::to_string(schedule.streams.size()));
  }
  for (const Unit& unit : schedule.units) {
    if (!UnitSizeOk(unit)) return Unlocated("unit '" + unit.name + "' has a shape that cannot be");
  }
  int32_t stage = 0;
  for (const Segment& segment : schedule.segments) {
    if (segment.stage != stage && segment.stage != stage + 1) {
      return Unlocated("segment '" + segment.name + "' is in stage " +
                       std::to_string(segment.stage) + ", which does not follow stage " +
                       std::to_string(stage));
    }
    stage = segment.stage;
    for (const int32_t unit : segment.units) {
      if (Names(unit, schedule.units)) continue;
      return Unlocated("segment '" + segment.name + "' names unit " + std::to_string(unit) +
                       ", which does not exist");
    }
  }
  if (const std::string problem = FrozenProblem(schedule); !problem.empty()) {
    return Unlocated(problem);
  }
  if (schedule.program_of_rank.size() != static_cast<size_t>(schedule.num_ranks())) {
    return Unlocated("the schedule has " + std::to_string(schedule.num_ranks()) +
                     " ranks, but says which program runs for " +
                     std::to_string(schedule.program_of_rank.size()));
  }
  for (const int32_t program : schedule.program_of_rank) {
    if (!Names(program, schedule.programs)) {
      return Unlocated("a rank runs program " + std::to_string(program) + ", which does not exist");
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Refusal> CheckStructure(const Schedule& schedule) {
  if (std::optional<Refusal> refusal = CheckTables(schedule)) return refusal;
  for (const Program& program : schedule.programs) {
    if (std::optional<Refusal> refusal = CheckBuffers(schedule, program)) return refusal;
    for (OpIndex index = 0; index < static_cast<OpIndex>(program.ops.size()); ++index) {
      const Op& op = program.ops[static_cast<size_t>(index)];
      std::string problem = IndexProblem(schedule, program, op);
      if (problem.empty()) problem = DependencyProblem(schedule, op, index);
      if (problem.empty()) problem = CollectiveProblem(schedule, op);
      if (problem.empty()) continue;
      return RefusalAt(schedule, program, RefusalKind::kStructure, index, problem);
    }
  }
  return std::nullopt;
}

}  // namespace shardscope::plan
