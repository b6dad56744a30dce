#include "engine/footprint/unlisted_memory.h"

#include <iterator>
#include <utility>
#include <vector>

#include "engine/footprint/unit_layout.h"
#include "engine/model/model_memory.h"

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
    return model::BackwardTemporaryBytes(step.model, op.segment, step.batch);
  }
  if (!traits.reduces || !step.scratch) return 0;
  int64_t pieces = op.segment == plan::kNone ? 1 : step.batch;
  if (op.unit != plan::kNone) {
    pieces = std::ssize(step.schedule.units[static_cast<size_t>(op.unit)].parameters);
  }
  return step.scratch(op.kind, op.payload_bytes, pieces);
}

}  // namespace

plan::Unlisted UnlistedMemory(const model::ModelConfig& model, int64_t batch,
                              const plan::Schedule& schedule, ScratchBytes scratch) {
  const int shard_ranks = schedule.mesh.size(plan::MeshDimension::kShard);
  std::vector<UnitLayout> layouts;
  for (const plan::Unit& unit : schedule.units) layouts.emplace_back(unit, shard_ranks);
  plan::Unlisted unlisted;
  unlisted.temporary_bytes = [step = Step{schedule, Shared(model, schedule), batch,
                                          std::move(scratch), DroppedBytes(schedule)}](
                                 const plan::Op& op) { return TemporaryBytes(step, op); };
  unlisted.beside_bytes = [layouts = std::move(layouts)](const plan::Buffer& buffer) -> int64_t {
    if (buffer.unit == plan::kNone) return 0;
    return GapBytes(layouts[static_cast<size_t>(buffer.unit)], buffer);
  };
  return unlisted;
}

}  // namespace shardscope::footprint
