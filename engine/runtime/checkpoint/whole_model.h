// The model of a checkpoint outside of a run: what its keys describe, and its parameters one at a
// time, whole, whatever ranks have written them.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "engine/checkpoint/checkpoint.h"
#include "engine/config/config.h"
#include "engine/model/model_config.h"
#include "engine/tokenizer/tokenizer.h"
#include "trace/base/status.h"

namespace shardscope::runtime {

// Threads: any; const methods together.
class WholeModel {
 public:
  // `path`: a run, a folder of checkpoints, or a checkpoint; of the first two the newest whole
  // checkpoint. Errors: those of checkpoint::Checkpoint, a model.path that is not there any more,
  // parameters that the model does not have so.
  // `model_folder`: where that of model.path is now; empty: where it was.
  static Result<WholeModel> Open(const std::string& path, const std::string& model_folder = "");

  const checkpoint::Checkpoint& checkpoint() const { return checkpoint_; }
  // Of the run: what says which model and tokenizer it had; every other key has its default.
  const config::Config& config() const { return config_; }
  const model::ModelConfig& model() const { return model_; }
  // Whether the run had this tokenizer (null: a token is a byte), which is now at `path`. `use`: as
  // TokenizerHere.
  Status CheckTokenizer(const tokenizer::Tokenizer* tokenizer, const std::string& path,
                        const std::string& use) const;

  // A parameter of model::AllParameters(model()), in fp64 if the run kept it so, else in fp32.
  Result<at::Tensor> Read(const plan::Parameter& parameter) const;
  // With what its adapter adds, if it has one (peft: merge_and_unload()).
  Result<at::Tensor> ReadMerged(const plan::Parameter& parameter) const;

 private:
  explicit WholeModel(checkpoint::Checkpoint checkpoint) : checkpoint_(std::move(checkpoint)) {}
  Status ReadConfig(const std::string& model_folder);
  Status MoveTokenizer(const std::string& was_at);
  Status CheckParameters() const;

  checkpoint::Checkpoint checkpoint_;
  config::Config config_;
  model::ModelConfig model_;
};

}  // namespace shardscope::runtime
