#include "engine/runtime/memory/unlisted_memory.h"

#include <iterator>
#include <utility>
#include <vector>

#include "engine/model/model_memory.h"
#include "engine/runtime/units/sharded_unit.h"

namespace shardscope::runtime {
namespace {

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

int64_t TemporaryBytes(const Job& job, const plan::Schedule& schedule,
                       const std::vector<int64_t>& dropped, const transport::Transport& transport,
                       const plan::Op& op) {
  const plan::OpKindTraits& traits = plan::TraitsOf(op.kind);
  if (op.kind == plan::OpKind::kNormBackward) return 0;  // but for what it returns
  model::ModelConfig model = job.model;
  model.tensor_ranks = schedule.mesh.size(plan::MeshDimension::kTensor);
  if (plan::IsSequenceParallel(schedule.segments)) model.sequence_ranks = model.tensor_ranks;
  // What the norm puts out, before it lies among that of the other positions.
  if (op.kind == plan::OpKind::kNormForward) {
    return schedule.segments[static_cast<size_t>(op.segment)].output_bytes;
  }
  if (op.kind == plan::OpKind::kWeightBackward) {
    return model::WeightBackwardTemporaryBytes(model, op.segment, job.training.batch);
  }
  if (traits.op_class == plan::OpClass::kForward) {
    return model::ForwardTemporaryBytes(model, op.segment, job.training.batch) +
           dropped[static_cast<size_t>(op.segment)];
  }
  // At most: what is taken before the output is may be there where no output follows.
  if (traits.op_class == plan::OpClass::kRecompute) {
    return model::ForwardTemporaryBytes(model, op.segment, job.training.batch) +
           schedule.segments[static_cast<size_t>(op.segment)].output_bytes;
  }
  if (traits.op_class == plan::OpClass::kBackward) {
    return model::BackwardTemporaryBytes(model, op.segment, job.training.batch);
  }
  if (!traits.reduces) return 0;
  int64_t pieces = op.segment == plan::kNone ? 1 : job.training.batch;
  if (op.unit != plan::kNone) {
    pieces = std::ssize(schedule.units[static_cast<size_t>(op.unit)].parameters);
  }
  return transport.ScratchBytes(op.kind, op.payload_bytes, pieces);
}

}  // namespace

plan::Unlisted UnlistedMemory(const Job& job, const plan::Schedule& schedule,
                              const transport::Transport& transport) {
  const int shard_ranks = schedule.mesh.size(plan::MeshDimension::kShard);
  std::vector<UnitLayout> layouts;
  for (const plan::Unit& unit : schedule.units) layouts.emplace_back(unit, shard_ranks);
  plan::Unlisted unlisted;
  unlisted.temporary_bytes = [&job, &schedule, &transport,
                              dropped = DroppedBytes(schedule)](const plan::Op& op) {
    return TemporaryBytes(job, schedule, dropped, transport, op);
  };
  unlisted.beside_bytes = [layouts = std::move(layouts)](const plan::Buffer& buffer) -> int64_t {
    if (buffer.unit == plan::kNone) return 0;
    return GapBytes(layouts[static_cast<size_t>(buffer.unit)], buffer);
  };
  return unlisted;
}

}  // namespace shardscope::runtime
