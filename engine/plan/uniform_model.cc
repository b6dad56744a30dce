#include "engine/plan/uniform_model.h"

#include <algorithm>
#include <string>

namespace shardscope::plan {
namespace {

constexpr int64_t kDim = 64;
constexpr int64_t kVocabulary = 256;
constexpr int64_t kTokens = 128;  // of one micro-batch
constexpr int64_t kOutputBytes = kTokens * kDim * 4;

// How ranks share the work of blocks.
struct Share {
  int tensor_ranks = 1;
  bool of_sequence = false;
  int64_t output_bytes() const { return kOutputBytes / (of_sequence ? tensor_ranks : 1); }
};

Segment MakeSegment(const std::string& name, int32_t unit, int64_t saved_outputs, int32_t stage,
                    const Share& share) {
  return {name, {unit}, saved_outputs * share.output_bytes(), share.output_bytes(), stage};
}

// `inner_outputs` of what is saved is of heads and columns that ranks have parts of; norm and
// output are whole, or the norm alone.
// `hidden_outputs` of them are what the weight behind the norm puts out.
Segment MakeInner(const std::string& name, int32_t unit, int64_t inner_outputs,
                  int64_t hidden_outputs, int32_t stage, const Share& share) {
  Segment segment = MakeSegment(name, unit, share.of_sequence ? 1 : 2, stage, share);
  segment.activation_bytes += inner_outputs * kOutputBytes / share.tensor_ranks;
  segment.is_split = share.tensor_ranks > 1;
  if (share.of_sequence) segment.norm_bytes = kOutputBytes;
  if (segment.is_split) segment.hidden_bytes = hidden_outputs * kOutputBytes / share.tensor_ranks;
  return segment;
}

Unit MakeBlock(const std::string& name, int tensor_ranks) {
  const int64_t inner = kDim / tensor_ranks;
  const bool splits = tensor_ranks > 1;
  const auto rows = splits ? TensorSplit::kRows : TensorSplit::kWhole;
  const auto columns = splits ? TensorSplit::kColumns : TensorSplit::kWhole;
  return {name,
          false,
          {{name + ".attention.norm.weight", {kDim}},
           {name + ".attention.qkv.weight", {3 * inner, kDim}, rows, splits ? 3 : 1},
           {name + ".attention.out.weight", {kDim, inner}, columns},
           {name + ".mlp.norm.weight", {kDim}},
           {name + ".mlp.up.weight", {4 * inner, kDim}, rows},
           {name + ".mlp.down.weight", {kDim, 4 * inner}, columns}}};
}

}  // namespace

ModelDescription UniformModel(int blocks, bool root_unit, int stages, int tensor_ranks,
                              bool sequence_parallel) {
  const Share share = {tensor_ranks, sequence_parallel && tensor_ranks > 1};
  if (stages > 1) {
    root_unit = false;
    blocks = std::max(blocks, stages);
  }
  const Parameter embedding = {"embedding.weight", {kVocabulary, kDim}};
  const std::vector<Parameter> head = {{"head.norm.weight", {kDim}},
                                       {"head.weight", {kVocabulary, kDim}}};
  ModelDescription model;
  model.batch_bytes = (kTokens + 1) * 8 / (share.of_sequence ? tensor_ranks : 1);
  model.units.push_back({root_unit ? "root" : "embedding", root_unit, {embedding}});
  model.segments.push_back(MakeSegment("embedding", 0, 1, 0, share));
  for (int32_t unit = 1; unit <= blocks; ++unit) {
    const std::string name = "block" + std::to_string(unit - 1);
    const int32_t stage = (unit - 1) * stages / blocks;
    model.units.push_back(MakeBlock(name, tensor_ranks));
    model.segments.push_back(MakeInner(name + ".attention", unit, 4, 3, stage, share));
    model.segments.push_back(MakeInner(name + ".mlp", unit, 8, 4, stage, share));
    model.recomputable.resize(model.segments.size());
    for (size_t at = model.segments.size() - 2; at < model.segments.size(); ++at) {
      model.recomputable[at] = {unit - 1, 4 * kOutputBytes / share.tensor_ranks};
    }
  }
  if (root_unit) {
    std::vector<Parameter>& root = model.units.front().parameters;
    root.insert(root.end(), head.begin(), head.end());
  } else {
    model.units.push_back({"head", false, head});
  }
  model.segments.push_back(MakeSegment("head", root_unit ? 0 : blocks + 1, 10, stages - 1, share));
  model.recomputable.resize(model.segments.size());
  return model;
}

}  // namespace shardscope::plan
