// The end of a step where gradients and state are in the host's memory.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/runtime/ranks/rank_ops.h"

namespace shardscope::runtime {

using executor::OpContext;
using plan::BufferId;
using plan::BufferKind;

void RankOps::UnscaleOnHost(const OpContext& context) {
  const bool is_finite = std::ranges::all_of(units_, &ShardedUnit::HasFiniteGradient);
  const double found_inf = is_finite ? 0 : 1;
  std::memcpy(BlockOf(context.op().writes.front()), &found_inf, sizeof(found_inf));
}

void RankOps::GradNormOnHost(const OpContext& context) {
  double squares = 0;
  for (const ShardedUnit& unit : units_) squares += unit.GradientSquares();
  std::memcpy(BlockOf(context.op().writes.front()), &squares, sizeof(squares));
}

void RankOps::OptimizerOnHost(const OpContext& context) {
  const BufferId norm_buffer = Find(context, context.op().reads, BufferKind::kNorm);
  UpdateArgs args = UpdateOf(context.step);
  outcome_.learning_rate = args.learning_rate;
  if (norm_buffer == plan::kNone) {  // not known yet, and not needed: nothing is clipped
    units_[static_cast<size_t>(context.op().unit)].Update(args);
    return;
  }
  const auto scalar = [&](BufferId id) {
    double value = 0;
    if (id != plan::kNone) std::memcpy(&value, BlockOf(id), sizeof(value));
    return value;
  };
  const double norm = std::sqrt(scalar(norm_buffer)) / scaler_.scale;
  outcome_.grad_norm = norm;
  outcome_.found_inf = scalar(Find(context, context.op().reads, BufferKind::kFoundInf)) > 0;
  if (outcome_.found_inf) return;
  CheckGradientNorm(norm);
  if (context.op().unit == plan::kNone) return;  // nothing of the rank is trained
  args.gradient_scale = model::ClipScale(norm, job_->training.clip) / scaler_.scale;
  units_[static_cast<size_t>(context.op().unit)].Update(args);
}

}  // namespace shardscope::runtime
