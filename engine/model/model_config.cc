#include "engine/model/model_config.h"

#include <algorithm>
#include <set>

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

// Of what the weight behind the norm of attention or MLP puts out on a rank.
int64_t HiddenColumns(const ModelConfig& config, int64_t segment) {
  const bool is_attention = KindOf(config, segment) == SegmentKind::kAttention;
  return (is_attention ? 3 * config.dim : config.ffn_width()) / config.tensor_ranks;
}

// Bytes of what NormForward() of segments.cc saves; 0 where a segment's forward has its norm.
int64_t NormBytes(const ModelConfig& config, int64_t segment, int64_t batch) {
  if (config.sequence_ranks == 1 || !IsSplit(config, segment)) return 0;
  const int64_t tokens = batch * config.seq;
  return tokens / config.sequence_ranks * config.wide_bytes() +
         tokens * config.dim * plan::BytesOf(config.dtype);
}

// Bytes of what Forward() of segments.cc saves.
int64_t ActivationBytes(const ModelConfig& config, int64_t segment, int64_t batch) {
  const int64_t own_tokens = batch * config.seq / config.sequence_ranks;
  const int64_t own_hidden = own_tokens * config.dim * plan::BytesOf(config.dtype);
  const int64_t wide_bytes = config.wide_bytes();
  const int64_t norm = own_tokens * wide_bytes + own_hidden;  // 1/rms and the normed input
  // What is split is of the whole sequence.
  const int64_t tokens = batch * config.seq;
  const int64_t hidden = tokens * config.dim * plan::BytesOf(config.dtype);
  const int64_t ranks = config.tensor_ranks;
  const int64_t split_norm = NormBytes(config, segment, batch) > 0 ? 0 : norm;
  switch (KindOf(config, segment)) {
    case SegmentKind::kEmbedding:
      return own_hidden;
    case SegmentKind::kAttention:  // qkv, attended, log-sum-exp, output
      return split_norm + (4 * hidden + tokens * config.heads * wide_bytes) / ranks + own_hidden;
    case SegmentKind::kMlp:  // before and after GELU, output
      return split_norm + 2 * tokens * config.ffn_width() / ranks * plan::BytesOf(config.dtype) +
             own_hidden;
    case SegmentKind::kHead:  // log-probabilities and the loss
      return norm + own_tokens * config.vocab * wide_bytes + wide_bytes;
  }
  return 0;
}

// Of these what matrix products and attention have put out, beside the segment's output.
int64_t ProductBytes(const ModelConfig& config, int64_t segment, int64_t batch) {
  const int64_t tokens = batch * config.seq;
  const int64_t hidden = tokens * config.dim * plan::BytesOf(config.dtype);
  switch (KindOf(config, segment)) {
    case SegmentKind::kAttention:  // qkv, attended, log-sum-exp
      return (4 * hidden + tokens * config.heads * config.wide_bytes()) / config.tensor_ranks;
    case SegmentKind::kMlp:  // before GELU
      return tokens * config.ffn_width() / config.tensor_ranks * plan::BytesOf(config.dtype);
    case SegmentKind::kEmbedding:
    case SegmentKind::kHead:
      break;
  }
  return 0;
}

// Of its block; embedding and head keep all that they save, which their backward needs first or is
// the output alone.
plan::Recomputable RecomputableOf(const ModelConfig& config, int64_t segment, int64_t batch) {
  const SegmentKind kind = KindOf(config, segment);
  if (kind == SegmentKind::kEmbedding || kind == SegmentKind::kHead) return {};
  return {.block = static_cast<int32_t>((segment - 1) / 2),
          .product_bytes = ProductBytes(config, segment, batch)};
}

// Blocks are spread over the stages evenly; what does not divide goes to the first ones.
int64_t StageOfBlock(const ModelConfig& config, const plan::UnitPolicy& policy, int64_t block) {
  const int64_t least = config.layers / policy.stages;
  const int64_t with_more = config.layers % policy.stages;
  const int64_t in_larger = with_more * (least + 1);
  return block < in_larger ? block / (least + 1) : with_more + (block - in_larger) / least;
}

int64_t StageOf(const ModelConfig& config, const plan::UnitPolicy& policy, int64_t segment) {
  if (KindOf(config, segment) == SegmentKind::kEmbedding) return 0;
  if (KindOf(config, segment) == SegmentKind::kHead) return policy.stages - 1;
  return StageOfBlock(config, policy, (segment - 1) / 2);
}

std::string UnitName(const ModelConfig& config, const plan::UnitPolicy& policy, int64_t segment) {
  const SegmentKind kind = KindOf(config, segment);
  if (kind == SegmentKind::kEmbedding) return policy.root ? "root" : "embedding";
  if (kind == SegmentKind::kHead) return policy.root ? "root" : "head";
  const int64_t block = (segment - 1) / 2;
  if (policy.blocks == 1) return "block" + std::to_string(block);
  // Groups start anew with each stage.
  const int64_t stage = StageOfBlock(config, policy, block);
  const auto is_there = [&](int64_t other) {
    return other >= 0 && other < config.layers && StageOfBlock(config, policy, other) == stage;
  };
  int64_t start = block;
  while (is_there(start - 1)) --start;
  const int64_t first = start + (block - start) / policy.blocks * policy.blocks;
  int64_t last = first;
  while (last + 1 < first + policy.blocks && is_there(last + 1)) ++last;
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

// Gradients arrive from the last segment to the first, and in a segment from its last parameter to
// its first. Bucket 0 is full first; units are in order of first use in forward.
void FillBuckets(const ModelConfig& config, const plan::UnitPolicy& policy,
                 plan::ModelDescription* model) {
  const int64_t element_bytes = config.wide_bytes();
  int64_t left_bytes = policy.first_bucket_bytes;
  std::vector<plan::Unit> buckets(1);
  std::vector<std::vector<int32_t>> of_segment(model->segments.size());
  for (int64_t segment = NumSegments(config) - 1; segment >= 0; --segment) {
    std::vector<Parameter> parameters = ParametersOf(config, segment);
    const bool is_new_stage =
        segment + 1 < NumSegments(config) &&
        StageOf(config, policy, segment) != StageOf(config, policy, segment + 1);
    if (is_new_stage) left_bytes = 0;
    for (auto parameter = parameters.rbegin(); parameter != parameters.rend(); ++parameter) {
      if (left_bytes <= 0) {
        buckets.emplace_back();
        left_bytes = policy.bucket_bytes;
      }
      left_bytes -= plan::NumElements(parameter->shape) * element_bytes;
      const auto bucket = static_cast<int32_t>(buckets.size()) - 1;
      std::vector<int32_t>& used = of_segment[static_cast<size_t>(segment)];
      if (used.empty() || used.back() != bucket) used.push_back(bucket);
      buckets.back().parameters.push_back(std::move(*parameter));
    }
  }
  const auto last = static_cast<int32_t>(buckets.size()) - 1;
  for (int32_t bucket = last; bucket >= 0; --bucket) {
    model->units.push_back(std::move(buckets[static_cast<size_t>(bucket)]));
    model->units.back().name = "bucket" + std::to_string(bucket);
  }
  for (size_t segment = 0; segment < of_segment.size(); ++segment) {
    for (auto bucket = of_segment[segment].rbegin(); bucket != of_segment[segment].rend();
         ++bucket) {
      model->segments[segment].units.push_back(last - *bucket);
    }
  }
}

int64_t ElementsOf(const ModelConfig& config, int64_t segment) {
  int64_t elements = 0;
  for (const Parameter& parameter : ParametersOf(config, segment)) {
    elements += plan::NumElements(parameter.shape);
  }
  return elements;
}

// Modules are embedding, blocks with attention and MLP in them, and head: those that are chosen.
std::set<std::string> ChosenModules(const ModelConfig& config, const plan::UnitPolicy& policy) {
  std::set<std::string> chosen(policy.names.begin(), policy.names.end());
  const auto is_chosen = [&](int64_t elements) {
    return policy.modules || (policy.least_elements > 0 && elements >= policy.least_elements);
  };
  for (int64_t segment = 0; segment < NumSegments(config); ++segment) {
    if (is_chosen(ElementsOf(config, segment))) chosen.insert(SegmentName(config, segment));
  }
  for (int64_t block = 0; policy.least_elements > 0 && block < config.layers; ++block) {
    int64_t rest = 0;  // in none of its own
    for (const int64_t segment : {2 * block + 1, 2 * block + 2}) {
      if (!chosen.contains(SegmentName(config, segment))) rest += ElementsOf(config, segment);
    }
    if (is_chosen(rest)) chosen.insert("block" + std::to_string(block));
  }
  if (policy.root) {
    chosen.erase("embedding");
    chosen.erase("head");
  }
  return chosen;
}

// The innermost chosen module that has the segment, or the root.
std::string UnitAmong(const std::set<std::string>& chosen, const std::string& segment) {
  if (chosen.contains(segment)) return segment;
  const std::string block = segment.substr(0, segment.find('.'));
  return chosen.contains(block) ? block : "root";
}

// The unit of each segment, and the one of all small parameters, made at their first use.
void GroupByName(const ModelConfig& config, const plan::UnitPolicy& policy,
                 plan::ModelDescription* model) {
  const bool chooses = policy.modules || policy.least_elements > 0 || !policy.names.empty();
  const std::set<std::string> chosen =
      chooses ? ChosenModules(config, policy) : std::set<std::string>();
  for (int64_t segment = 0; segment < NumSegments(config); ++segment) {
    const std::string of_segment = chooses ? UnitAmong(chosen, SegmentName(config, segment))
                                           : UnitName(config, policy, segment);
    std::set<int32_t> used;
    for (Parameter& parameter : ParametersOf(config, segment)) {
      const bool is_small = plan::NumElements(parameter.shape) < policy.persistence_threshold;
      const std::string name = is_small ? "persistent" : of_segment;
      auto unit = std::ranges::find(model->units, name, &plan::Unit::name);
      if (unit == model->units.end()) {
        model->units.push_back({.name = name, .is_root = name == "root"});
        unit = model->units.end() - 1;
      }
      unit->parameters.push_back(std::move(parameter));
      used.insert(static_cast<int32_t>(unit - model->units.begin()));
    }
    model->segments[static_cast<size_t>(segment)].units.assign(used.begin(), used.end());
  }
}

}  // namespace

int64_t NumSegments(const ModelConfig& config) { return 2 * config.layers + 2; }

SegmentKind KindOf(const ModelConfig& config, int64_t segment) {
  SHARDSCOPE_CHECK(segment >= 0 && segment < NumSegments(config));
  if (segment == 0) return SegmentKind::kEmbedding;
  if (segment == NumSegments(config) - 1) return SegmentKind::kHead;
  return segment % 2 == 1 ? SegmentKind::kAttention : SegmentKind::kMlp;
}

bool IsSplit(const ModelConfig& config, int64_t segment) {
  const SegmentKind kind = KindOf(config, segment);
  return config.tensor_ranks > 1 && (kind == SegmentKind::kAttention || kind == SegmentKind::kMlp);
}

std::vector<Parameter> ParametersOf(const ModelConfig& config, int64_t segment) {
  const int64_t dim = config.dim;
  const int64_t ranks = config.tensor_ranks;
  const std::string name = SegmentName(config, segment);
  const bool splits = IsSplit(config, segment);
  const auto rows = splits ? plan::TensorSplit::kRows : plan::TensorSplit::kWhole;
  const auto columns = splits ? plan::TensorSplit::kColumns : plan::TensorSplit::kWhole;
  switch (KindOf(config, segment)) {
    case SegmentKind::kEmbedding:
      return {{name + ".weight", {config.vocab, dim}}};
    case SegmentKind::kAttention:
      return {{name + ".norm.weight", {dim}},
              {name + ".qkv.weight", {3 * dim / ranks, dim}, rows, splits ? 3 : 1},
              {name + ".projection.weight", {dim, dim / ranks}, columns}};
    case SegmentKind::kMlp:
      return {{name + ".norm.weight", {dim}},
              {name + ".up.weight", {config.ffn_width() / ranks, dim}, rows},
              {name + ".down.weight", {dim, config.ffn_width() / ranks}, columns}};
    case SegmentKind::kHead:
      return {{name + ".norm.weight", {dim}}, {name + ".weight", {config.vocab, dim}}};
  }
  return {};
}

plan::ModelDescription DescribeModel(ModelConfig config, const plan::UnitPolicy& policy,
                                     int64_t batch) {
  config.tensor_ranks = policy.tensor_ranks;
  if (policy.sequence_parallel) config.sequence_ranks = policy.tensor_ranks;
  const int64_t own_tokens = batch * config.seq / config.sequence_ranks;
  plan::ModelDescription description;
  description.batch_bytes = 2 * own_tokens * static_cast<int64_t>(sizeof(int64_t));
  for (int64_t index = 0; index < NumSegments(config); ++index) {
    plan::Segment segment;
    segment.name = SegmentName(config, index);
    segment.activation_bytes = ActivationBytes(config, index, batch);
    segment.stage = static_cast<int32_t>(StageOf(config, policy, index));
    segment.is_split = IsSplit(config, index);
    if (segment.is_split) {
      segment.hidden_bytes =
          batch * config.seq * HiddenColumns(config, index) * plan::BytesOf(config.dtype);
    }
    segment.output_bytes = KindOf(config, index) == SegmentKind::kHead
                               ? config.wide_bytes()
                               : own_tokens * config.dim * plan::BytesOf(config.dtype);
    segment.norm_bytes = NormBytes(config, index, batch);
    description.segments.push_back(std::move(segment));
    description.recomputable.push_back(RecomputableOf(config, index, batch));
  }
  if (policy.bucket_bytes > 0) {
    FillBuckets(config, policy, &description);
  } else {
    GroupByName(config, policy, &description);
  }
  return description;
}

int64_t WeightBackwardTemporaryBytes(const ModelConfig& config, int64_t segment, int64_t batch) {
  return MatmulBytes(config, HiddenColumns(config, segment), config.dim, batch * config.seq);
}

int64_t ForwardTemporaryBytes(const ModelConfig& config, int64_t segment, int64_t batch) {
  const int64_t tokens = batch * config.seq;
  const int64_t dim = config.dim;
  const auto matmul = [&](int64_t outputs, int64_t inputs) {
    return MatmulBytes(config, tokens, outputs, inputs);
  };
  const int64_t attended = dim / config.tensor_ranks;              // columns of a rank's heads
  const int64_t inner = config.ffn_width() / config.tensor_ranks;  // of its part of the MLP
  switch (KindOf(config, segment)) {
    case SegmentKind::kEmbedding:
      return 0;
    case SegmentKind::kAttention: {  // attention itself is over when the output is taken
      const int64_t output = tokens * dim * plan::BytesOf(config.dtype);
      return std::max({AttentionForwardBytes(config) - output, matmul(3 * attended, dim),
                       matmul(dim, attended)});
    }
    case SegmentKind::kMlp:
      return std::max(matmul(inner, dim), matmul(dim, inner));
    case SegmentKind::kHead: {  // logits, and a copy in the wide type where that is another
      const int64_t own_tokens = tokens / config.sequence_ranks;
      const int64_t logits = own_tokens * config.vocab;
      const bool is_wide = config.wide_bytes() == plan::BytesOf(config.dtype);
      return logits * plan::BytesOf(config.dtype) +
             std::max(is_wide ? 0 : logits * config.wide_bytes(),
                      MatmulBytes(config, own_tokens, config.vocab, dim));
    }
  }
  return 0;
}

int64_t BackwardTemporaryBytes(const ModelConfig& config, int64_t segment, int64_t batch) {
  const int64_t tokens = batch * config.seq;
  const int64_t dim = config.dim;
  const int64_t hidden = tokens * dim * plan::BytesOf(config.dtype);
  // With the gradients of a linear layer's output live: those of its weight, then of its input,
  // which is as large as what the op returns.
  const auto linear_of = [&](int64_t rows, int64_t outputs, int64_t inputs) {
    return std::max(MatmulBytes(config, outputs, inputs, rows),
                    MatmulBytes(config, rows, inputs, outputs));
  };
  const auto linear = [&](int64_t outputs, int64_t inputs) {
    return linear_of(tokens, outputs, inputs);
  };
  const int64_t attended = dim / config.tensor_ranks;
  const int64_t inner = config.ffn_width() / config.tensor_ranks;
  const int64_t part = hidden / config.tensor_ranks;  // [tokens, attended]
  switch (KindOf(config, segment)) {
    case SegmentKind::kEmbedding:
      return 0;
    case SegmentKind::kAttention:  // of the attended, q, k, v, and these three together again
      return std::max({3 * part + AttentionBackwardBytes(config), part + linear(dim, attended),
                       7 * part + linear(3 * attended, dim)});
    case SegmentKind::kMlp:
      return tokens * inner * plan::BytesOf(config.dtype) +
             std::max(linear(inner, dim), linear(dim, inner));
    case SegmentKind::kHead: {  // at last the gradient on both sides of the norm
      const int64_t own_tokens = tokens / config.sequence_ranks;
      return std::max(hidden / config.sequence_ranks,
                      own_tokens * config.vocab * plan::BytesOf(config.dtype) +
                          linear_of(own_tokens, config.vocab, dim));
    }
  }
  return 0;
}

}  // namespace shardscope::model
