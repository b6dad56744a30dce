#include "engine/model/initialize.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>

#include "engine/model/stored_values.h"
#include "trace/base/hash.h"

namespace shardscope::model {
namespace {

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15ULL;

// Uniform in (0, 1].
double Uniform(uint64_t bits) { return static_cast<double>((bits >> 11) + 1) * 0x1p-53; }

// Box-Muller: one normal number from two uniform ones.
double Normal(uint64_t key, uint64_t index) {
  const double radius = std::sqrt(-2 * std::log(Uniform(MixedBits(key, 2 * index))));
  return radius * std::cos(2 * std::numbers::pi * Uniform(MixedBits(key, 2 * index + 1)));
}

double StandardDeviation(const ModelConfig& config, const plan::Parameter& parameter) {
  const std::string& name = parameter.name;
  if (!name.starts_with("block")) return 0.02;
  const double deviation = 1 / std::sqrt(static_cast<double>(parameter.shape.back()));
  const bool residual = name.ends_with(".projection.weight") || name.ends_with(".o.weight") ||
                        name.ends_with(".down.weight");
  return residual ? deviation / std::sqrt(2.0 * static_cast<double>(config.layers)) : deviation;
}

}  // namespace

uint64_t MixedBits(uint64_t seed, uint64_t index) {
  uint64_t bits = seed + (index + 1) * kGolden;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9ULL;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebULL;
  return bits ^ (bits >> 31);
}

std::vector<double> InitialValues(const ModelConfig& config, const plan::Parameter& parameter,
                                  uint64_t seed, int64_t first, int64_t count) {
  std::vector<double> values(static_cast<size_t>(count), 1.0);
  if (parameter.name.ends_with(".bias")) return std::vector<double>(values.size(), 0.0);
  if (parameter.shape.size() < 2) return values;  // norm weights
  const uint64_t key = MixedBits(seed, Fnv1a(parameter.name));
  if (IsAdapter(parameter.name)) {
    const bool is_zero = parameter.name.ends_with("B.weight");
    const double bound = 1 / std::sqrt(static_cast<double>(parameter.shape.back()));
    for (int64_t i = 0; i < count; ++i) {
      const double drawn = 2 * Uniform(MixedBits(key, static_cast<uint64_t>(first + i))) - 1;
      values[static_cast<size_t>(i)] = is_zero ? 0 : bound * drawn;
    }
    return values;
  }
  const double deviation = StandardDeviation(config, parameter);
  for (int64_t i = 0; i < count; ++i) {
    values[static_cast<size_t>(i)] = deviation * Normal(key, static_cast<uint64_t>(first + i));
  }
  return values;
}

void DrawnParameters::Read(const plan::Parameter& parameter, int64_t first,
                           const at::Tensor& values) const {
  constexpr int64_t kBlock = int64_t{1} << 16;  // so few are there as fp64 at once
  for (int64_t at = 0; at < values.numel(); at += kBlock) {
    const int64_t count = std::min(kBlock, values.numel() - at);
    const std::vector<double> block = InitialValues(config_, parameter, seed_, first + at, count);
    auto* const to = static_cast<std::byte*>(values.mutable_data_ptr()) +
                     at * static_cast<int64_t>(values.element_size());
    ConvertValues(std::as_bytes(std::span(block)).data(), at::kDouble, count, values.scalar_type(),
                  to);
  }
}

}  // namespace shardscope::model
