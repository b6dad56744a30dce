// Folders in Hugging Face's layout: what config.json says of a model, and the names of its tensors.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/model/model_config.h"
#include "trace/base/status.h"

namespace shardscope::model {

// The model of config.json in `folder`: LlamaForCausalLM, MistralForCausalLM and Qwen2ForCausalLM
// as transformers 4 and 5 write them. `seq` and the dtype are the run's. Errors name the file, the
// field and what it may be.
Result<ModelConfig> ReadFolderConfig(const std::string& folder, int64_t seq);

// What of the model's arithmetic no key says but config.json: its fields, by their names there
// ("rope_scaling.factor"), with values as text. Of any model; what has no value has no field.
std::map<std::string, std::string> FieldsBesideKeys(const ModelConfig& config);

// A folder with a low-rank adapter as peft writes it: what its adapter_config.json says, in the
// names of lora.targets. Errors name the file, the field and what it may be.
struct AdapterConfig {
  int64_t rank = 0;
  double alpha = 0;
  std::vector<std::string> targets;  // "q_proj"; all of them where it says all-linear
};
Result<AdapterConfig> ReadAdapterConfig(const std::string& folder);

// What transformers calls a parameter of a llama: "block3.mlp.up.weight" is
// "model.layers.3.mlp.up_proj.weight". Adapters as peft writes them: "block3.mlp.up.lora_A.weight"
// is "base_model.model.model.layers.3.mlp.up_proj.lora_A.weight".
std::string HuggingFaceName(const std::string& parameter);

}  // namespace shardscope::model
