#include <algorithm>
#include <charconv>

#include "engine/model/model_config.h"
#include "trace/base/check.h"

namespace shardscope::model {
namespace {

using plan::Parameter;

std::string SegmentName(const ModelConfig& config, int64_t segment) {
  switch (KindOf(config, segment)) {
    case SegmentKind::kEmbedding:
      return "embedding";
    case SegmentKind::kHead:
      return "head";
    case SegmentKind::kAttention:
      return "block" + std::to_string((segment - 1) / 2) + ".attention";
    case SegmentKind::kMlp:
      return "block" + std::to_string((segment - 1) / 2) + ".mlp";
  }
  return "";
}

// Bytes of what Forward() of segments.cc saves.
int64_t ActivationBytes(const ModelConfig& config, int64_t segment, int64_t batch) {
  const int64_t tokens = batch * config.seq;
  const int64_t hidden = tokens * config.dim * plan::BytesOf(config.dtype);
  const int64_t norm = tokens * config.wide_bytes() + hidden;  // 1/rms and the normed input
  switch (KindOf(config, segment)) {
    case SegmentKind::kEmbedding:
      return hidden;
    case SegmentKind::kAttention:  // qkv, log-sum-exp, attended, output
      return norm + 3 * hidden + tokens * config.heads * config.wide_bytes() + 2 * hidden;
    case SegmentKind::kMlp:  // before and after GELU, output
      return norm + 2 * kMlpFactor * hidden + hidden;
    case SegmentKind::kHead:  // log-probabilities and the loss
      return norm + tokens * kVocabulary * config.wide_bytes() + config.wide_bytes();
  }
  return 0;
}

// Unit of each segment as an index in order of first use.
std::string UnitName(const ModelConfig& config, const UnitPolicy& policy, int64_t segment) {
  const SegmentKind kind = KindOf(config, segment);
  if (kind == SegmentKind::kEmbedding) return policy.root ? "root" : "embedding";
  if (kind == SegmentKind::kHead) return policy.root ? "root" : "head";
  const int64_t block = (segment - 1) / 2;
  if (policy.blocks == 1) return "block" + std::to_string(block);
  const int64_t first = block / policy.blocks * policy.blocks;
  const int64_t last = std::min(first + policy.blocks, config.layers) - 1;
  if (first == last) return "block" + std::to_string(first);
  return "blocks" + std::to_string(first) + "-" + std::to_string(last);
}

}  // namespace

Result<UnitPolicy> ParseUnitPolicy(const std::string& policy, bool root) {
  UnitPolicy result;
  result.root = root;
  if (policy == "block") return result;
  const std::string prefix = "blocks:";
  const char* end = policy.data() + policy.size();
  if (policy.starts_with(prefix)) {
    const auto [stop, error] = std::from_chars(policy.data() + prefix.size(), end, result.blocks);
    if (error == std::errc() && stop == end && result.blocks >= 1) return result;
  }
  return Status::Error("unit.policy is '" + policy + "': write block, or blocks:n with n from 1");
}

int64_t NumSegments(const ModelConfig& config) { return 2 * config.layers + 2; }

SegmentKind KindOf(const ModelConfig& config, int64_t segment) {
  SHARDSCOPE_CHECK(segment >= 0 && segment < NumSegments(config));
  if (segment == 0) return SegmentKind::kEmbedding;
  if (segment == NumSegments(config) - 1) return SegmentKind::kHead;
  return segment % 2 == 1 ? SegmentKind::kAttention : SegmentKind::kMlp;
}

std::vector<Parameter> ParametersOf(const ModelConfig& config, int64_t segment) {
  const int64_t dim = config.dim;
  const std::string name = SegmentName(config, segment);
  switch (KindOf(config, segment)) {
    case SegmentKind::kEmbedding:
      return {{name + ".weight", {kVocabulary, dim}}};
    case SegmentKind::kAttention:
      return {{name + ".norm.weight", {dim}},
              {name + ".qkv.weight", {3 * dim, dim}},
              {name + ".projection.weight", {dim, dim}}};
    case SegmentKind::kMlp:
      return {{name + ".norm.weight", {dim}},
              {name + ".up.weight", {kMlpFactor * dim, dim}},
              {name + ".down.weight", {dim, kMlpFactor * dim}}};
    case SegmentKind::kHead:
      return {{name + ".norm.weight", {dim}}, {name + ".weight", {kVocabulary, dim}}};
  }
  return {};
}

plan::ModelDescription DescribeModel(const ModelConfig& config, const UnitPolicy& policy,
                                     int64_t batch) {
  plan::ModelDescription description;
  description.batch_bytes = 2 * batch * config.seq * static_cast<int64_t>(sizeof(int64_t));
  for (int64_t index = 0; index < NumSegments(config); ++index) {
    plan::Segment segment;
    segment.name = SegmentName(config, index);
    segment.activation_bytes = ActivationBytes(config, index, batch);
    segment.output_bytes = KindOf(config, index) == SegmentKind::kHead
                               ? config.wide_bytes()
                               : batch * config.seq * config.dim * plan::BytesOf(config.dtype);
    const std::string unit_name = UnitName(config, policy, index);
    auto& units = description.units;
    auto unit = std::find_if(units.begin(), units.end(),
                             [&](const plan::Unit& other) { return other.name == unit_name; });
    if (unit == units.end()) {
      units.push_back({.name = unit_name, .is_root = unit_name == "root"});
      unit = units.end() - 1;
    }
    segment.unit = static_cast<int32_t>(unit - units.begin());
    for (Parameter& parameter : ParametersOf(config, index)) {
      unit->parameters.push_back(std::move(parameter));
    }
    description.segments.push_back(std::move(segment));
  }
  return description;
}

}  // namespace shardscope::model
