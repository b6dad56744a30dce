// Initial values of parameters: a function of seed, name and position alone, so that they are the
// same whatever the number of ranks and the grouping into units.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
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
  // Elements [first, first + values.size()) of the flattened parameter, as it is in the whole
  // model.
  virtual void Read(const plan::Parameter& parameter, int64_t first,
                    std::span<double> values) const = 0;
};

class DrawnParameters final : public ParameterSource {
 public:
  DrawnParameters(const ModelConfig& config, uint64_t seed) : config_(config), seed_(seed) {}
  void Read(const plan::Parameter& parameter, int64_t first,
            std::span<double> values) const override;

 private:
  const ModelConfig config_;
  const uint64_t seed_;
};

// Of a run whose parameters all come from a checkpoint before its first step.
class ZeroParameters final : public ParameterSource {
 public:
  void Read(const plan::Parameter& /*parameter*/, int64_t /*first*/,
            std::span<double> values) const override {
    std::ranges::fill(values, 0.0);
  }
};

// Weights that have no adapters, and adapters from elsewhere.
class WithAdapters final : public ParameterSource {
 public:
  WithAdapters(std::shared_ptr<const ParameterSource> weights,
               std::shared_ptr<const ParameterSource> adapters)
      : weights_(std::move(weights)), adapters_(std::move(adapters)) {}
  void Read(const plan::Parameter& parameter, int64_t first,
            std::span<double> values) const override;

 private:
  const std::shared_ptr<const ParameterSource> weights_;
  const std::shared_ptr<const ParameterSource> adapters_;
};

// A well mixed 64-bit value of (seed, index): SplitMix64 as a counter-based generator.
uint64_t MixedBits(uint64_t seed, uint64_t index);

}  // namespace shardscope::model
