#include "tests/oracle/bytes.h"

#include <array>
#include <optional>
#include <set>

#include "tests/oracle/values.h"

namespace shardscope::oracle {
namespace {

using plan::Buffer;
using plan::BufferId;
using plan::BufferKind;
using plan::Op;
using plan::OpIndex;
using plan::OpKind;

// Master weights, parameters as computed with, gradients as reduced and as kept: one dtype each.
enum class Width : uint8_t { kMaster, kParameter, kReduce, kGradient };
constexpr int kNumWidths = 4;

struct Content {
  Width width = Width::kMaster;
  int64_t elements = 0;  // 0: not a unit's
};

class BytesCheck {
 public:
  BytesCheck(const plan::Schedule& schedule, int rank)
      : schedule_(schedule), program_(schedule.ProgramOf(rank)), rank_(rank) {
    for (const plan::Program& program : schedule.programs) {
      for (const Op& op : program.ops) {
        const bool gathers_unit =
            op.kind == OpKind::kAllGather && op.unit != plan::kNone && HasCommunicator(op);
        if (!gathers_unit || gathers_ || RunOf(op.communicator) > 0) continue;
        shards_ = RanksOf(op.communicator);
        gathers_ = DimensionsOf(op.communicator);
      }
    }
  }

  std::vector<Finding> Run() {
    for (OpIndex index = 0; index < static_cast<OpIndex>(program_.ops.size()); ++index) {
      const Op& op = program_.ops[static_cast<size_t>(index)];
      for (const auto* list : {&op.allocates, &op.reads, &op.writes, &op.frees}) {
        for (const BufferId id : *list) CheckBuffer(index, id);
      }
      if (plan::CategoryOf(op.kind) == plan::Category::kCommunication) CheckCollective(index, op);
    }
    return std::move(findings_);
  }

 private:
  int64_t Shards() const { return shards_; }

  bool HasCommunicator(const Op& op) const {
    return op.communicator >= 0 && op.communicator < std::ssize(schedule_.communicators);
  }

  unsigned DimensionsOf(plan::CommunicatorIndex communicator) const {
    return schedule_.communicators[static_cast<size_t>(communicator)].dimensions;
  }

  int64_t RunOf(plan::CommunicatorIndex communicator) const {
    return schedule_.communicators[static_cast<size_t>(communicator)].run;
  }

  // In each group of the communicator.
  int64_t RanksOf(plan::CommunicatorIndex communicator) const {
    if (RunOf(communicator) > 0) return RunOf(communicator);
    int64_t ranks = 1;
    const auto& mesh = schedule_.mesh.sizes;
    const unsigned dimensions = DimensionsOf(communicator);
    for (size_t dimension = 0; dimension < mesh.size(); ++dimension) {
      if ((dimensions >> dimension & 1U) != 0) ranks *= mesh[dimension];
    }
    return ranks;
  }

  // Of one rank: each parameter's rows rounded up to the same number on every rank.
  int64_t ShardElements(int32_t unit) const {
    return ShardElementsOf(schedule_.units[static_cast<size_t>(unit)]);
  }

  // Of those that have a gradient.
  plan::Unit Trained(int32_t unit) const {
    plan::Unit trained;
    for (const plan::Parameter& one : schedule_.units[static_cast<size_t>(unit)].parameters) {
      if (!one.is_frozen) trained.parameters.push_back(one);
    }
    return trained;
  }

  int64_t ShardElementsOf(const plan::Unit& unit) const {
    int64_t elements = 0;
    for (const plan::Parameter& parameter : unit.parameters) {
      int64_t total = 1;
      for (const int64_t size : parameter.shape) total *= size;
      const int64_t rows = parameter.shape.empty() ? 1 : parameter.shape.front();
      int64_t padded = rows;
      while (padded % Shards() != 0) ++padded;
      elements += total / rows * (padded / Shards());
    }
    return elements;
  }

  Content ContentOf(const Buffer& buffer) const {
    if (buffer.unit == plan::kNone) return {};
    const int64_t shard = ShardElements(buffer.unit);
    const int64_t trained = ShardElementsOf(Trained(buffer.unit));
    switch (buffer.kind) {
      case BufferKind::kParameterShard:
      case BufferKind::kHostParameterShard:
        return {Width::kMaster, shard};
      case BufferKind::kGradientShard:
      case BufferKind::kHostGradientShard:
        return {Width::kGradient, trained};
      case BufferKind::kCastShard:
        return {Width::kParameter, shard};
      case BufferKind::kAllGatherOutput:
      case BufferKind::kUnsharded:
      case BufferKind::kParameterSlot:
        return {Width::kParameter, Shards() * shard};
      case BufferKind::kGradient:
      case BufferKind::kGradientSlot:
        return {Width::kParameter, Shards() * trained};
      case BufferKind::kPostForwardShard:
        for (const plan::Communicator& communicator : schedule_.communicators) {
          if (communicator.run > 0) {
            return {Width::kParameter, Shards() * shard / communicator.run};
          }
        }
        return {};
      case BufferKind::kReduceScatterInput:
      case BufferKind::kAccumulatedGradient:
        return {Width::kReduce, Shards() * trained};
      case BufferKind::kReduceScatterOutput:
      case BufferKind::kHostReduced:
        return {Width::kReduce, trained};
      default:
        return {};
    }
  }

  void CheckBuffer(OpIndex index, BufferId id) {
    const Buffer& buffer = program_.buffers[static_cast<size_t>(id)];
    const bool fits = buffer.slot == plan::kNone ||
                      program_.buffers[static_cast<size_t>(buffer.slot)].bytes >= buffer.bytes;
    if (!fits) Find(index, id);
    if (OnDevice(buffer.kind) == BufferKind::kOptimizerState && buffer.unit != plan::kNone) {
      return CheckState(index, id);
    }
    const Content content = ContentOf(buffer);
    if (content.elements == 0) return;
    int64_t& width = widths_[static_cast<size_t>(content.width)];
    if (width == 0) width = buffer.bytes / content.elements;
    const bool known = width == 2 || width == 4 || width == 8;
    if (!known || buffer.bytes != width * content.elements) Find(index, id);
  }

  // Each tensor has the master's width, or a byte an element and four for 256 of a parameter.
  void CheckState(OpIndex index, BufferId id) {
    const Buffer& buffer = program_.buffers[static_cast<size_t>(id)];
    int64_t of_master = 0;  // elements
    int64_t bytes = 0;      // of blocks
    for (const plan::StateTensor& tensor : schedule_.optimizer_state) {
      if (tensor.form == plan::StateForm::kMaster) {
        of_master += ShardElementsOf(Trained(buffer.unit));
        continue;
      }
      for (const plan::Parameter& one : Trained(buffer.unit).parameters) {
        plan::Unit alone;
        alone.parameters = {one};
        const int64_t elements = ShardElementsOf(alone);
        bytes += elements + 4 * (elements / 256 + (elements % 256 > 0 ? 1 : 0));
      }
    }
    int64_t& width = widths_[static_cast<size_t>(Width::kMaster)];
    if (width == 0 && of_master > 0) width = (buffer.bytes - bytes) / of_master;
    if (of_master > 0 && width != 4 && width != 8) return Find(index, id);
    if (buffer.bytes != bytes + width * of_master) Find(index, id);
  }

  void CheckExchange(OpIndex index, const Op& op) {
    const bool sends = op.kind == OpKind::kSend;
    if (op.wire_bytes != (sends ? op.payload_bytes : 0)) Find(index, plan::kNone);
    CheckOutput(index, op, sends ? op.reads.front() : op.writes.front());
  }

  // A rank's part of what is gathered, or scattered once it is added up; in place beside the
  // others.
  void CheckSequence(OpIndex index, const Op& op, int64_t ranks) {
    const bool gathers = op.kind == OpKind::kAllGather;
    if (op.payload_bytes % ranks != 0) Find(index, plan::kNone);
    Op part = op;
    if (op.reads != op.writes) part.payload_bytes /= ranks;
    for (const BufferId id : op.reads) CheckOutput(index, gathers ? part : op, id);
    for (const BufferId id : op.writes) CheckOutput(index, gathers ? op : part, id);
  }

  // Of a unit's gradient what tensor ranks all have.
  void CheckWholeParameters(OpIndex index, const Op& op) {
    plan::Unit whole;
    for (const plan::Parameter& one : Trained(op.unit).parameters) {
      if (one.split == plan::TensorSplit::kWhole) whole.parameters.push_back(one);
    }
    if (op.payload_bytes != plan::BytesOf(op.dtype) * ShardElementsOf(whole)) {
      Find(index, plan::kNone);
    }
    if (program_.buffers[static_cast<size_t>(op.writes.front())].bytes < op.payload_bytes) {
      Find(index, op.writes.front());
    }
  }

  // The root has a part for each rank, or gets one.
  void CheckParts(OpIndex index, const Op& op, int64_t ranks) {
    const int64_t part = op.payload_bytes / ranks;
    const bool scatters = op.kind == OpKind::kScatter;
    const bool is_root = !(scatters ? op.reads : op.writes).empty();
    const int64_t wire = scatters ? (is_root ? part * (ranks - 1) : 0) : (is_root ? 0 : part);
    if (op.wire_bytes != wire || part * ranks != op.payload_bytes) Find(index, plan::kNone);
    for (const bool reads : {true, false}) {
      for (const BufferId id : reads ? op.reads : op.writes) {
        const Buffer& buffer = program_.buffers[static_cast<size_t>(id)];
        const int64_t expected = reads == scatters ? op.payload_bytes : part;
        if (buffer.kind == BufferKind::kActivation ? buffer.bytes < expected
                                                   : buffer.bytes != expected) {
          Find(index, id);
        }
      }
    }
  }

  // A segment's output is a part of what its forward leaves.
  void CheckOutput(OpIndex index, const Op& op, BufferId id) {
    const Buffer& buffer = program_.buffers[static_cast<size_t>(id)];
    const bool holds_more = buffer.kind == BufferKind::kActivation ||
                            buffer.kind == BufferKind::kRecomputed ||
                            buffer.kind == BufferKind::kNormOutput;
    const bool fits =
        holds_more ? buffer.bytes >= op.payload_bytes : buffer.bytes == op.payload_bytes;
    if (!fits) Find(index, id);
  }

  void CheckCollective(OpIndex index, const Op& op) {
    if (!HasCommunicator(op)) return Find(index, plan::kNone);
    if (op.kind == OpKind::kSend || op.kind == OpKind::kReceive) return CheckExchange(index, op);
    const int64_t ranks = RanksOf(op.communicator);
    if (op.kind == OpKind::kScatter || op.kind == OpKind::kGather) {
      return CheckParts(index, op, ranks);
    }
    if (op.payload_bytes < 0) Find(index, plan::kNone);
    int64_t wire = op.payload_bytes * (ranks - 1) / ranks;
    if (op.kind == OpKind::kAllReduce) wire *= 2;
    if (op.wire_bytes != wire) Find(index, plan::kNone);
    if (op.segment != plan::kNone && op.kind != OpKind::kAllReduce) {
      return CheckSequence(index, op, ranks);
    }
    if (op.segment != plan::kNone) return CheckOutput(index, op, op.writes.front());
    const unsigned tensor = plan::Only(plan::MeshDimension::kTensor);
    if (op.unit != plan::kNone && DimensionsOf(op.communicator) == tensor) {
      return CheckWholeParameters(index, op);
    }
    const int64_t width = plan::BytesOf(op.dtype);
    // What replicas reduce is a shard.
    const bool is_shard = gathers_ && (DimensionsOf(op.communicator) & *gathers_) == 0;
    // After an update only what has changed is gathered, into what ranks keep of all.
    const bool is_update = op.kind == OpKind::kAllGather && op.phase == plan::Phase::kOptimizer;
    int64_t elements = 1;
    if (op.unit != plan::kNone) {
      const bool is_gradient = op.kind == OpKind::kReduceScatter || op.kind == OpKind::kAllReduce ||
                               op.kind == OpKind::kReduce;
      const int64_t shard =
          is_gradient || is_update ? ShardElementsOf(Trained(op.unit)) : ShardElements(op.unit);
      elements = (is_shard ? 1 : Shards()) * shard;
    }
    if (op.payload_bytes != width * elements) Find(index, plan::kNone);
    // In place, the other side is the rank's own slot of the whole.
    const bool in_place = op.writes == op.reads;
    if (is_update && in_place) {
      const BufferId id = op.writes.front();
      if (program_.buffers[static_cast<size_t>(id)].bytes < op.payload_bytes) Find(index, id);
      return;
    }
    for (const BufferId id : op.reads) {
      CheckSide(index, op, id, op.kind == OpKind::kAllGather && !in_place);
    }
    for (const BufferId id : op.writes) {
      CheckSide(index, op, id, op.kind == OpKind::kReduceScatter && !in_place);
    }
  }

  void CheckSide(OpIndex index, const Op& op, BufferId id, bool part) {
    const int64_t bytes = program_.buffers[static_cast<size_t>(id)].bytes;
    if (bytes * (part ? Shards() : 1) != op.payload_bytes) Find(index, id);
  }

  void Find(OpIndex index, BufferId id) {
    findings_.push_back({Harm::kBytes, rank_, index, plan::kNone, id});
  }

  const plan::Schedule& schedule_;
  const plan::Program& program_;
  const int rank_;
  int64_t shards_ = 1;
  std::optional<unsigned> gathers_;           // dimensions of the communicator that gathers first
  std::array<int64_t, kNumWidths> widths_{};  // bytes an element, as the first buffer has it
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> CheckBytes(const plan::Schedule& schedule) {
  std::set<int32_t> checked;
  std::vector<Finding> findings;
  for (int rank = 0; rank < schedule.num_ranks(); ++rank) {
    if (!checked.insert(schedule.program_of_rank[static_cast<size_t>(rank)]).second) continue;
    for (const Finding& finding : BytesCheck(schedule, rank).Run()) findings.push_back(finding);
  }
  return findings;
}

}  // namespace shardscope::oracle
