#include "engine/model/model_config.h"

#include <algorithm>
#include <utility>

#include "engine/model/model_memory.h"
#include "engine/model/model_units.h"
#include "trace/base/check.h"

namespace shardscope::model {
namespace {

using plan::Parameter;
using plan::TensorSplit;

constexpr char kLoraA[] = ".lora_A.weight";
constexpr char kLoraB[] = ".lora_B.weight";

// With what the rest of their names is.
std::vector<Parameter> Named(const std::string& segment, std::vector<Parameter> parameters) {
  for (Parameter& parameter : parameters) parameter.name = segment + "." + parameter.name;
  return parameters;
}

std::vector<Parameter> LlamaAttention(const ModelConfig& config, TensorSplit rows,
                                      TensorSplit columns) {
  const int64_t dim = config.dim;
  const int64_t queries = config.query_columns();
  const int64_t keys = config.key_columns();
  std::vector<Parameter> all = {{"norm.weight", {dim}},
                                {"q.weight", {queries, dim}, rows},
                                {"k.weight", {keys, dim}, rows},
                                {"v.weight", {keys, dim}, rows}};
  if (config.qkv_bias) {
    all.push_back({"q.bias", {queries}, rows});
    all.push_back({"k.bias", {keys}, rows});
    all.push_back({"v.bias", {keys}, rows});
  }
  all.push_back({"o.weight", {dim, queries}, columns});
  return all;
}

std::vector<Parameter> AttentionOf(const ModelConfig& config, bool is_split, TensorSplit rows,
                                   TensorSplit columns) {
  if (config.kind == ModelKind::kLlama) return LlamaAttention(config, rows, columns);
  const int64_t dim = config.dim;
  const int64_t columns_of_rank = dim / config.tensor_ranks;
  return {{"norm.weight", {dim}},
          {"qkv.weight", {3 * columns_of_rank, dim}, rows, is_split ? 3 : 1},
          {"projection.weight", {dim, columns_of_rank}, columns}};
}

std::vector<Parameter> MlpOf(const ModelConfig& config, TensorSplit rows, TensorSplit columns) {
  const int64_t dim = config.dim;
  const int64_t inner = config.inner_columns();
  std::vector<Parameter> all = {{"norm.weight", {dim}}};
  if (config.kind == ModelKind::kLlama) all.push_back({"gate.weight", {inner, dim}, rows});
  all.push_back({"up.weight", {inner, dim}, rows});
  all.push_back({"down.weight", {dim, inner}, columns});
  return all;
}

// The A of a weight that is split by rows, and the B of one that is split by columns, are whole on
// every rank.
void AddAdapters(const Lora& lora, const std::string& segment, std::vector<Parameter>* parameters) {
  const size_t num_weights = parameters->size();
  for (size_t index = 0; index < num_weights; ++index) {
    const Parameter weight = (*parameters)[index];
    const auto is_target = [&](const std::string& target) {
      return weight.name == segment + "." + target + ".weight";
    };
    if (std::ranges::none_of(lora.targets, is_target)) continue;
    const std::string name = weight.name.substr(0, weight.name.rfind('.'));
    const bool has_rows = weight.split == TensorSplit::kRows;
    const bool has_columns = weight.split == TensorSplit::kColumns;
    parameters->push_back({name + kLoraA,
                           {lora.rank, weight.shape[1]},
                           has_columns ? weight.split : TensorSplit::kWhole});
    parameters->push_back({name + kLoraB,
                           {weight.shape[0], lora.rank},
                           has_rows ? weight.split : TensorSplit::kWhole,
                           weight.row_parts});
  }
}

bool IsFrozen(const ModelConfig& config, const std::string& parameter) {
  if (config.lora.rank > 0) return !IsAdapter(parameter);
  return std::ranges::any_of(config.frozen, [&](const std::string& module) {
    return parameter.starts_with(module == "blocks" ? "block" : module + ".");
  });
}

// Without adapters.
std::vector<Parameter> WeightsOf(const ModelConfig& config, int64_t segment) {
  const std::string name = SegmentName(config, segment);
  const bool is_split = IsSplit(config, segment);
  const auto rows = is_split ? TensorSplit::kRows : TensorSplit::kWhole;
  const auto columns = is_split ? TensorSplit::kColumns : TensorSplit::kWhole;
  const Parameter embedding = {kEmbeddingWeight, {config.vocab, config.dim}};
  switch (KindOf(config, segment)) {
    case SegmentKind::kEmbedding:
      return {embedding};
    case SegmentKind::kAttention:
      return Named(name, AttentionOf(config, is_split, rows, columns));
    case SegmentKind::kMlp:
      return Named(name, MlpOf(config, rows, columns));
    case SegmentKind::kHead: {
      const Parameter norm = {name + ".norm.weight", {config.dim}};
      if (config.tied) return {norm, embedding};
      return {norm, {name + ".weight", {config.vocab, config.dim}}};
    }
  }
  return {};
}

// Of its block; embedding and head keep all that they save, which their backward needs first or is
// the output alone.
plan::Recomputable RecomputableOf(const ModelConfig& config, int64_t segment, int64_t batch) {
  const SegmentKind kind = KindOf(config, segment);
  if (kind == SegmentKind::kEmbedding || kind == SegmentKind::kHead) return {};
  return {.block = static_cast<int32_t>((segment - 1) / 2),
          .product_bytes = ProductBytes(config, segment, batch)};
}

}  // namespace

int64_t NumSegments(const ModelConfig& config) { return 2 * config.layers + 2; }

SegmentKind KindOf(const ModelConfig& config, int64_t segment) {
  SHARDSCOPE_CHECK(segment >= 0 && segment < NumSegments(config));
  if (segment == 0) return SegmentKind::kEmbedding;
  if (segment == NumSegments(config) - 1) return SegmentKind::kHead;
  return segment % 2 == 1 ? SegmentKind::kAttention : SegmentKind::kMlp;
}

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

bool IsSplit(const ModelConfig& config, int64_t segment) {
  const SegmentKind kind = KindOf(config, segment);
  return config.tensor_ranks > 1 && (kind == SegmentKind::kAttention || kind == SegmentKind::kMlp);
}

bool IsAdapter(std::string_view parameter) {
  return parameter.ends_with(kLoraA) || parameter.ends_with(kLoraB);
}

std::vector<Parameter> ParametersOf(const ModelConfig& config, int64_t segment) {
  std::vector<Parameter> parameters = WeightsOf(config, segment);
  AddAdapters(config.lora, SegmentName(config, segment), &parameters);
  for (Parameter& parameter : parameters) parameter.is_frozen = IsFrozen(config, parameter.name);
  return parameters;
}

bool IsOwn(const ModelConfig& config, int64_t segment, const Parameter& parameter) {
  return segment == 0 || !config.tied || parameter.name != kEmbeddingWeight;
}

std::vector<Parameter> AllParameters(const ModelConfig& config) {
  std::vector<Parameter> all;
  for (int64_t segment = 0; segment < NumSegments(config); ++segment) {
    for (Parameter& parameter : ParametersOf(config, segment)) {
      if (IsOwn(config, segment, parameter)) all.push_back(std::move(parameter));
    }
  }
  return all;
}

Status CheckUnits(const ModelConfig& config, const plan::UnitPolicy& policy) {
  if (!config.tied || policy.stages == 1) return Status::Ok();
  return Status::Error(
      "the model's head is tied to its embedding (tie_word_embeddings), but a pipeline has them on "
      "two ranks: set mesh.pipeline=1 and a strategy without stages, or use a model that is not "
      "tied");
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
    segment.stage = StageOf(config, policy, index);
    segment.is_split = IsSplit(config, index);
    if (segment.is_split) segment.hidden_bytes = HiddenBytes(config, index, batch);
    segment.output_bytes = KindOf(config, index) == SegmentKind::kHead
                               ? config.wide_bytes()
                               : own_tokens * config.dim * plan::BytesOf(config.dtype);
    segment.norm_bytes = NormBytes(config, index, batch);
    description.segments.push_back(std::move(segment));
    description.recomputable.push_back(RecomputableOf(config, index, batch));
  }
  description.has_partial_gradients = config.tensor_ranks > 1 && config.lora.rank > 0;
  AddUnits(config, policy, &description);
  return description;
}

}  // namespace shardscope::model
