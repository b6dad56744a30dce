#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "engine/plan/text.h"

// The text form, line by line. Fields at their default are left out; "#" starts a comment.
//
//   schedule 1 "fsdp2 full pre1" ranks=2 micro_batches=1
//
// and so on: docs/schedule.md shows all of them. "mesh=P,R,S,T" unless all ranks are along shard.
namespace shardscope::plan {
namespace {

std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '\n') {
      quoted += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

template <typename Int>
std::string List(const std::vector<Int>& values) {
  std::string list;
  for (const Int value : values) {
    if (!list.empty()) list += ',';
    list += std::to_string(value);
  }
  return list;
}

// Appends " key=value" unless the value is the default.
void Number(std::string_view key, int64_t value, int64_t default_value, std::string* line) {
  if (value == default_value) return;
  *line += ' ';
  *line += key;
  *line += '=' + std::to_string(value);
}

void Numbers(std::string_view key, const std::vector<int32_t>& values, std::string* line) {
  if (values.empty()) return;
  *line += ' ';
  *line += key;
  *line += '=' + List(values);
}

// "kind INDEX "name"".
std::string Entry(std::string_view kind, size_t index, std::string_view name) {
  return std::string(kind) + " " + std::to_string(index) + " " + Quoted(name);
}

// Ends the line with a name for people.
std::string Comment(std::string name) {
  std::replace(name.begin(), name.end(), '\n', ' ');  // would end the comment
  return "  # " + name + '\n';
}

std::string PrintUnit(const Unit& unit, size_t index) {
  std::string text = Entry("unit", index, unit.name);
  Number("root", unit.is_root ? 1 : 0, 0, &text);
  text += '\n';
  for (const Parameter& parameter : unit.parameters) {
    text += "  parameter " + Quoted(parameter.name);
    if (!parameter.shape.empty()) text += " shape=" + List(parameter.shape);
    if (parameter.split != TensorSplit::kWhole) {
      text += " tensor=" + std::string(Name(parameter.split));
    }
    Number("parts", parameter.row_parts, 1, &text);
    Number("frozen", parameter.is_frozen ? 1 : 0, 0, &text);
    text += '\n';
  }
  return text;
}

std::string PrintState(const Schedule& schedule) {
  std::string text;
  for (const StateTensor& tensor : schedule.optimizer_state) {
    text += "state " + Quoted(tensor.name) + " form=";
    text += Name(tensor.form);
    text += '\n';
  }
  return text.empty() ? "state none\n" : text;
}

std::string PrintSegment(const Segment& segment, size_t index) {
  std::string line = Entry("segment", index, segment.name);
  if (!segment.units.empty()) line += " unit=" + List(segment.units);
  Number("activation", segment.activation_bytes, 0, &line);
  Number("output", segment.output_bytes, 0, &line);
  Number("stage", segment.stage, 0, &line);
  Number("split", segment.is_split ? 1 : 0, 0, &line);
  Number("norm", segment.norm_bytes, 0, &line);
  Number("hidden", segment.hidden_bytes, 0, &line);
  if (!segment.frozen_units.empty()) line += " frozen=" + List(segment.frozen_units);
  return line + '\n';
}

std::string PrintBuffer(const Schedule& schedule, const Buffer& buffer, size_t index) {
  std::string line = "  buffer " + std::to_string(index) + " ";
  line += Name(buffer.kind);
  Number("unit", buffer.unit, kNone, &line);
  Number("segment", buffer.segment, kNone, &line);
  Number("mb", buffer.micro_batch, kNone, &line);
  Number("bytes", buffer.bytes, 0, &line);
  Number("persistent", buffer.persistent ? 1 : 0, 0, &line);
  Number("slot", buffer.slot, kNone, &line);
  return line + Comment(BufferName(schedule, buffer));
}

std::string PrintDependencies(const Op& op) {
  std::string list;
  for (const Dependency& dependency : op.dependencies) {
    list += list.empty() ? " wait=" : ",";
    list += Name(dependency.kind);
    list += ':' + std::to_string(dependency.target);
  }
  return list;
}

std::string PrintOp(const Schedule& schedule, const Op& op, size_t index) {
  std::string line = "  op " + std::to_string(index) + " ";
  line += Name(op.kind);
  line += " phase=";
  line += Name(op.phase);
  Number("mb", op.micro_batch, kNone, &line);
  Number("unit", op.unit, kNone, &line);
  Number("segment", op.segment, kNone, &line);
  Number("stream", op.stream, 0, &line);
  Number("comm", op.communicator, kNone, &line);
  Number("peer", op.peer, kNone, &line);
  Number("root", op.root, kNone, &line);
  if (op.communicator != kNone || op.dtype != DType::kFp32) {
    line += " dtype=";
    line += Name(op.dtype);
  }
  Number("payload", op.payload_bytes, 0, &line);
  Number("wire", op.wire_bytes, 0, &line);
  Numbers("alloc", op.allocates, &line);
  Numbers("read", op.reads, &line);
  Numbers("write", op.writes, &line);
  Numbers("free", op.frees, &line);
  line += PrintDependencies(op);
  std::string name = OpName(schedule, op);
  if (static_cast<size_t>(op.stream) < schedule.streams.size()) {
    name += " @" + schedule.streams[static_cast<size_t>(op.stream)].name;
  }
  return line + Comment(std::move(name));
}

}  // namespace

std::string PrintSchedule(const Schedule& schedule) {
  std::string text = Entry("schedule", 1, schedule.name);
  text += " ranks=" + std::to_string(schedule.num_ranks());
  if (schedule.mesh != MeshOf(MeshDimension::kShard, schedule.num_ranks())) {
    text += " mesh=" +
            List(std::vector<int32_t>(schedule.mesh.sizes.begin(), schedule.mesh.sizes.end()));
  }
  text += " micro_batches=" + std::to_string(schedule.num_micro_batches) + '\n';
  for (size_t index = 0; index < schedule.streams.size(); ++index) {
    text += Entry("stream", index, schedule.streams[index].name) + " role=";
    text += Name(schedule.streams[index].role);
    text += '\n';
  }
  for (size_t index = 0; index < schedule.communicators.size(); ++index) {
    const Communicator& communicator = schedule.communicators[index];
    text += Entry("communicator", index, communicator.name);
    if (communicator.dimensions != kAllDimensions) {
      text += " dimensions=" + Print(communicator.dimensions);
    }
    if (communicator.run > 0) text += " run=" + std::to_string(communicator.run);
    text += '\n';
  }
  for (size_t index = 0; index < schedule.units.size(); ++index) {
    text += PrintUnit(schedule.units[index], index);
  }
  if (schedule.optimizer_state != DefaultStateTensors()) text += PrintState(schedule);
  for (size_t index = 0; index < schedule.segments.size(); ++index) {
    text += PrintSegment(schedule.segments[index], index);
  }
  for (size_t program = 0; program < schedule.programs.size(); ++program) {
    text += "program " + std::to_string(program) + '\n';
    const auto& [ops, buffers] = schedule.programs[program];
    for (size_t index = 0; index < buffers.size(); ++index) {
      text += PrintBuffer(schedule, buffers[index], index);
    }
    for (size_t index = 0; index < ops.size(); ++index) {
      text += PrintOp(schedule, ops[index], index);
    }
  }
  text += "rank_programs";
  Numbers("ranks", schedule.program_of_rank, &text);
  return text + '\n';
}

}  // namespace shardscope::plan
