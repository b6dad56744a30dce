// What a model is made of: a decoder over bytes. Plain values, no LibTorch.
#pragma once

#include <cstdint>
#include <string>

#include "engine/plan/model_description.h"
#include "engine/plan/op.h"

namespace shardscope::model {

inline constexpr int64_t kVocabulary = 256;  // a token is a byte
inline constexpr int64_t kMlpFactor = 4;     // width of the MLP over the width of the model
inline constexpr double kNormEpsilon = 1e-5;

struct ModelConfig {
  int64_t layers = 4;
  int64_t dim = 128;
  int64_t heads = 4;
  int64_t seq = 128;
  plan::DType dtype = plan::DType::kFp32;  // of parameters while computing, and of activations

  int64_t tensor_ranks = 1;    // share the work of attention and MLP; heads are split among them
  int64_t sequence_ranks = 1;  // share the sequence outside of that: 1, or tensor_ranks

  int64_t head_dim() const { return dim / heads; }
  // Reductions inside a segment (norms, softmax) are kept in at least fp32.
  int64_t wide_bytes() const { return dtype == plan::DType::kFp64 ? 8 : 4; }
};

enum class SegmentKind : uint8_t { kEmbedding, kAttention, kMlp, kHead };

// Segments in forward order: embedding, then attention and MLP of every block, head.
int64_t NumSegments(const ModelConfig& config);
SegmentKind KindOf(const ModelConfig& config, int64_t segment);

// Whether ranks of mesh.tensor share a segment's work.
bool IsSplit(const ModelConfig& config, int64_t segment);

// Parameters of one segment, in the order in which the functions of segments.h take them; of those
// that are split, one rank's.
std::vector<plan::Parameter> ParametersOf(const ModelConfig& config, int64_t segment);

// What the builders need. `batch`: samples per rank and micro-batch. Buckets count parameters in
// the master dtype. Activation bytes are exact:
// what Forward() saves, output included and input not (that is the previous segment's output).
// `config`: of one rank alone.
plan::ModelDescription DescribeModel(ModelConfig config, const plan::UnitPolicy& policy,
                                     int64_t batch);

// Most bytes that forward and backward of a segment (segments.cc, on the CPU with one thread) take
// for themselves, beside what the former saves and the latter returns; `batch` as above.
int64_t ForwardTemporaryBytes(const ModelConfig& config, int64_t segment, int64_t batch);
int64_t BackwardTemporaryBytes(const ModelConfig& config, int64_t segment, int64_t batch);
int64_t WeightBackwardTemporaryBytes(const ModelConfig& config, int64_t segment, int64_t batch);

}  // namespace shardscope::model
