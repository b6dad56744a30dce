#include "engine/model/huggingface.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "trace/base/input_file.h"
#include "trace/base/text.h"

namespace shardscope::model {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostBytes = size_t{1} << 20;
constexpr int64_t kMostCount = int64_t{1} << 31;

// Fields of an object of config.json. The first that is wrong stays as the status; what is returned
// after it means nothing.
class Fields {
 public:
  Fields(std::string place, const Json& object, Status* status)
      : place_(std::move(place)), object_(object), status_(*status) {}

  bool Has(const char* name) const { return object_.contains(name) && !object_.at(name).is_null(); }
  // Whether it is named at all, if only as null.
  bool Names(const char* name) const { return object_.contains(name); }
  const Json& At(const char* name) const { return object_.at(name); }

  int64_t Count(const char* name, std::optional<int64_t> otherwise = std::nullopt) {
    if (!Has(name)) {
      if (!otherwise) Wrong(name, "is missing");
      return otherwise.value_or(1);
    }
    const Json& value = At(name);
    if (value.is_number_integer() && value > 0 && value < kMostCount) return value.get<int64_t>();
    Wrong(name, fmt::format("={} is no whole number from 1 to {}", Shown(value), kMostCount - 1));
    return 1;
  }

  double Number(const char* name, double otherwise) {
    if (!Has(name)) return otherwise;
    const Json& value = At(name);
    if (value.is_number() && value > 0 && value < 1e15) return value.get<double>();
    Wrong(name, fmt::format("={} is no positive number", Shown(value)));
    return otherwise;
  }

  bool Flag(const char* name) {
    if (!Has(name)) return false;
    if (At(name).is_boolean()) return At(name).get<bool>();
    Wrong(name, fmt::format("={} is neither true nor false", Shown(At(name))));
    return false;
  }

  std::string Text(const char* name, const std::string& otherwise) {
    if (!Has(name)) return otherwise;
    if (At(name).is_string()) return At(name).get<std::string>();
    Wrong(name, fmt::format("={} is no text", Shown(At(name))));
    return otherwise;
  }

  // Where there is only one value that can be trained.
  void Only(const char* name, const Json& value, const std::string& why) {
    if (Has(name) && At(name) != value) {
      Wrong(name, fmt::format("={} cannot be trained: {}", Shown(At(name)), why));
    }
  }

  void Wrong(const char* name, const std::string& what) {
    if (!status_.ok()) return;
    const std::string space = what.starts_with("=") ? "" : " ";
    status_ = Status::Error(fmt::format("{}{}{}{}", place_, name, space, what));
  }

  static std::string Shown(const Json& value) {
    return value.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 80);
  }

 private:
  const std::string place_;  // "model.path: /x/config.json: rope_scaling."
  const Json& object_;
  Status& status_;
};

// `key` and `remedy`: of its errors.
Result<Json> ReadObject(const std::string& key, const std::string& path,
                        const std::string& remedy) {
  const Result<std::string> text = ReadFile(path, kMostBytes);
  if (!text.ok()) return Status::Error(key + text.message() + "; " + remedy);
  Json json = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Status::Error(key + path + " is no JSON object");
  return json;
}

constexpr char kKnown[] = "LlamaForCausalLM, MistralForCausalLM and Qwen2ForCausalLM";

std::string ArchitectureOf(Fields* fields) {
  if (fields->Has("architectures")) {
    const Json& list = fields->At("architectures");
    if (list.is_array() && list.size() == 1 && list[0].is_string()) {
      const auto name = list[0].get<std::string>();
      for (const char* known : {"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM"}) {
        if (name == known) return name;
      }
    }
  }
  const std::string found = fields->Has("architectures")
                                ? "=" + Fields::Shown(fields->At("architectures"))
                                : "is missing";
  fields->Wrong("architectures", fmt::format("{}: what can be trained is {}", found, kKnown));
  return "";
}

// transformers 5 has all in rope_parameters, 4 a scaling beside rope_theta.
void ReadRotary(const std::string& place, Fields* fields, Status* status, ModelConfig* config) {
  config->rope_theta = fields->Number("rope_theta", 10000);
  const char* name = fields->Has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  if (!fields->Has(name)) return;
  if (!fields->At(name).is_object()) return fields->Wrong(name, "is no object");
  Fields rope(place + name + ".", fields->At(name), status);
  config->rope_theta = rope.Number("rope_theta", config->rope_theta);
  const std::string type = rope.Text("rope_type", rope.Text("type", "default"));
  if (type == "default") return;
  if (type != "llama3") {
    return rope.Wrong("rope_type", "=" + Printable(type.substr(0, 40)) +
                                       " is not known: it may be default or llama3");
  }
  RopeScaling scaling;
  scaling.factor = rope.Number("factor", 1);
  scaling.low_freq_factor = rope.Number("low_freq_factor", 1);
  scaling.high_freq_factor = rope.Number("high_freq_factor", 4);
  scaling.original_seq = rope.Count("original_max_position_embeddings");
  if (scaling.high_freq_factor <= scaling.low_freq_factor) {
    return rope.Wrong("high_freq_factor", "is not above low_freq_factor");
  }
  config->rope_scaling = scaling;
}

constexpr int64_t kDefaultWindow = 4096;  // of transformers' MistralConfig and Qwen2Config

// Where it is not named each class of transformers has its own default; null is one for each head.
int64_t KeyValueHeads(const std::string& architecture, int64_t heads, Fields* fields) {
  constexpr const char* kName = "num_key_value_heads";
  if (fields->Names(kName)) return fields->Count(kName, heads);
  if (architecture == "MistralForCausalLM") return 8;
  return architecture == "Qwen2ForCausalLM" ? 32 : heads;
}

// Attention to all positions before, in every layer.
void CheckWindow(const std::string& architecture, int64_t seq, Fields* fields) {
  constexpr const char* kName = "sliding_window";
  const bool is_used = architecture == "MistralForCausalLM" ||
                       (architecture == "Qwen2ForCausalLM" && fields->Flag("use_sliding_window"));
  const bool is_none = fields->Names(kName) && !fields->Has(kName);  // null
  if (!is_used || is_none) return;
  const int64_t window = fields->Count(kName, kDefaultWindow);
  if (window >= seq) return;
  fields->Wrong(kName,
                fmt::format("={} is shorter than model.seq={}: lower model.seq, as attention "
                            "always sees all that came before",
                            window, seq));
}

void CheckRest(Fields* fields) {
  fields->Only("hidden_act", "silu", "MLPs are SwiGLU, hidden_act=silu");
  fields->Only("attention_bias", false, "only Qwen2's biases of q, k and v are known");
  fields->Only("mlp_bias", false, "MLPs have no biases");
  fields->Only("pretraining_tp", 1, "only 1 is known");
  fields->Only("partial_rotary_factor", 1.0, "all channels of a head are rotated");
  if (fields->Has("attention_dropout") && fields->At("attention_dropout") != 0) {
    fields->Wrong("attention_dropout", "is not 0, and there is no dropout");
  }
  if (fields->Has("quantization_config")) {
    fields->Wrong("quantization_config", "is there: weights have to be F32, F16 or BF16");
  }
}

void CheckHeads(const ModelConfig& config, Fields* fields) {
  if (config.heads % config.kv_heads != 0) {
    fields->Wrong("num_key_value_heads", fmt::format("={} does not divide num_attention_heads={}",
                                                     config.kv_heads, config.heads));
  }
  if (config.stated_head_dim == 0 && config.dim % config.heads != 0) {
    fields->Wrong("num_attention_heads",
                  fmt::format("={} does not divide hidden_size={}", config.heads, config.dim));
  }
  if (config.head_dim() % 2 != 0) {
    fields->Wrong("head_dim", fmt::format("={} is odd, and rotary positions need an even number",
                                          config.head_dim()));
  }
}

// peft has a list of names, or one name for all linear layers of blocks.
std::vector<std::string> ReadTargets(Fields* fields) {
  const std::vector<std::string> all = {"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                        "gate_proj", "up_proj", "down_proj"};
  constexpr const char* kName = "target_modules";
  if (!fields->Has(kName)) {
    fields->Wrong(kName, "is missing");
    return {};
  }
  const Json& value = fields->At(kName);
  if (value == "all-linear") return all;
  std::vector<std::string> targets;
  for (const std::string& name : all) {
    if (value.is_array() && std::find(value.begin(), value.end(), Json(name)) != value.end()) {
      targets.push_back(name);
    }
  }
  if (!value.is_array() || targets.size() != value.size() || targets.empty()) {
    fields->Wrong(kName, fmt::format("={} is no list of layers that can have an adapter: {}",
                                     Fields::Shown(value), fmt::join(all, ", ")));
  }
  return targets;
}

// What else peft's LoraConfig has that changes what an adapter adds, or what is trained.
void CheckAdapterRest(Fields* fields) {
  fields->Only("bias", "none", "no biases are trained beside adapters");
  fields->Only("lora_bias", false, "adapters have no biases");
  fields->Only("lora_dropout", 0.0, "there is no dropout; set it to 0 to train without");
  fields->Only("fan_in_fan_out", false, "no layer of a llama has its weight transposed");
  fields->Only("use_dora", false, "magnitudes are not known");
  fields->Only("use_rslora", false, "an adapter is scaled by lora_alpha/r");
  fields->Only("use_qalora", false, "weights are not quantised");
  // Most of the other ways change the weights of the model as well.
  if (fields->Has("init_lora_weights")) {
    const Json& init = fields->At("init_lora_weights");
    if (!init.is_boolean() && init != "gaussian") {
      fields->Only(
          "init_lora_weights", true,
          "it may be true, false or gaussian, which leave the model's weights as they are; "
          "let peft convert the adapter (path_initial_model_for_weight_conversion)");
    }
  }
  for (const char* name :
       {"modules_to_save", "layers_to_transform", "layer_replication", "rank_pattern",
        "alpha_pattern", "target_parameters", "exclude_modules", "trainable_token_indices"}) {
    const bool is_set = fields->Has(name) && !fields->At(name).empty();
    if (is_set) fields->Wrong(name, "is set: every target of every block has the same adapter");
  }
  for (const char* name : {"alora_invocation_tokens", "use_bdlora", "arrow_config", "kasa_config",
                           "monteclora_config", "velora_config"}) {
    const bool is_set = fields->Has(name) && fields->At(name) != false && !fields->At(name).empty();
    if (is_set) fields->Wrong(name, "is set: only plain LoRA is known");
  }
}

}  // namespace

Result<AdapterConfig> ReadAdapterConfig(const std::string& folder) {
  const std::string path = folder + "/adapter_config.json";
  SHARDSCOPE_ASSIGN_OR_RETURN(
      const Json json, ReadObject("lora.path: ", path, "name a folder that peft has written"));
  Status status;
  Fields fields("lora.path: " + path + ": ", json, &status);
  if (fields.Text("peft_type", "") != "LORA") {
    fields.Wrong("peft_type", "is not LORA, the only adapter that is known");
  }
  AdapterConfig adapter;
  adapter.rank = fields.Count("r");
  adapter.alpha = fields.Number("lora_alpha", 8);  // peft's default
  adapter.targets = ReadTargets(&fields);
  CheckAdapterRest(&fields);
  if (!status.ok()) return status;
  return adapter;
}

Result<ModelConfig> ReadFolderConfig(const std::string& folder, int64_t seq) {
  const std::string path = folder + "/config.json";
  SHARDSCOPE_ASSIGN_OR_RETURN(
      const Json json, ReadObject("model.path: ", path, "name a folder in Hugging Face's layout"));
  Status status;
  const std::string place = "model.path: " + path + ": ";
  Fields fields(place, json, &status);
  const std::string architecture = ArchitectureOf(&fields);
  ModelConfig config{.seq = seq, .kind = ModelKind::kLlama};
  config.layers = fields.Count("num_hidden_layers");
  config.dim = fields.Count("hidden_size");
  config.heads = fields.Count("num_attention_heads");
  config.kv_heads = KeyValueHeads(architecture, config.heads, &fields);
  config.ffn = fields.Count("intermediate_size");
  config.vocab = fields.Count("vocab_size");
  if (fields.Has("head_dim")) config.stated_head_dim = fields.Count("head_dim");
  config.norm_epsilon = fields.Number("rms_norm_eps", 1e-6);
  config.tied = fields.Flag("tie_word_embeddings");
  config.qkv_bias = architecture == "Qwen2ForCausalLM";
  ReadRotary(place, &fields, &status, &config);
  constexpr const char* kPositions = "max_position_embeddings";
  if (fields.Has(kPositions) && fields.At(kPositions).is_number_integer()) {
    config.most_positions = fields.Count(kPositions);
  }
  CheckHeads(config, &fields);
  CheckWindow(architecture, seq, &fields);
  CheckRest(&fields);
  if (!status.ok()) return status;
  return config;
}

std::map<std::string, std::string> FieldsBesideKeys(const ModelConfig& config) {
  const auto number = [](double value) { return fmt::format("{}", value); };
  std::map<std::string, std::string> fields = {
      {"head_dim", std::to_string(config.head_dim())},
      {"rms_norm_eps", number(config.norm_epsilon)},
      {"rope_theta", number(config.rope_theta)},
      {"tie_word_embeddings", config.tied ? "true" : "false"},
      {"biases of q, k and v", config.qkv_bias ? "true" : "false"}};
  if (!config.rope_scaling) return fields;
  const RopeScaling& scaling = *config.rope_scaling;
  fields["rope_scaling.rope_type"] = "llama3";
  fields["rope_scaling.factor"] = number(scaling.factor);
  fields["rope_scaling.low_freq_factor"] = number(scaling.low_freq_factor);
  fields["rope_scaling.high_freq_factor"] = number(scaling.high_freq_factor);
  fields["rope_scaling.original_max_position_embeddings"] = std::to_string(scaling.original_seq);
  return fields;
}

std::string HuggingFaceName(const std::string& parameter) {
  if (parameter == kEmbeddingWeight) return "model.embed_tokens.weight";
  if (parameter == "head.norm.weight") return "model.norm.weight";
  if (parameter == "head.weight") return "lm_head.weight";
  if (IsAdapter(parameter)) {
    const size_t end = parameter.rfind(".lora_");
    const std::string weight = HuggingFaceName(parameter.substr(0, end) + ".weight");
    return "base_model.model." + weight.substr(0, weight.rfind('.')) + parameter.substr(end);
  }
  const auto parts = Split(parameter, '.');  // block3, attention, q, weight
  const std::string layer = "model.layers." + std::string(parts[0].substr(5)) + ".";
  const bool is_attention = parts[1] == "attention";
  if (parts[2] == "norm") {
    return layer + (is_attention ? "input_layernorm.weight" : "post_attention_layernorm.weight");
  }
  return layer + (is_attention ? "self_attn." : "mlp.") + std::string(parts[2]) + "_proj." +
         std::string(parts[3]);
}

}  // namespace shardscope::model
