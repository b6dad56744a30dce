// What a low-rank adapter (model::Lora) adds to a linear layer, on any device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

#include "engine/model/model_config.h"

namespace shardscope::model {

// Of one weight [rows, columns]; its gradients have the same form.
struct Adapter {
  at::Tensor a;  // [rank, columns]; undefined where the weight has none
  at::Tensor b;  // [rows, rank]
  double scale = 0;

  bool is_there() const { return a.defined(); }
};

// output [T, rows] += scale * input A^T B^T of `input` [T, columns]. Takes [T, rank] meanwhile, as
// backward does twice: forward keeps nothing of an adapter.
void AddAdapter(const Adapter& adapter, const at::Tensor& input, at::Tensor* output);

// scale * output_gradient B, [T, rank]: the gradient of what A puts out. Where `input_gradient` is
// defined that through A is added to it.
at::Tensor AdapterInnerGradient(const Adapter& adapter, const at::Tensor& output_gradient,
                                at::Tensor* input_gradient);

// Overwrites the gradients of A and B; `inner_gradient` as above.
struct AdapterGradientArgs {
  const at::Tensor& input;
  const at::Tensor& output_gradient;
  const at::Tensor& inner_gradient;
};
void AdapterGradients(const Adapter& adapter, const AdapterGradientArgs& args, Adapter* gradients);

// Where the adapters of attention and MLP are among the parameters of their segment.
class AdapterPlaces {
 public:
  explicit AdapterPlaces(const ModelConfig& config);

  // How many parameters of the segment are no adapters': those come first.
  size_t NumWeights(SegmentKind kind) const { return At(kind).num_weights; }
  // Of the weight at that place. `parameters`: of the segment, or their gradients.
  Adapter AdapterOf(SegmentKind kind, const std::vector<at::Tensor>& parameters,
                    size_t weight) const;

 private:
  struct Places {
    size_t num_weights = 0;
    std::vector<size_t> first;  // by weight: where its A is; 0: nowhere
  };
  const Places& At(SegmentKind kind) const {
    return kind == SegmentKind::kAttention ? attention_ : mlp_;
  }
  static Places PlacesIn(const ModelConfig& config, int64_t segment);

  Places attention_;
  Places mlp_;
  double scale_ = 0;
};

}  // namespace shardscope::model
