// Initial values of parameters: a function of seed, name and position alone, so that they are the
// same whatever the number of ranks and the grouping into units.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/model/model_config.h"

namespace shardscope::model {

// Elements [first, first + count) of the flattened parameter. Norm weights are 1, biases 0; others
// of adapters B 0, and A uniform within 1/sqrt(columns) (peft: kaiming_uniform_(a=sqrt(5))); others
// normal with standard deviation 0.02 (embedding, head), 1/sqrt(columns) (inner layers), divided by
// sqrt(2 layers) for the two layers of a block that add to the residual stream (GPT-2's scaling).
std::vector<double> InitialValues(const ModelConfig& config, const plan::Parameter& parameter,
                                  uint64_t seed, int64_t first, int64_t count);

// Where the values of parameters at the start of a run come from. Threads: any number at once.
class ParameterSource {
 public:
  virtual ~ParameterSource() = default;
  // Elements [first, first + values.numel()) of the flattened parameter, as it is in the whole
  // model, in the dtype of `values`: fp32, fp64, bf16 or fp16, contiguous, in the host's memory.
  virtual void Read(const plan::Parameter& parameter, int64_t first,
                    const at::Tensor& values) const = 0;
  // Elements [first, first + count) will be read soon: where they come from a disk it begins now.
  virtual void WillRead(const plan::Parameter& /*parameter*/, int64_t /*first*/,
                        int64_t /*count*/) const {}
  // Parts of elements [first, first + count) have been read: where they come from a file, the rest
  // came with them and may go.
  virtual void HasRead(const plan::Parameter& /*parameter*/, int64_t /*first*/,
                       int64_t /*count*/) const {}
};

class DrawnParameters final : public ParameterSource {
 public:
  DrawnParameters(const ModelConfig& config, uint64_t seed) : config_(config), seed_(seed) {}
  void Read(const plan::Parameter& parameter, int64_t first,
            const at::Tensor& values) const override;

 private:
  const ModelConfig config_;
  const uint64_t seed_;
};

// Of a run whose parameters all come from a checkpoint before its first step.
class ZeroParameters final : public ParameterSource {
 public:
  void Read(const plan::Parameter& /*parameter*/, int64_t /*first*/,
            const at::Tensor& values) const override {
    values.zero_();
  }
};

// Weights that have no adapters, and adapters from elsewhere.
class WithAdapters final : public ParameterSource {
 public:
  WithAdapters(std::shared_ptr<const ParameterSource> weights,
               std::shared_ptr<const ParameterSource> adapters)
      : weights_(std::move(weights)), adapters_(std::move(adapters)) {}
  void Read(const plan::Parameter& parameter, int64_t first,
            const at::Tensor& values) const override {
    Of(parameter).Read(parameter, first, values);
  }
  void WillRead(const plan::Parameter& parameter, int64_t first, int64_t count) const override {
    Of(parameter).WillRead(parameter, first, count);
  }
  void HasRead(const plan::Parameter& parameter, int64_t first, int64_t count) const override {
    Of(parameter).HasRead(parameter, first, count);
  }

 private:
  const ParameterSource& Of(const plan::Parameter& parameter) const {
    return IsAdapter(parameter.name) ? *adapters_ : *weights_;
  }

  const std::shared_ptr<const ParameterSource> weights_;
  const std::shared_ptr<const ParameterSource> adapters_;
};

// A well mixed 64-bit value of (seed, index): SplitMix64 as a counter-based generator.
uint64_t MixedBits(uint64_t seed, uint64_t index);

}  // namespace shardscope::model
