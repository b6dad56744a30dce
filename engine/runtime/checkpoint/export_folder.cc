#include "engine/runtime/checkpoint/export_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>
#include <vector>

#include "engine/checkpoint/folder.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/model/huggingface.h"
#include "engine/model/model_config.h"
#include "engine/runtime/checkpoint/whole_model.h"
#include "engine/tokenizer/tokenizer.h"
#include "trace/base/input_file.h"
#include "trace/base/output_file.h"
#include "trace/base/output_folder.h"

namespace shardscope::runtime {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr size_t kMostConfigBytes = size_t{1} << 20;
constexpr size_t kMostTokenizerBytes = size_t{1} << 30;

// What transformers and tokenizers call the files of a tokenizer; which are needed differs.
constexpr const char* kTokenizerFiles[] = {"tokenizer.json",
                                           "tokenizer_config.json",
                                           "special_tokens_map.json",
                                           "added_tokens.json",
                                           "vocab.json",
                                           "merges.txt",
                                           "tokenizer.model",
                                           "chat_template.jinja"};

// Of a llama that was drawn, as LlamaConfig of transformers 4 and 5 reads it.
Json DrawnConfig(const model::ModelConfig& model) {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"hidden_size", model.dim},
          {"intermediate_size", model.ffn_width()},
          {"num_hidden_layers", model.layers},
          {"num_attention_heads", model.heads},
          {"num_key_value_heads", model.num_kv_heads()},
          {"head_dim", model.head_dim()},
          {"vocab_size", model.vocab},
          {"max_position_embeddings", model.seq},
          {"hidden_act", "silu"},
          {"rms_norm_eps", model.norm_epsilon},
          {"rope_theta", model.rope_theta},
          {"tie_word_embeddings", model.tied},
          {"attention_bias", false},
          {"mlp_bias", false},
          {"bos_token_id", nullptr},
          {"eos_token_id", nullptr}};
}

// By which transformers finds the class, where config.json names only that of the weights.
std::string ModelTypeOf(const Json& config) {
  const auto list = config.find("architectures");
  const bool is_named =
      list != config.end() && list->is_array() && !list->empty() && list->front().is_string();
  const std::string name = is_named ? list->front().get<std::string>() : "";
  if (name == "MistralForCausalLM") return "mistral";
  return name == "Qwen2ForCausalLM" ? "qwen2" : "llama";
}

Status WriteSynced(const std::string& path, std::string_view bytes) {
  return checkpoint::WriteText(path, bytes).status();
}

class FolderWriter {
 public:
  FolderWriter(const ExportOptions& options, const WholeModel& whole, std::string folder)
      : options_(options), whole_(whole), folder_(std::move(folder)) {}

  // As peft's save_pretrained() leaves them.
  Status WriteAdapters(Exported* exported) {
    Json targets = Json::array();
    for (const std::string& target : whole_.model().lora.targets)
      targets.push_back(target + "_proj");
    const std::string& base = whole_.config().Get("model.path");
    const Json json = {{"peft_type", "LORA"},
                       {"task_type", "CAUSAL_LM"},
                       {"base_model_name_or_path", base.empty() ? Json() : Json(base)},
                       {"r", whole_.model().lora.rank},
                       {"lora_alpha", whole_.model().lora.alpha},
                       {"lora_dropout", 0.0},
                       {"target_modules", targets},
                       {"bias", "none"},
                       {"fan_in_fan_out", false},
                       {"use_rslora", false},
                       {"use_dora", false},
                       {"inference_mode", true}};
    SHARDSCOPE_RETURN_IF_ERROR(WriteSynced(folder_ + "/adapter_config.json", json.dump(2) + "\n"));
    std::vector<plan::Parameter> adapters = model::AllParameters(whole_.model());
    std::erase_if(adapters, [](const auto& one) { return !model::IsAdapter(one.name); });
    exported->num_files = 1;
    return WriteWeights("adapter_model.safetensors", adapters, exported);
  }

  Status Write(Exported* exported) {
    SHARDSCOPE_RETURN_IF_ERROR(CheckTokenizer());
    SHARDSCOPE_RETURN_IF_ERROR(WriteConfig());
    SHARDSCOPE_RETURN_IF_ERROR(
        CopyFile(whole_.config().Get("model.path"), "generation_config.json"));
    for (const char* name : kTokenizerFiles) {
      SHARDSCOPE_RETURN_IF_ERROR(CopyFile(TokenizerFolder(), name));
    }
    const std::vector<std::vector<plan::Parameter>> files = Files();
    Json index = {{"metadata", Json::object()}, {"weight_map", Json::object()}};
    for (size_t file = 0; file < files.size(); ++file) {
      const std::string name = files.size() == 1 ? "model.safetensors"
                                                 : fmt::format("model-{:05}-of-{:05}.safetensors",
                                                               file + 1, files.size());
      SHARDSCOPE_RETURN_IF_ERROR(WriteWeights(name, files[file], exported));
      for (const plan::Parameter& parameter : files[file]) {
        index["weight_map"][model::HuggingFaceName(parameter.name)] = name;
      }
    }
    exported->num_files = std::ssize(files);
    if (files.size() == 1) return Status::Ok();
    index["metadata"]["total_size"] = exported->bytes;
    return WriteSynced(folder_ + "/model.safetensors.index.json", index.dump(2) + "\n");
  }

 private:
  Status WriteConfig() const {
    const std::string& path = whole_.config().Get("model.path");
    Json json = DrawnConfig(whole_.model());
    if (!path.empty()) {
      // It has been parsed already, to know the model.
      SHARDSCOPE_ASSIGN_OR_RETURN(const std::string text,
                                  ReadFile(path + "/config.json", kMostConfigBytes));
      json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
      if (!json.is_object()) return Status::Error(path + "/config.json is no JSON object any more");
    }
    const auto type = json.find("model_type");
    if (type == json.end() || type->is_null()) json["model_type"] = ModelTypeOf(json);
    json.erase("dtype");  // transformers 5 calls it so, and reads the older name too
    json["torch_dtype"] = options_.is_bf16 ? "bfloat16" : "float32";
    return WriteSynced(folder_ + "/config.json", json.dump(2) + "\n");
  }

  // As setup.cc chooses the tokenizer. Empty: there is none.
  std::string TokenizerFolder() const {
    const std::string& tokenizer = whole_.config().Get("data.tokenizer");
    if (tokenizer == "bytes") return "";
    if (tokenizer.empty()) return whole_.config().Get("model.path");
    std::error_code error;
    const fs::path path = fs::absolute(tokenizer, error);
    return fs::is_directory(path, error) ? path.string() : path.parent_path().string();
  }

  // Of what would be copied.
  Status CheckTokenizer() const {
    const std::string folder = TokenizerFolder();
    std::error_code error;
    if (whole_.checkpoint().index().data.tokenizer.empty() || folder.empty() ||
        !fs::exists(folder + "/tokenizer.json", error)) {
      return Status::Ok();
    }
    SHARDSCOPE_ASSIGN_OR_RETURN(const auto tokenizer, tokenizer::Tokenizer::Load(folder));
    return whole_.CheckTokenizer(tokenizer.get(), folder, "the folder would get");
  }

  // Where `from` has it.
  Status CopyFile(const std::string& from, const std::string& name) const {
    std::error_code error;
    if (from.empty() || !fs::exists(from + "/" + name, error)) return Status::Ok();
    SHARDSCOPE_ASSIGN_OR_RETURN(const std::string bytes,
                                ReadFile(from + "/" + name, kMostTokenizerBytes));
    return WriteSynced(folder_ + "/" + name, bytes);
  }

  checkpoint::TensorShape ShapeOf(const plan::Parameter& parameter) const {
    return {model::HuggingFaceName(parameter.name), options_.is_bf16 ? "BF16" : "F32",
            parameter.shape};
  }

  // A parameter is in one file, however large it is.
  std::vector<std::vector<plan::Parameter>> Files() const {
    std::vector<std::vector<plan::Parameter>> files(1);
    int64_t bytes = 0;
    for (plan::Parameter& parameter : model::AllParameters(whole_.model())) {
      if (model::IsAdapter(parameter.name)) continue;  // merged into their weights
      const int64_t more = ShapeOf(parameter).bytes();
      if (bytes > 0 && bytes + more > options_.most_bytes) {
        files.emplace_back();
        bytes = 0;
      }
      bytes += more;
      files.back().push_back(std::move(parameter));
    }
    return files;
  }

  Status WriteWeights(const std::string& name, const std::vector<plan::Parameter>& parameters,
                      Exported* exported) const {
    std::vector<checkpoint::TensorShape> shapes;
    for (const plan::Parameter& parameter : parameters) shapes.push_back(ShapeOf(parameter));
    SHARDSCOPE_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(folder_ + "/" + name));
    SHARDSCOPE_RETURN_IF_ERROR(file.Write(checkpoint::SafetensorsHead(shapes, "pt")));
    for (const plan::Parameter& parameter : parameters) {
      SHARDSCOPE_ASSIGN_OR_RETURN(const at::Tensor values, whole_.ReadMerged(parameter));
      const at::Tensor cast = values.to(options_.is_bf16 ? at::kBFloat16 : at::kFloat);
      SHARDSCOPE_RETURN_IF_ERROR(
          file.Write({static_cast<const char*>(cast.const_data_ptr()), cast.nbytes()}));
      exported->bytes += static_cast<int64_t>(cast.nbytes());
    }
    SHARDSCOPE_RETURN_IF_ERROR(file.Sync());
    return file.Close();
  }

  const ExportOptions& options_;
  const WholeModel& whole_;
  const std::string folder_;
};

Status CheckFree(const std::string& out) {
  std::error_code error;
  if (fs::is_symlink(out, error)) {
    return Status::Error(out + " is a symbolic link: name the folder that it leads to, or another");
  }
  if (!fs::exists(out, error)) return Status::Ok();
  if (fs::is_directory(out, error) && fs::is_empty(out, error)) return Status::Ok();
  return Status::Error(out + " is there already: name a folder that is not, or an empty one");
}

// What was free before is checked again: nothing that has come meanwhile is replaced.
Status Publish(const std::string& partial, const std::string& out) {
  if (rmdir(out.c_str()) != 0 && errno != ENOENT) {
    return Status::Error(fmt::format("cannot replace {}: {}", out, std::strerror(errno)));
  }
  return checkpoint::Publish(partial, out);
}

}  // namespace

Result<Exported> ExportFolder(const ExportOptions& options) {
  const std::string out = checkpoint::CleanedFolder(options.out);
  SHARDSCOPE_RETURN_IF_ERROR(CheckFree(out));
  SHARDSCOPE_ASSIGN_OR_RETURN(const WholeModel whole,
                              WholeModel::Open(options.checkpoint, options.model_folder));
  const checkpoint::Checkpoint& from = whole.checkpoint();
  if (whole.model().kind != model::ModelKind::kLlama) {
    return Status::Error(from.folder() +
                         " is of model.kind=gpt, which Hugging Face's transformers does not have: "
                         "only a llama can be exported");
  }
  if (options.adapters_alone && whole.model().lora.rank == 0) {
    return Status::Error(from.folder() +
                         " has no adapters, as its run had lora.rank=0: export without --adapter");
  }
  Exported exported{.checkpoint = from.folder(), .step = from.index().step};
  const std::string partial = out + ".partial";
  SHARDSCOPE_RETURN_IF_ERROR(checkpoint::CreatePartial(partial, "an export"));
  const OutputFolder removed(partial, out);  // also where LibTorch throws
  FolderWriter writer(options, whole, partial);
  SHARDSCOPE_RETURN_IF_ERROR(options.adapters_alone ? writer.WriteAdapters(&exported)
                                                    : writer.Write(&exported));
  SHARDSCOPE_RETURN_IF_ERROR(Publish(partial, out));
  return exported;
}

}  // namespace shardscope::runtime
