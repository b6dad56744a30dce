#include "engine/runtime/units/sharded_unit.h"

#include <ATen/ops/zeros.h>

#include <algorithm>

#include "engine/model/initialize.h"
#include "engine/model/segments.h"
#include "engine/runtime/memory/memory_pool.h"

namespace shardscope::runtime {
namespace {

int64_t RoundUp(int64_t bytes) {
  constexpr auto kStep = static_cast<int64_t>(kAlignment);
  return (bytes + kStep - 1) / kStep * kStep;
}

// Calls body with a value of the master dtype.
template <typename Body>
void DispatchMaster(const at::Tensor& tensor, const Body& body) {
  if (tensor.scalar_type() == at::kDouble) return body(double{});
  TORCH_CHECK(tensor.scalar_type() == at::kFloat, "runtime: master dtype is not fp32 or fp64");
  body(float{});
}

}  // namespace

UnitLayout::UnitLayout(const plan::Unit& unit, int num_ranks) : num_ranks_(num_ranks) {
  for (const plan::Parameter& parameter : unit.parameters) {
    ParameterLayout layout;
    layout.parameter = parameter;
    layout.rows = parameter.shape.empty() ? 1 : parameter.shape.front();
    layout.padded_rows = plan::PaddedRows(parameter, num_ranks);
    layout.row_elements = plan::NumElements(parameter.shape) / layout.rows;
    layout.shard_offset = shard_elements_;
    shard_elements_ += layout.shard_elements();
    parameters_.push_back(std::move(layout));
  }
}

int64_t UnitLayout::UnshardedOffset(size_t index, int64_t element_bytes) const {
  int64_t offset = 0;
  for (size_t i = 0; i < index; ++i) {
    offset += RoundUp(num_ranks_ * parameters_[i].shard_elements() * element_bytes);
  }
  return offset;
}

int64_t UnitLayout::UnshardedBytes(int64_t element_bytes) const {
  return UnshardedOffset(parameters_.size(), element_bytes);
}

int64_t GapBytes(const UnitLayout& layout, const plan::Buffer& buffer) {
  if (buffer.kind != plan::BufferKind::kUnsharded && buffer.kind != plan::BufferKind::kGradient) {
    return 0;
  }
  const int64_t elements = layout.num_ranks() * layout.shard_elements();
  return layout.UnshardedBytes(buffer.bytes / elements) - buffer.bytes;
}

ShardedUnit::ShardedUnit(const model::ModelConfig& config, const plan::Unit& unit, Place place,
                         plan::DType master, uint64_t seed)
    : layout_(unit, place.shard_ranks) {
  const at::ScalarType type = model::ScalarTypeOf(master);
  parameters_ = at::zeros({layout_.shard_elements()}, type);
  gradient_ = at::zeros({layout_.shard_elements()}, type);
  first_moment_ = at::zeros({layout_.shard_elements()}, type);
  second_moment_ = at::zeros({layout_.shard_elements()}, type);
  DispatchMaster(parameters_, [&](auto value) {
    using T = decltype(value);
    T* shard = parameters_.mutable_data_ptr<T>();
    for (const ParameterLayout& parameter : layout_.parameters()) {
      const int64_t owned =
          plan::OwnedRows(parameter.parameter, place.shard_ranks, place.shard_index);
      const int64_t first = place.shard_index * parameter.shard_elements();
      const std::vector<double> values = model::InitialValues(
          config, parameter.parameter, seed, first, owned * parameter.row_elements);
      std::transform(values.begin(), values.end(), shard + parameter.shard_offset,
                     [](double initial) { return static_cast<T>(initial); });
    }
  });
}

double ShardedUnit::GradientSquares() const {
  double sum = 0;
  DispatchMaster(gradient_, [&](auto value) {
    sum = SumOfSquares(gradient_.const_data_ptr<decltype(value)>(), gradient_.numel());
  });
  return sum;
}

void ShardedUnit::Update(const UpdateArgs& args) {
  DispatchMaster(parameters_, [&](auto value) {
    using T = decltype(value);
    AdamW<T>({parameters_.mutable_data_ptr<T>(), gradient_.const_data_ptr<T>(),
              first_moment_.mutable_data_ptr<T>(), second_moment_.mutable_data_ptr<T>(),
              parameters_.numel()},
             args);
  });
}

}  // namespace shardscope::runtime
