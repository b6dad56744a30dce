#include "engine/model/adapter.h"

#include <string>

#include "engine/model/matmul.h"

namespace shardscope::model {

void AddAdapter(const Adapter& adapter, const at::Tensor& input, at::Tensor* output) {
  if (!adapter.is_there()) return;
  AddMatmul(Matmul(input, adapter.a.t()), adapter.b.t(), output, adapter.scale);
}

at::Tensor AdapterInnerGradient(const Adapter& adapter, const at::Tensor& output_gradient,
                                at::Tensor* input_gradient) {
  at::Tensor inner = Matmul(output_gradient, adapter.b).mul_(adapter.scale);
  if (input_gradient->defined()) AddMatmul(inner, adapter.a, input_gradient);
  return inner;
}

void AdapterGradients(const Adapter& adapter, const AdapterGradientArgs& args, Adapter* gradients) {
  MatmulInto(args.inner_gradient.t(), args.input, &gradients->a);
  const at::Tensor inner = Matmul(args.input, adapter.a.t());
  MatmulInto(args.output_gradient.t(), inner, &gradients->b, adapter.scale);
}

AdapterPlaces::AdapterPlaces(const ModelConfig& config)
    : attention_(PlacesIn(config, 1)),
      mlp_(PlacesIn(config, 2)),
      scale_(config.lora.rank > 0 ? config.lora.scale() : 0) {}

AdapterPlaces::Places AdapterPlaces::PlacesIn(const ModelConfig& config, int64_t segment) {
  const std::vector<plan::Parameter> parameters = ParametersOf(config, segment);
  Places places;
  while (places.num_weights < parameters.size() &&
         !IsAdapter(parameters[places.num_weights].name)) {
    ++places.num_weights;
  }
  size_t next = places.num_weights;
  for (size_t weight = 0; weight < places.num_weights; ++weight) {
    const std::string& name = parameters[weight].name;
    const std::string stem = name.substr(0, name.rfind('.')) + ".lora_";
    const bool has_adapter = next < parameters.size() && parameters[next].name.starts_with(stem);
    places.first.push_back(has_adapter ? next : 0);
    if (has_adapter) next += 2;
  }
  return places;
}

Adapter AdapterPlaces::AdapterOf(SegmentKind kind, const std::vector<at::Tensor>& parameters,
                                 size_t weight) const {
  const size_t first = At(kind).first[weight];
  if (first == 0) return {};
  return {parameters[first], parameters[first + 1], scale_};
}

}  // namespace shardscope::model
