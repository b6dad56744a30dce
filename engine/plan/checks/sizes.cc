#include "engine/plan/checks/checks.h"

#include <algorithm>
#include <array>
#include <string>

namespace shardscope::plan {
namespace {

bool IsWidth(int64_t bytes) {
  return bytes == BytesOf(DType::kBf16) || bytes == BytesOf(DType::kFp32) ||
         bytes == BytesOf(DType::kFp64);
}

class SizeCheck {
 public:
  SizeCheck(const Schedule& schedule, const Program& program)
      : schedule_(schedule), program_(program), checked_(program.buffers.size()) {
    for (const Communicator& communicator : schedule.communicators) {
      if (communicator.run > 0) post_forward_ranks_ = communicator.run;
    }
    if (const Op* gather = FindGather(schedule); gather != nullptr) {
      shard_ranks_ = schedule.GroupSize(gather->communicator);
      shard_dimensions_ = schedule.DimensionsOf(gather->communicator);
    } else {
      // An evaluation of parameters that all ranks keep, padded for the shards of what is updated.
      shard_ranks_ = schedule.mesh.size(MeshDimension::kShard);
    }
    for (const Unit& unit : schedule.units) {
      shard_elements_.push_back(PaddedShardElements(unit, shard_ranks_));
      trained_elements_.push_back(PaddedShardElements(TrainedPart(unit), shard_ranks_));
    }
  }

  std::optional<Refusal> Run() {
    for (OpIndex index = 0; index < static_cast<OpIndex>(program_.ops.size()); ++index) {
      const Op& op = program_.ops[static_cast<size_t>(index)];
      std::string problem;
      buffer_ = kNone;
      if (op.communicator != kNone) problem = CollectiveProblem(op);
      for (const auto* buffers : {&op.allocates, &op.reads, &op.writes, &op.frees}) {
        for (const BufferId id : *buffers) {
          if (problem.empty()) problem = BufferProblem(id);
        }
      }
      if (problem.empty()) continue;
      Refusal refusal = RefusalAt(schedule_, program_, RefusalKind::kBytes, index, problem);
      refusal.buffer = buffer_;
      return refusal;
    }
    return std::nullopt;
  }

 private:
  // Null where no op of any rank gathers parameters: they are there as a whole on every rank.
  static const Op* FindGather(const Schedule& schedule) {
    for (const Program& program : schedule.programs) {
      for (const Op& op : program.ops) {
        if (op.kind == OpKind::kAllGather && op.unit != kNone &&
            schedule.communicators[static_cast<size_t>(op.communicator)].run == 0) {
          return &op;
        }
      }
    }
    return nullptr;
  }

  int64_t& WidthOf(PartDType dtype) { return widths_[static_cast<size_t>(dtype)]; }
  const Buffer& At(BufferId id) const { return program_.buffers[static_cast<size_t>(id)]; }

  std::string CollectiveProblem(const Op& op) {
    const int num_ranks = schedule_.GroupSize(op.communicator);
    // The root alone has what is scattered, or gets what is gathered.
    const bool is_root = op.kind == OpKind::kScatter ? !op.reads.empty() : !op.writes.empty();
    const int64_t wire = WireBytes(op.kind, op.payload_bytes, num_ranks, is_root);
    if (op.wire_bytes != wire) {
      return "has " + std::to_string(op.wire_bytes) + " wire bytes, but a payload of " +
             std::to_string(op.payload_bytes) + " on " + std::to_string(num_ranks) +
             " ranks sends " + std::to_string(wire);
    }
    if (op.peer != kNone) {
      return OutputProblem(op, op.kind == OpKind::kSend ? op.reads.front() : op.writes.front());
    }
    const PayloadSide side = TraitsOf(op.kind).payload;
    const bool has_parts = op.segment != kNone && side != PayloadSide::kBoth;
    if (op.kind == OpKind::kScatter || op.kind == OpKind::kGather || has_parts) {
      return PartsProblem(op, num_ranks);
    }
    if (op.segment != kNone) return OutputProblem(op, op.writes.front());
    if (op.unit != kNone && side == PayloadSide::kBoth &&
        schedule_.IsOfTensorRanks(op.communicator)) {
      return WholeParametersProblem(op);
    }
    const bool scatters = side == PayloadSide::kReads;
    const bool reads_whole = scatters || op.writes.empty();  // so does a broadcast's root
    const BufferId whole = reads_whole ? op.reads.front() : op.writes.front();
    // What was updated may be a part of the whole, gathered in place.
    const bool fits = GathersTrained(op) ? At(whole).bytes >= op.payload_bytes
                                         : At(whole).bytes == op.payload_bytes;
    if (!fits) {
      buffer_ = whole;
      return "has a payload of " + std::to_string(op.payload_bytes) +
             " bytes, but its buffer holds " + std::to_string(At(whole).bytes);
    }
    // The other side, unless the collective works in place: one rank's part of the whole.
    for (const BufferId part : scatters ? op.writes : op.reads) {
      if (part == whole || side == PayloadSide::kBoth || side == PayloadSide::kNone) continue;
      if (op.payload_bytes % num_ranks == 0 && op.payload_bytes / num_ranks == At(part).bytes) {
        continue;
      }
      buffer_ = part;
      return "has a payload of " + std::to_string(op.payload_bytes) + " bytes, but each of " +
             std::to_string(num_ranks) + " ranks has " + std::to_string(At(part).bytes);
    }
    return op.unit == kNone ? "" : UnitPayloadProblem(op);
  }

  // Each rank's part of a payload that the root, or every rank, has as a whole on one side.
  std::string PartsProblem(const Op& op, int num_ranks) {
    const bool scatters = op.kind == OpKind::kScatter || op.kind == OpKind::kReduceScatter;
    const bool in_place = op.reads == op.writes;
    if (op.payload_bytes % num_ranks != 0) {
      return "has a payload of " + std::to_string(op.payload_bytes) + " bytes, of which " +
             std::to_string(num_ranks) + " ranks cannot have equal parts";
    }
    for (const bool reads : {true, false}) {
      for (const BufferId id : reads ? op.reads : op.writes) {
        const bool is_whole = in_place || reads == scatters;
        const int64_t expected = is_whole ? op.payload_bytes : op.payload_bytes / num_ranks;
        buffer_ = id;
        const bool fits =
            HoldsMore(At(id).kind) ? At(id).bytes >= expected : At(id).bytes == expected;
        if (fits) continue;
        return "has a payload of " + std::to_string(op.payload_bytes) + " bytes for " +
               std::to_string(num_ranks) + " ranks, but its buffer holds " +
               std::to_string(At(id).bytes);
      }
    }
    return "";
  }

  // What a segment or its norm puts out is a part of what it leaves.
  static bool HoldsMore(BufferKind kind) {
    const BufferForm form = TraitsOf(kind).form;
    return form == BufferForm::kSaved || form == BufferForm::kSavedNorm;
  }

  std::string OutputProblem(const Op& op, BufferId id) {
    buffer_ = id;
    const Buffer& buffer = At(buffer_);
    const bool fits = HoldsMore(buffer.kind) ? op.payload_bytes <= buffer.bytes
                                             : op.payload_bytes == buffer.bytes;
    if (fits) return "";
    return "has a payload of " + std::to_string(op.payload_bytes) +
           " bytes, but its buffer holds " + std::to_string(buffer.bytes);
  }

  // Of a gradient, what ranks that share the work of layers all have.
  std::string WholeParametersProblem(const Op& op) {
    const Unit& unit = schedule_.units[static_cast<size_t>(op.unit)];
    const int64_t expected =
        WholeShardElements(TrainedPart(unit), shard_ranks_) * BytesOf(op.dtype);
    if (op.payload_bytes != expected) {
      return "has a payload of " + std::to_string(op.payload_bytes) +
             " bytes, but what is not split of its unit in " + std::string(Name(op.dtype)) +
             " has " + std::to_string(expected);
    }
    if (At(op.writes.front()).bytes >= expected) return "";
    buffer_ = op.writes.front();
    return "has a payload of " + std::to_string(expected) + " bytes, but its buffer holds " +
           std::to_string(At(buffer_).bytes);
  }

  std::string UnitPayloadProblem(const Op& op) const {
    // Among ranks that hold the same shard it is a shard.
    const MeshDimensions dimensions = schedule_.DimensionsOf(op.communicator);
    const bool whole = shard_ranks_ == 1 || (dimensions & shard_dimensions_) != 0;
    const UnitPart part = whole ? UnitPart::kWhole : UnitPart::kShard;
    const bool is_trained = TraitsOf(op.kind).reduces || GathersTrained(op);
    const int64_t expected = Elements(op.unit, part, is_trained) * BytesOf(op.dtype);
    if (op.payload_bytes == expected) return "";
    return "has a payload of " + std::to_string(op.payload_bytes) + " bytes, but its unit in " +
           std::string(Name(op.dtype)) + " has " + std::to_string(expected);
  }

  // After an update, of parameters that all ranks keep.
  static bool GathersTrained(const Op& op) {
    return op.kind == OpKind::kAllGather && op.unit != kNone && op.phase == Phase::kOptimizer;
  }

  // Of the unit, or of its trained part.
  int64_t Elements(int32_t unit, UnitPart part, bool is_trained) const {
    const int64_t of_shard =
        (is_trained ? trained_elements_ : shard_elements_)[static_cast<size_t>(unit)];
    switch (part) {
      case UnitPart::kNone:
        break;
      case UnitPart::kShard:
        return of_shard;
      case UnitPart::kWhole:
      case UnitPart::kRankMajor:
        return of_shard * shard_ranks_;
      case UnitPart::kPostForward:
        return of_shard * shard_ranks_ / post_forward_ranks_;
    }
    return 0;
  }

  // Every buffer once, at the first op that names it.
  std::string BufferProblem(BufferId id) {
    if (checked_[static_cast<size_t>(id)]) return "";
    checked_[static_cast<size_t>(id)] = true;
    const Buffer& buffer = At(id);
    if (buffer.slot != kNone && At(buffer.slot).bytes < buffer.bytes) {
      buffer_ = id;
      return "uses buffer " + std::to_string(id) + " '" + BufferName(schedule_, buffer) + "' of " +
             std::to_string(buffer.bytes) + " bytes, and its slot has " +
             std::to_string(At(buffer.slot).bytes);
    }
    const BufferKindTraits& traits = TraitsOf(buffer.kind);
    if (buffer.unit == kNone) return "";
    if (traits.kept_as == KeptAs::kOptimizerState) return StateProblem(id);
    if (traits.part == UnitPart::kNone) return "";
    const int64_t elements = Elements(buffer.unit, traits.part, traits.trained_only);
    int64_t& width = WidthOf(traits.part_dtype);
    // The first buffer says how wide the dtype is, if it can be one.
    if (width == 0 && elements > 0 && buffer.bytes % elements == 0 &&
        IsWidth(buffer.bytes / elements)) {
      width = buffer.bytes / elements;
    }
    if (width > 0 && buffer.bytes == elements * width) return "";
    buffer_ = id;
    return "uses buffer " + std::to_string(id) + " '" + BufferName(schedule_, buffer) + "' of " +
           std::to_string(buffer.bytes) + " bytes, which is not " + std::to_string(elements) +
           " elements of the " + std::string(Name(traits.part_dtype)) + " dtype";
  }

  std::string StateProblem(BufferId id) {
    const Buffer& buffer = At(id);
    int64_t& width = WidthOf(PartDType::kMaster);
    for (const DType master : {DType::kFp32, DType::kFp64}) {
      if (width != 0 && width != BytesOf(master)) continue;
      if (buffer.bytes != StateBytes(TrainedPart(schedule_.units[static_cast<size_t>(buffer.unit)]),
                                     shard_ranks_, schedule_.optimizer_state, master)) {
        continue;
      }
      // Blocks alone do not tell it.
      const bool tells = std::ranges::any_of(schedule_.optimizer_state, [](const auto& tensor) {
        return tensor.form == StateForm::kMaster;
      });
      if (tells) width = BytesOf(master);
      return "";
    }
    buffer_ = id;
    return "uses buffer " + std::to_string(id) + " '" + BufferName(schedule_, buffer) + "' of " +
           std::to_string(buffer.bytes) + " bytes, which is not the optimizer's state of its unit";
  }

  const Schedule& schedule_;
  const Program& program_;
  int shard_ranks_ = 1;
  int post_forward_ranks_ = 1;
  MeshDimensions shard_dimensions_ = 0;           // of the communicator that gathers
  std::vector<int64_t> shard_elements_;           // by unit
  std::vector<int64_t> trained_elements_;         // the same of its trained part
  std::array<int64_t, kNumPartDTypes> widths_{};  // bytes an element; 0: not seen yet
  std::vector<bool> checked_;                     // by buffer
  BufferId buffer_ = kNone;                       // whose size is wrong
};

}  // namespace

std::optional<Refusal> CheckSizes(const Schedule& schedule) {
  for (const Program& program : schedule.programs) {
    if (std::optional<Refusal> refusal = SizeCheck(schedule, program).Run()) return refusal;
  }
  return std::nullopt;
}

}  // namespace shardscope::plan
