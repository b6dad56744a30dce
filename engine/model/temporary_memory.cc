// What forward and backward of a segment take for themselves: tensors of segments.cc that are live
// together, and what LibTorch 2.11 allocates inside its ops.
#include <algorithm>

#include "engine/model/model_config.h"

namespace shardscope::model {
namespace {

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
