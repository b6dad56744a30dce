#include "engine/runtime/units/sharded_unit.h"

#include <ATen/ops/zeros.h>

#include <algorithm>

#include "engine/model/initialize.h"
#include "engine/model/segments.h"

namespace shardscope::runtime {
namespace {

// Calls body with a value of the master dtype.
template <typename Body>
void DispatchMaster(const at::Tensor& tensor, const Body& body) {
  if (tensor.scalar_type() == at::kDouble) return body(double{});
  TORCH_CHECK(tensor.scalar_type() == at::kFloat, "runtime: master dtype is not fp32 or fp64");
  body(float{});
}

}  // namespace

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
