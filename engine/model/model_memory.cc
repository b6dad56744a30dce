#include "engine/model/model_memory.h"

#include <algorithm>
#include <vector>

#include "engine/model/matmul_scratch.h"

namespace shardscope::model {
namespace {

bool IsLlama(const ModelConfig& config) { return config.kind == ModelKind::kLlama; }

// Columns of what each weight behind the norm puts out.
std::vector<int64_t> HiddenColumns(const ModelConfig& config, int64_t segment) {
  if (KindOf(config, segment) == SegmentKind::kMlp) {
    return std::vector<int64_t>(IsLlama(config) ? 2 : 1, config.inner_columns());
  }
  if (!IsLlama(config)) return {3 * config.query_columns()};
  return {config.query_columns(), config.key_columns(), config.key_columns()};
}

int64_t AllHiddenColumns(const ModelConfig& config, int64_t segment) {
  int64_t all = 0;
  for (const int64_t columns : HiddenColumns(config, segment)) all += columns;
  return all;
}

// What forward and backward of a segment take for themselves: tensors of segments.cc that are live
// together, and what LibTorch 2.11 allocates inside its ops.

// At most, on this CPU.
int64_t MatmulBytes(const ModelConfig& config, int64_t rows, int64_t columns, int64_t inner) {
  return MatmulScratchBytes(MatmulScratchOf(config.dtype), rows, columns, inner);
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
  tile.reduced_bytes = plan::BytesOf(config.dtype) == 2 ? 2 * scores : 0;
  return tile;
}

int64_t AttentionForwardBytes(const ModelConfig& config) {
  const Tile tile = TileOf(config);
  // Scores, their maxima and sums, and the tile's result.
  return tile.scores_bytes + tile.reduced_bytes +
         tile.queries * (2 + config.head_dim()) * config.wide_bytes();
}

// Scores are in the wide type and are their own sums. Of what is put out in bf16 the gradients of
// keys and values are largest.
int64_t TileProductBytes(const ModelConfig& config, const Tile& tile) {
  // LibTorch makes these, with MKL where the type is fp32.
  if (MatmulScratchOf(config.dtype) == MatmulScratch::kBlocks) return 0;
  if (MatmulScratchOf(config.dtype) == MatmulScratch::kSums) {
    return MatmulBytes(config, tile.keys, config.head_dim(), tile.queries);
  }
  return MatmulBytes(config, tile.queries, tile.keys, config.head_dim());
}

int64_t AttentionBackwardBytes(const ModelConfig& config) {
  const Tile tile = TileOf(config);
  // Scores and their gradients, and a sum for each query.
  return 2 * (tile.scores_bytes + tile.reduced_bytes) + tile.queries * config.wide_bytes() +
         TileProductBytes(config, tile);
}

// What is live together in a segment's backward, beside the products of matrices.
struct Sizes {
  int64_t hidden = 0;    // [T, dim]
  int64_t attended = 0;  // [T, columns of the rank's heads]
  int64_t qkv = 0;
  int64_t inner = 0;  // [T, columns of its part of the MLP]
};
Sizes SizesOf(const ModelConfig& config, int64_t tokens) {
  const int64_t bytes = tokens * plan::BytesOf(config.dtype);
  return {config.dim * bytes, config.query_columns() * bytes,
          (config.query_columns() + 2 * config.key_columns()) * bytes,
          config.inner_columns() * bytes};
}

// With the gradients of a linear layer's output live: of its weight, then of its input, which is
// as large as what the op returns.
int64_t LinearBackwardBytes(const ModelConfig& config, int64_t rows, int64_t outputs,
                            int64_t inputs) {
  return std::max(MatmulBytes(config, outputs, inputs, rows),
                  MatmulBytes(config, rows, inputs, outputs));
}

// Of the largest of the weights behind the norm.
int64_t HiddenBackwardBytes(const ModelConfig& config, int64_t segment, int64_t tokens) {
  int64_t most = 0;
  for (const int64_t columns : HiddenColumns(config, segment)) {
    most = std::max(most, LinearBackwardBytes(config, tokens, columns, config.dim));
  }
  return most;
}

bool HasAdapter(const ModelConfig& config, int64_t segment) {
  const SegmentKind kind = KindOf(config, segment);
  return config.lora.rank > 0 && (kind == SegmentKind::kAttention || kind == SegmentKind::kMlp) &&
         std::ranges::any_of(ParametersOf(config, segment),
                             [](const auto& parameter) { return IsAdapter(parameter.name); });
}

// Two of what an adapter's A puts out; at most.
int64_t AdapterRowsBytes(const ModelConfig& config, int64_t segment, int64_t tokens) {
  if (!HasAdapter(config, segment)) return 0;
  return 2 * tokens * config.lora.rank * plan::BytesOf(config.dtype);
}

// Of products with an adapter what MatmulBytes() counts; at most.
int64_t AdapterProductBytes(const ModelConfig& config, int64_t segment, int64_t tokens) {
  if (!HasAdapter(config, segment)) return 0;
  const int64_t rank = config.lora.rank;
  int64_t widest = std::max(config.dim, config.inner_columns());
  if (KindOf(config, segment) == SegmentKind::kAttention) {
    widest = std::max(config.dim, (IsLlama(config) ? 1 : 3) * config.query_columns());
  }
  return std::max({MatmulBytes(config, tokens, widest, rank),
                   MatmulBytes(config, tokens, rank, widest),
                   MatmulBytes(config, widest, rank, tokens)});
}

int64_t AdapterBytes(const ModelConfig& config, int64_t segment, int64_t tokens) {
  return AdapterRowsBytes(config, segment, tokens) + AdapterProductBytes(config, segment, tokens);
}

// As LlamaAttentionBackward() and LlamaMlpBackward() take and leave what they need; each returns
// [T, dim], and then that is on both sides of the norm.
int64_t LlamaBackwardBytes(const ModelConfig& config, int64_t segment, int64_t tokens) {
  const Sizes sizes = SizesOf(config, tokens);
  // An adapter's products come behind those of the weight that it is beside, never during them.
  const int64_t adapters = AdapterProductBytes(config, segment, tokens);
  const int64_t behind_norm = std::max(adapters, HiddenBackwardBytes(config, segment, tokens));
  const auto output_of = [&](int64_t inputs) {
    return std::max(adapters, LinearBackwardBytes(config, tokens, config.dim, inputs));
  };
  const int64_t rows = AdapterRowsBytes(config, segment, tokens);
  if (KindOf(config, segment) == SegmentKind::kMlp) {
    const int64_t down = output_of(config.inner_columns());
    return rows + std::max({3 * sizes.inner + down - sizes.hidden, 2 * sizes.inner + behind_norm,
                            sizes.hidden});
  }
  const int64_t output = output_of(config.query_columns());
  return rows +
         std::max({sizes.attended + output - sizes.hidden,
                   sizes.attended + sizes.qkv + AttentionBackwardBytes(config) - sizes.hidden,
                   2 * sizes.qkv - sizes.hidden, sizes.qkv + behind_norm, sizes.hidden});
}

int64_t GptBackwardBytes(const ModelConfig& config, int64_t segment, int64_t tokens) {
  const Sizes sizes = SizesOf(config, tokens);
  const int64_t behind_norm = HiddenBackwardBytes(config, segment, tokens);
  if (KindOf(config, segment) == SegmentKind::kMlp) {
    return sizes.inner + std::max(behind_norm, LinearBackwardBytes(config, tokens, config.dim,
                                                                   config.inner_columns()));
  }
  // Of the attended, q, k, v, and these three together again.
  const int64_t output = LinearBackwardBytes(config, tokens, config.dim, config.query_columns());
  return std::max({3 * sizes.attended + AttentionBackwardBytes(config), sizes.attended + output,
                   7 * sizes.attended + behind_norm});
}

// A block of the logits, and of each row two numbers beside the one that is saved; not yet the
// loss.
int64_t BlockedForwardBytes(const ModelConfig& config, int64_t rows) {
  const int64_t columns = config.logits_columns();
  return rows * (columns * plan::BytesOf(config.dtype) + 2 * config.wide_bytes()) -
         config.wide_bytes() + MatmulBytes(config, rows, columns, config.dim);
}

// A block of the logits and, where the wide type is another, what it adds to the input's gradient,
// and that gradient; at last the gradient on both sides of the norm.
int64_t BlockedBackwardBytes(const ModelConfig& config, int64_t rows) {
  const int64_t columns = config.logits_columns();
  const int64_t hidden = SizesOf(config, rows).hidden;
  const bool is_wide = config.wide_bytes() == plan::BytesOf(config.dtype);
  const int64_t sums = is_wide ? 0 : rows * config.dim * config.wide_bytes();
  const int64_t block = rows * columns * plan::BytesOf(config.dtype) +
                        std::max(MatmulBytes(config, rows, columns, config.dim),
                                 LinearBackwardBytes(config, rows, columns, config.dim));
  return std::max(hidden, sums + block);
}

}  // namespace

int64_t HiddenBytes(const ModelConfig& config, int64_t segment, int64_t batch) {
  return batch * config.seq * AllHiddenColumns(config, segment) * plan::BytesOf(config.dtype);
}

int64_t NormBytes(const ModelConfig& config, int64_t segment, int64_t batch) {
  if (config.sequence_ranks == 1 || !IsSplit(config, segment)) return 0;
  const int64_t tokens = batch * config.seq;
  return tokens / config.sequence_ranks * config.wide_bytes() +
         tokens * config.dim * plan::BytesOf(config.dtype);
}

int64_t ProductBytes(const ModelConfig& config, int64_t segment, int64_t batch) {
  const int64_t tokens = batch * config.seq;
  const Sizes sizes = SizesOf(config, tokens);
  switch (KindOf(config, segment)) {
    case SegmentKind::kAttention:  // qkv, attended, log-sum-exp
      return sizes.qkv + sizes.attended +
             tokens * config.heads * config.wide_bytes() / config.tensor_ranks;
    case SegmentKind::kMlp:  // before GELU, or gate and up
      return (IsLlama(config) ? 2 : 1) * sizes.inner;
    case SegmentKind::kEmbedding:
    case SegmentKind::kHead:
      break;
  }
  return 0;
}

int64_t ActivationBytes(const ModelConfig& config, int64_t segment, int64_t batch) {
  const int64_t own_tokens = batch * config.seq / config.sequence_ranks;
  const int64_t own_hidden = own_tokens * config.dim * plan::BytesOf(config.dtype);
  const int64_t wide_bytes = config.wide_bytes();
  const int64_t norm = own_tokens * wide_bytes + own_hidden;  // 1/rms and the normed input
  const int64_t products = ProductBytes(config, segment, batch);
  const int64_t split_norm = NormBytes(config, segment, batch) > 0 ? 0 : norm;
  switch (KindOf(config, segment)) {
    case SegmentKind::kEmbedding:
      return own_hidden;
    case SegmentKind::kAttention:
      return split_norm + products + own_hidden;
    case SegmentKind::kMlp: {  // of gpt, after GELU too
      const int64_t after = IsLlama(config) ? 0 : SizesOf(config, batch * config.seq).inner;
      return split_norm + products + after + own_hidden;
    }
    case SegmentKind::kHead: {  // log-probabilities, or the gradient of the logits; the loss
      if (config.logits_block > 0) return norm + own_tokens * wide_bytes + wide_bytes;
      const int64_t element = IsLlama(config) ? plan::BytesOf(config.dtype) : wide_bytes;
      return norm + own_tokens * config.vocab * element + wide_bytes;
    }
  }
  return 0;
}

int64_t WeightBackwardTemporaryBytes(const ModelConfig& config, int64_t segment, int64_t batch) {
  int64_t most = 0;
  for (const int64_t columns : HiddenColumns(config, segment)) {
    most = std::max(most, MatmulBytes(config, columns, config.dim, batch * config.seq));
  }
  return most;
}

int64_t ForwardTemporaryBytes(const ModelConfig& config, int64_t segment, int64_t batch) {
  const int64_t tokens = batch * config.seq;
  const int64_t dim = config.dim;
  const Sizes sizes = SizesOf(config, tokens);
  const auto matmul = [&](int64_t outputs, int64_t inputs) {
    return MatmulBytes(config, tokens, outputs, inputs);
  };
  int64_t behind_norm = 0;
  switch (KindOf(config, segment)) {
    case SegmentKind::kEmbedding:
      return 0;
    case SegmentKind::kAttention:  // itself is over when the output is taken
      for (const int64_t columns : HiddenColumns(config, segment)) {
        behind_norm = std::max(behind_norm, matmul(columns, dim));
      }
      return std::max({AttentionForwardBytes(config) - sizes.hidden, behind_norm,
                       matmul(dim, config.query_columns()), AdapterBytes(config, segment, tokens)});
    case SegmentKind::kMlp: {  // of llama, the product of up and gate
      const int64_t product = IsLlama(config) ? sizes.inner : 0;
      return std::max(matmul(config.inner_columns(), dim),
                      product + std::max(matmul(dim, config.inner_columns()),
                                         AdapterBytes(config, segment, tokens)));
    }
    case SegmentKind::kHead: {  // logits, and a copy in the wide type where that is another
      const int64_t own_tokens = tokens / config.sequence_ranks;
      if (config.logits_block > 0) return BlockedForwardBytes(config, own_tokens);
      const int64_t product = MatmulBytes(config, own_tokens, config.vocab, dim);
      if (IsLlama(config)) return product;
      const int64_t logits = own_tokens * config.vocab;
      const bool is_wide = config.wide_bytes() == plan::BytesOf(config.dtype);
      return logits * plan::BytesOf(config.dtype) +
             std::max(is_wide ? 0 : logits * config.wide_bytes(), product);
    }
  }
  return 0;
}

int64_t BackwardTemporaryBytes(const ModelConfig& config, int64_t segment, int64_t batch) {
  const int64_t tokens = batch * config.seq;
  switch (KindOf(config, segment)) {
    case SegmentKind::kEmbedding:
      return 0;
    case SegmentKind::kAttention:
    case SegmentKind::kMlp:
      if (IsLlama(config)) return LlamaBackwardBytes(config, segment, tokens);
      return AdapterBytes(config, segment, tokens) + GptBackwardBytes(config, segment, tokens);
    case SegmentKind::kHead: {  // at last the gradient on both sides of the norm
      const int64_t own_tokens = tokens / config.sequence_ranks;
      if (config.logits_block > 0) return BlockedBackwardBytes(config, own_tokens);
      const int64_t logits =
          IsLlama(config) ? 0 : own_tokens * config.vocab * plan::BytesOf(config.dtype);
      return std::max(SizesOf(config, own_tokens).hidden,
                      logits + LinearBackwardBytes(config, own_tokens, config.vocab, config.dim));
    }
  }
  return 0;
}

}  // namespace shardscope::model
