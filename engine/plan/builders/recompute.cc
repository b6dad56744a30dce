// Activation checkpointing in a step: what forward keeps, and the ops that make the rest again.
// They stand behind what gathers the parameters for backward anyway, and in front of it.
#include <algorithm>
#include <utility>

#include "engine/plan/builders/step.h"

namespace shardscope::plan {

int64_t StepBuilder::KeptBytes(int32_t segment) const {
  const auto at = static_cast<size_t>(segment);
  const Segment& description = model_.segments[at];
  if (keeps_[at] == Keeps::kAll) return description.activation_bytes;
  if (keeps_[at] == Keeps::kOutput) return description.output_bytes;
  return description.output_bytes + model_.recomputable[at].product_bytes;
}

BufferId StepBuilder::InputOf(int32_t segment) const {
  if (segment == 0) return kNone;
  const auto before = static_cast<size_t>(segment) - 1;
  if (now_.phase == Phase::kBackward && GoesOn(segment - 1)) {
    return Now().recomputed[before];
  }
  return Now().activations[before];
}

std::vector<BufferId> StepBuilder::SavedOf(int32_t segment) const {
  const auto at = static_cast<size_t>(segment);
  std::vector<BufferId> saved;
  if (keeps_[at] != Keeps::kOutput) saved.push_back(Now().activations[at]);
  if (keeps_[at] != Keeps::kAll) saved.push_back(Now().recomputed[at]);
  if (SharesSequence(segment)) saved.push_back(Now().norms[at]);
  return saved;
}

std::vector<BufferId> StepBuilder::FreedByForward(int32_t segment) const {
  std::vector<BufferId> freed;
  const bool has_no_backward = segment > 0 && segment < first_trained_;
  if (has_no_backward || GoesOn(segment - 1)) {
    freed.push_back(Now().activations[static_cast<size_t>(segment) - 1]);
  }
  const bool drops_norm = keeps_[static_cast<size_t>(segment)] == Keeps::kOutput;
  if (drops_norm && SharesSequence(segment)) {
    freed.push_back(Now().norms[static_cast<size_t>(segment)]);
  }
  return freed;
}

std::vector<BufferId> StepBuilder::FreedByBackward(int32_t segment) const {
  const auto at = static_cast<size_t>(segment);
  std::vector<BufferId> freed = SavedOf(segment);
  // An output that is all that was kept goes with its last use: as the next segment's input, or
  // what the next stage was sent.
  if (keeps_[at] == Keeps::kOutput && segment == Stage().last) {
    freed.push_back(Now().activations[at]);
  }
  if (segment == 0) return freed;
  const bool is_received = segment == Stage().first;
  const bool is_kept_output =
      keeps_[at - 1] == Keeps::kOutput && !is_received && !GoesOn(segment - 1);
  if (is_received || is_kept_output) freed.push_back(Now().activations[at - 1]);
  return freed;
}

void StepBuilder::PrepareBackward(int32_t segment) {
  if (GoesOn(segment)) return;  // done with the next one
  int32_t first = segment;
  while (GoesOn(first - 1)) --first;
  for (int32_t at = segment; at >= first; --at) {
    const std::vector<int32_t>& units = UnitsOf(at);
    for (auto unit_index = units.rbegin(); unit_index != units.rend(); ++unit_index) {
      if (SpanOf(*unit_index).last == at) PreBackward(*unit_index);
    }
  }
  if (keeps_[static_cast<size_t>(segment)] == Keeps::kAll) return;
  for (int32_t at = first; at <= segment; ++at) RecomputeSegment(at);
}

void StepBuilder::RecomputeSegment(int32_t segment) {
  const auto at = static_cast<size_t>(segment);
  const Segment& description = model_.segments[at];
  const bool has_products = keeps_[at] == Keeps::kProducts;
  // The norm's own buffer was kept with the products.
  if (SharesSequence(segment) && !has_products) NormForward(OpKind::kRecompute, segment);
  Op op = MakeForward(OpKind::kRecompute, segment);
  if (has_products) op.reads.push_back(Now().activations[at]);
  if (SharesSequence(segment)) op.reads.push_back(Now().norms[at]);
  // Of the last one of a block the output was kept.
  const bool makes_output = GoesOn(segment);
  int64_t bytes = description.activation_bytes - KeptBytes(segment);
  if (makes_output) bytes += description.output_bytes;
  const BufferId recomputed = NewSegmentBuffer(BufferKind::kRecomputed, segment, bytes);
  Now().recomputed[at] = recomputed;
  op.allocates = op.writes = {recomputed};
  EmitWithSum(std::move(op), segment, makes_output);
}

}  // namespace shardscope::plan
