// What a model is made of: a decoder, as GPT or as Llama. Plain values, no LibTorch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/plan/model_description.h"
#include "engine/plan/op.h"
#include "trace/base/status.h"

namespace shardscope::model {

// gpt: RMSNorm, one matrix for queries, keys and values, GELU MLP. llama: as LlamaForCausalLM of
// Hugging Face's transformers, with a matrix for each and a SwiGLU MLP.
enum class ModelKind : uint8_t { kGpt, kLlama };

// Slower rotation of the lower frequencies, for longer texts than the model first learned from
// (Llama 3.1: transformers, modeling_rope_utils.py, _compute_llama3_parameters).
struct RopeScaling {
  double factor = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  int64_t original_seq = 8192;
  bool operator==(const RopeScaling&) const = default;
};

// Low-rank adapters (Hu et al. 2021, arXiv 2106.09685): beside W x comes alpha / rank * B A x, and
// of all parameters A and B alone are trained.
struct Lora {
  int64_t rank = 0;  // 0: there are none
  double alpha = 16;
  std::vector<std::string> targets;  // weights of blocks: "q", "down"; of a gpt "qkv"
  bool operator==(const Lora&) const = default;

  double scale() const { return alpha / static_cast<double>(rank); }
};

struct ModelConfig {
  int64_t layers = 4;
  int64_t dim = 128;
  int64_t heads = 4;
  int64_t seq = 128;
  plan::DType dtype = plan::DType::kFp32;  // of parameters while computing, and of activations

  ModelKind kind = ModelKind::kGpt;
  int64_t kv_heads = 0;         // of keys and values; 0: as many as of queries
  int64_t ffn = 0;              // width inside the MLP; 0: 4 * dim
  int64_t vocab = 256;          // where a token is a byte
  int64_t stated_head_dim = 0;  // 0: dim / heads
  double norm_epsilon = 1e-5;
  double rope_theta = 10000;
  std::optional<RopeScaling> rope_scaling;
  int64_t most_positions = 0;  // that it was made for, as its folder says; 0: it does not
  bool tied = false;           // the head's matrix is the embedding's
  bool qkv_bias = false;       // Qwen2

  // Columns of the logits that are there at a time, 16 or more; 0: all of them, which backward
  // finds as they are. Else it computes them again.
  int64_t logits_block = 0;

  Lora lora;
  // Modules that are not trained: "embedding", "head", "blocks", "block3", "block3.mlp".
  std::vector<std::string> frozen;

  int64_t tensor_ranks = 1;    // share the work of attention and MLP; heads are split among them
  int64_t sequence_ranks = 1;  // share the sequence outside of that: 1, or tensor_ranks

  bool operator==(const ModelConfig&) const = default;
  int64_t head_dim() const { return stated_head_dim > 0 ? stated_head_dim : dim / heads; }
  int64_t num_kv_heads() const { return kv_heads > 0 ? kv_heads : heads; }
  int64_t ffn_width() const { return ffn > 0 ? ffn : 4 * dim; }
  // Of one rank: all its heads of queries, all of keys (or values), its part of the MLP.
  int64_t query_columns() const { return heads * head_dim() / tensor_ranks; }
  int64_t key_columns() const { return num_kv_heads() * head_dim() / tensor_ranks; }
  int64_t inner_columns() const { return ffn_width() / tensor_ranks; }
  int64_t logits_columns() const {
    return logits_block > 0 ? std::min(std::max<int64_t>(logits_block, 16), vocab) : vocab;
  }
  // Reductions inside a segment (norms, softmax) are kept in at least fp32.
  int64_t wide_bytes() const { return dtype == plan::DType::kFp64 ? 8 : 4; }
};

inline constexpr char kEmbeddingWeight[] = "embedding.weight";

enum class SegmentKind : uint8_t { kEmbedding, kAttention, kMlp, kHead };

// Segments in forward order: embedding, then attention and MLP of every block, head.
int64_t NumSegments(const ModelConfig& config);
SegmentKind KindOf(const ModelConfig& config, int64_t segment);
std::string SegmentName(const ModelConfig& config, int64_t segment);  // "block3.mlp"

// Whether ranks of mesh.tensor share a segment's work.
bool IsSplit(const ModelConfig& config, int64_t segment);

// Parameters of one segment, in the order in which the functions of segments.h take them, adapters
// last; of those that are split, one rank's.
std::vector<plan::Parameter> ParametersOf(const ModelConfig& config, int64_t segment);

// Named as peft names them: "block3.attention.q.lora_A.weight", [rank, columns of q], of which the
// B follows, [rows of q, rank].
bool IsAdapter(std::string_view parameter);

// Whether the segment is where a parameter that it uses is kept: all but a tied head's matrix.
bool IsOwn(const ModelConfig& config, int64_t segment, const plan::Parameter& parameter);

// Every parameter of the model, in forward order.
std::vector<plan::Parameter> AllParameters(const ModelConfig& config);

// Error: the units that `policy` asks for cannot be, as the head is tied to the embedding.
Status CheckUnits(const ModelConfig& config, const plan::UnitPolicy& policy);

// What the builders need, where CheckUnits() finds nothing. `batch`: samples per rank and
// micro-batch. Buckets count parameters in the master dtype. Activation bytes are exact
// (model_memory.h). `config`: of one rank alone.
plan::ModelDescription DescribeModel(ModelConfig config, const plan::UnitPolicy& policy,
                                     int64_t batch);

}  // namespace shardscope::model
