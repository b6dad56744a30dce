// From a folder of torch.distributed.checkpoint to a checkpoint of this program: weights and what
// Adam keeps of them, of Llama as Hugging Face or torchtitan name it, or of this program's own
// model in PyTorch.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/checkpoint/dcp/metadata.h"
#include "engine/checkpoint/dcp/torch_names.h"
#include "engine/checkpoint/index.h"
#include "engine/plan/model_description.h"
#include "trace/base/status.h"

namespace shardscope::checkpoint {

// How many rows the matrices of queries, keys and values have.
struct AttentionRows {
  int64_t queries = 0;
  int64_t keys = 0;
  int64_t values = 0;

  int64_t all() const { return queries + keys + values; }
  bool AreHeads(int64_t head_rows) const {
    return head_rows > 0 && keys > 0 && keys == values && keys % head_rows == 0 &&
           queries % keys == 0;
  }
};

class DcpImport {
 public:
  // Errors: no such folder, nothing of a model in it, a model with parts of it missing.
  static Result<DcpImport> Open(const std::string& folder);

  // What the shapes say of a model with so many heads, as keys: model.kind, model.layers, ...
  std::map<std::string, std::string> ModelKeys(int64_t heads) const;
  // Names that are no part of the model: counters of a scheduler, buffers, objects, state of a
  // parameter that is neither of its shape nor a scalar.
  const std::vector<std::string>& left_out() const { return left_out_; }

  // Of a model whose head has the matrix of its embedding: leaves a head.weight out of what is
  // written. State dictionaries of transformers have it as well. Error: its values are not
  // the embedding's.
  Status TieHead();

  // Error: a parameter is missing, of another shape, or not in the model that has all of `model`.
  Status CheckParameters(const std::vector<plan::Parameter>& model) const;

  // What the index says of the run: all keys, of which model.heads is used, and Index::model.
  struct Settings {
    std::map<std::string, std::string> config;
    std::map<std::string, std::string> model;
    std::string toml;  // `config` as text
  };
  // Writes the checkpoint `folder`, in one step; it is not there yet. Every tensor is in memory
  // once.
  Status Write(const std::string& folder, const Settings& settings) const;

 private:
  struct Source {
    std::string name;
    TranslatedName to;
    const DcpTensor* tensor = nullptr;
  };

  Status Sort();
  void LeaveOutWithoutParameter();
  void LeaveOutOtherShapes();
  AttentionRows RowsOfAttention(std::string parameter) const;
  std::vector<int64_t> ShapeOf(const Source& source, std::vector<int64_t> shape) const;
  Result<int64_t> ReadStep() const;
  Result<std::vector<std::byte>> Read(const Source& source, int64_t head_rows) const;
  int64_t HeadRows(const Settings& settings) const;
  Status WriteParameter(const std::string& parameter, int64_t head_rows, const std::string& folder,
                        Index* index) const;

  std::string folder_;
  DcpMetadata metadata_;
  std::map<std::string, std::map<std::string, Source>> parameters_;  // ours, then tensors of each
  std::vector<std::string> left_out_;
};

}  // namespace shardscope::checkpoint
