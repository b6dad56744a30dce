#include "engine/footprint/unlisted_memory.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "engine/footprint/unit_layout.h"
#include "engine/model/model_memory.h"
#include "trace/base/round_up.h"

namespace shardscope::footprint {
namespace {

// The model as ranks of `schedule` share it.
model::ModelConfig Shared(model::ModelConfig model, const plan::Schedule& schedule) {
  model.tensor_ranks = schedule.mesh.size(plan::MeshDimension::kTensor);
  if (plan::IsSequenceParallel(schedule.segments)) model.sequence_ranks = model.tensor_ranks;
  return model;
}

struct Step {
  const plan::Schedule& schedule;
  model::ModelConfig model;  // Shared()
  int64_t batch = 0;
  ScratchBytes scratch;
  std::vector<int64_t> dropped_bytes;  // DroppedBytes()
  int32_t first_trained = 0;           // plan::FirstTrainedSegment()
};

// By segment: what its forward makes and does not keep (activation checkpointing).
std::vector<int64_t> DroppedBytes(const plan::Schedule& schedule) {
  std::vector<int64_t> dropped(schedule.segments.size(), 0);
  for (const plan::Program& program : schedule.programs) {
    for (const plan::Buffer& buffer : program.buffers) {
      if (buffer.kind != plan::BufferKind::kActivation) continue;
      const auto segment = static_cast<size_t>(buffer.segment);
      dropped[segment] = schedule.segments[segment].activation_bytes - buffer.bytes;
    }
  }
  return dropped;
}

int64_t TemporaryBytes(const Step& step, const plan::Op& op) {
  const plan::OpKindTraits& traits = plan::TraitsOf(op.kind);
  if (op.kind == plan::OpKind::kNormBackward) return 0;  // but for what it returns
  // What the norm puts out, before it lies among that of the other positions.
  if (op.kind == plan::OpKind::kNormForward) {
    return step.schedule.segments[static_cast<size_t>(op.segment)].output_bytes;
  }
  if (op.kind == plan::OpKind::kWeightBackward) {
    return model::WeightBackwardTemporaryBytes(step.model, op.segment, step.batch);
  }
  if (traits.op_class == plan::OpClass::kForward) {
    return model::ForwardTemporaryBytes(step.model, op.segment, step.batch) +
           step.dropped_bytes[static_cast<size_t>(op.segment)];
  }
  // At most: what is taken before the output is may be there where no output follows.
  if (traits.op_class == plan::OpClass::kRecompute) {
    return model::ForwardTemporaryBytes(step.model, op.segment, step.batch) +
           step.schedule.segments[static_cast<size_t>(op.segment)].output_bytes;
  }
  if (traits.op_class == plan::OpClass::kBackward) {
    const int64_t bytes = model::BackwardTemporaryBytes(step.model, op.segment, step.batch);
    // What is beside the gradient of its input, which is not taken from the first one.
    const bool is_last = op.segment > 0 && op.segment == step.first_trained;
    const auto before = static_cast<size_t>(op.segment) - 1;
    return bytes + (is_last ? step.schedule.segments[before].output_bytes : 0);
  }
  if (!traits.reduces || !step.scratch) return 0;
  int64_t pieces = op.segment == plan::kNone ? 1 : step.batch;
  if (op.unit != plan::kNone) {
    pieces = std::ssize(step.schedule.units[static_cast<size_t>(op.unit)].parameters);
  }
  return step.scratch(op.kind, op.payload_bytes, pieces);
}

// Whether it holds the weights from step to step, beside which there may be a whole copy in another
// dtype.
bool HoldsMaster(const plan::Buffer& buffer, const std::set<int32_t>& units_with_shard,
                 const std::set<int32_t>& units_on_host) {
  if (!buffer.persistent || units_on_host.contains(buffer.unit)) return false;
  if (buffer.kind == plan::BufferKind::kParameterShard) return true;
  return buffer.kind == plan::BufferKind::kUnsharded && !units_with_shard.contains(buffer.unit);
}

// How many ranks hold the same of it, and copy a part each.
int64_t Holders(const plan::Mesh& mesh, const plan::Parameter& parameter, bool is_rooted) {
  if (is_rooted) return 1;
  const int64_t replicas = mesh.size(plan::MeshDimension::kReplicate);
  const bool is_whole = parameter.split == plan::TensorSplit::kWhole;
  return is_whole ? replicas * mesh.size(plan::MeshDimension::kTensor) : replicas;
}

}  // namespace

plan::Unlisted UnlistedMemory(const model::ModelConfig& model, int64_t batch,
                              const plan::Schedule& schedule, ScratchBytes scratch) {
  const int shard_ranks = schedule.mesh.size(plan::MeshDimension::kShard);
  std::vector<UnitLayout> layouts;
  for (const plan::Unit& unit : schedule.units) layouts.emplace_back(unit, shard_ranks);
  plan::Unlisted unlisted;
  unlisted.temporary_bytes = [step = Step{schedule, Shared(model, schedule), batch,
                                          std::move(scratch), DroppedBytes(schedule),
                                          plan::FirstTrainedSegment(schedule.segments)}](
                                 const plan::Op& op) { return TemporaryBytes(step, op); };
  unlisted.beside_bytes = [layouts = std::move(layouts)](const plan::Buffer& buffer) -> int64_t {
    if (buffer.unit == plan::kNone) return 0;
    return GapBytes(layouts[static_cast<size_t>(buffer.unit)], buffer);
  };
  return unlisted;
}

int64_t CheckpointCopyBytes(const plan::Schedule& schedule, const plan::Unit& unit,
                            plan::DType master, bool is_rooted) {
  const auto aligned = [](int64_t bytes) { return RoundUp(bytes, int64_t{kAlignment}); };
  const plan::StateTensors& kept = schedule.optimizer_state;
  const bool has_blocks = std::ranges::any_of(kept, [](const plan::StateTensor& tensor) {
    return tensor.form == plan::StateForm::kBlocks;
  });
  const UnitLayout layout(unit, schedule.mesh.size(plan::MeshDimension::kShard));
  int64_t bytes = 0;
  for (const ParameterLayout& parameter : layout.parameters()) {
    const int64_t holders = Holders(schedule.mesh, parameter.parameter, is_rooted);
    int64_t elements = (parameter.shard_elements() + holders - 1) / holders;
    // None takes a part of a block.
    if (has_blocks && holders > 1) {
      elements = std::min(elements + plan::kStateBlockElements - 1, parameter.shard_elements());
    }
    const int64_t of_master = aligned(elements * plan::BytesOf(master));
    bytes += of_master;
    if (parameter.parameter.is_frozen) continue;
    for (const plan::StateTensor& tensor : kept) {
      bytes += tensor.form == plan::StateForm::kMaster
                   ? of_master
                   : aligned(elements) + aligned(plan::NumStateBlocks(elements) *
                                                 plan::BytesOf(plan::DType::kFp32));
    }
  }
  return bytes;
}

plan::Unlisted WithCheckpointCopy(plan::Unlisted unlisted, const plan::Schedule& schedule,
                                  plan::DType master) {
  std::set<int32_t> with_shard;
  std::set<int32_t> on_host;
  bool is_rooted = false;
  for (const plan::Program& program : schedule.programs) {
    bool has_state = false;
    for (const plan::Buffer& buffer : program.buffers) {
      has_state |= buffer.persistent;
      if (buffer.kind == plan::BufferKind::kParameterShard) with_shard.insert(buffer.unit);
      if (buffer.kind == plan::BufferKind::kHostParameterShard) on_host.insert(buffer.unit);
    }
    is_rooted |= !has_state;
  }
  std::vector<int64_t> copy_bytes;  // by unit
  for (const plan::Unit& unit : schedule.units) {
    copy_bytes.push_back(CheckpointCopyBytes(schedule, unit, master, is_rooted));
  }
  unlisted.beside_bytes = [without = std::move(unlisted.beside_bytes),
                           with_shard = std::move(with_shard), on_host = std::move(on_host),
                           copy_bytes = std::move(copy_bytes)](const plan::Buffer& buffer) {
    const int64_t bytes = without ? without(buffer) : 0;
    if (!HoldsMaster(buffer, with_shard, on_host)) return bytes;
    return bytes + copy_bytes[static_cast<size_t>(buffer.unit)];
  };
  return unlisted;
}

}  // namespace shardscope::footprint
