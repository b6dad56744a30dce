#include "engine/model/model_config.h"

#include <algorithm>

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

// What forward and backward of a segment take for themselves: tensors of segments.cc that are live
// together, and what LibTorch 2.11 allocates inside its ops.

// In bf16, matrix products copy their operands into blocks of oneDNN's and add in fp32; how depends
// on the CPU. Here each is copied whole, padded to whole blocks. Others take nothing.
int64_t MatmulBytes(const ModelConfig& config, int64_t rows, int64_t columns, int64_t inner) {
  if (config.dtype != plan::DType::kBf16) return 0;
  constexpr int64_t kWorkspace = 8192;
  const auto padded = [](int64_t elements) { return (elements + 63) / 64 * 64; };
  const int64_t copies = padded(rows) * padded(inner) + padded(inner) * padded(columns);
  return 2 * copies + 4 * padded(rows) * padded(columns) + kWorkspace;
}

// Attention on the CPU (FlashAttentionKernel.cpp) works on one tile of queries by keys at a time.
struct Tile {
  int64_t queries = 0;
  int64_t keys = 0;
  int64_t scores_bytes = 0;   // in the wide type
  int64_t reduced_bytes = 0;  // in bf16, where that is the model's type
};
Tile TileOf(const ModelConfig& config) {
  const int64_t queries = config.seq >= 768 ? 256 : config.seq >= 192 ? 64 : 32;
  Tile tile{std::min<int64_t>(queries, config.seq), std::min<int64_t>(512, config.seq)};
  const int64_t scores = tile.queries * tile.keys;
  tile.scores_bytes = scores * config.wide_bytes();
  tile.reduced_bytes = config.dtype == plan::DType::kBf16 ? 2 * scores : 0;
  return tile;
}

int64_t AttentionForwardBytes(const ModelConfig& config) {
  const Tile tile = TileOf(config);
  // Scores, their maxima and sums, and the tile's result.
  return tile.scores_bytes + tile.reduced_bytes +
         tile.queries * (2 + config.head_dim()) * config.wide_bytes();
}

int64_t AttentionBackwardBytes(const ModelConfig& config) {
  const Tile tile = TileOf(config);
  // Scores and their gradients, and a sum for each query.
  return 2 * (tile.scores_bytes + tile.reduced_bytes) + tile.queries * config.wide_bytes() +
         MatmulBytes(config, tile.queries, tile.keys, config.head_dim());
}

}  // namespace

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

int64_t ForwardTemporaryBytes(const ModelConfig& config, int64_t segment, int64_t batch) {
  const int64_t tokens = batch * config.seq;
  const int64_t dim = config.dim;
  const auto matmul = [&](int64_t outputs, int64_t inputs) {
    return MatmulBytes(config, tokens, outputs, inputs);
  };
  switch (KindOf(config, segment)) {
    case SegmentKind::kEmbedding:
      return 0;
    case SegmentKind::kAttention: {  // attention itself is over when the output is taken
      const int64_t output = tokens * dim * plan::BytesOf(config.dtype);
      return std::max(
          {AttentionForwardBytes(config) - output, matmul(3 * dim, dim), matmul(dim, dim)});
    }
    case SegmentKind::kMlp:
      return std::max(matmul(kMlpFactor * dim, dim), matmul(dim, kMlpFactor * dim));
    case SegmentKind::kHead: {  // logits, and a copy in the wide type where that is another
      const int64_t logits = tokens * kVocabulary;
      const bool is_wide = config.wide_bytes() == plan::BytesOf(config.dtype);
      return logits * plan::BytesOf(config.dtype) +
             std::max(is_wide ? 0 : logits * config.wide_bytes(), matmul(kVocabulary, dim));
    }
  }
  return 0;
}

int64_t BackwardTemporaryBytes(const ModelConfig& config, int64_t segment, int64_t batch) {
  const int64_t tokens = batch * config.seq;
  const int64_t dim = config.dim;
  const int64_t hidden = tokens * dim * plan::BytesOf(config.dtype);
  // With the gradients of a linear layer's output live: those of its weight, then of its input,
  // then the segment's result (of which `hidden` is what the op returns).
  const auto linear = [&](int64_t outputs, int64_t inputs) {
    return std::max({hidden, MatmulBytes(config, outputs, inputs, tokens),
                     MatmulBytes(config, tokens, inputs, outputs)});
  };
  switch (KindOf(config, segment)) {
    case SegmentKind::kEmbedding:
      return 0;
    case SegmentKind::kAttention:  // of the attended, q, k, v, and these three together again
      return std::max({3 * hidden + AttentionBackwardBytes(config), hidden + linear(dim, dim),
                       7 * hidden + linear(3 * dim, dim)});
    case SegmentKind::kMlp:
      return kMlpFactor * hidden +
             std::max(linear(kMlpFactor * dim, dim), linear(dim, kMlpFactor * dim));
    case SegmentKind::kHead:
      return tokens * kVocabulary * plan::BytesOf(config.dtype) + linear(kVocabulary, dim);
  }
  return 0;
}

}  // namespace shardscope::model
