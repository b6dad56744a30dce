// Folders in Hugging Face's layout, good and bad.
#include "engine/model/weight_folder.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "engine/model/counting_source_test_util.h"
#include "engine/model/huggingface.h"
#include "engine/model/reference_model.h"
#include "engine/model/safetensors.h"
#include "engine/model/segments.h"

namespace shardscope::model {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

class FolderTest : public testing::Test {
 protected:
  FolderTest() : folder_(fs::temp_directory_path() / ("folder-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
    WriteConfig();
  }
  ~FolderTest() override { fs::remove_all(folder_); }

  void WriteConfig() const { Write("config.json", config_.dump()); }
  void Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  std::string Bytes(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(folder_ / name, std::ios::binary).rdbuf();
    return text.str();
  }

  Result<ModelConfig> Config(int64_t seq = 16) const {
    return ReadFolderConfig(folder_.string(), seq);
  }
  std::string ConfigError() const {
    WriteConfig();
    const Result<ModelConfig> config = Config();
    return config.ok() ? "no error" : config.message();
  }

  // Of the config: all parameters, or those that `takes` says, drawn.
  void WriteWeights(const std::string& name, at::ScalarType type = at::kFloat,
                    const std::function<bool(const std::string&)>& takes = {}) const {
    SafetensorsWriter writer;
    for (const auto& [parameter, tensor] : Drawn()) {
      const std::string theirs = HuggingFaceName(parameter);
      if (!takes || takes(theirs)) writer.Add(theirs, tensor.to(type));
    }
    ASSERT_TRUE(writer.Write((folder_ / name).string()).ok());
  }
  ParameterMap Drawn() const { return InitialParameters(*Config(), plan::DType::kFp32, 3); }

  auto Open() const { return WeightFolder::Open(folder_.string(), *Config()); }
  std::string OpenError() const {
    const auto weights = Open();
    return weights.ok() ? "no error" : weights.message();
  }

  // A file with this header and so many bytes behind it.
  void WriteRaw(const std::string& header, size_t num_bytes, uint64_t stated = 0) const {
    const uint64_t length = stated > 0 ? stated : header.size();
    std::string bytes(sizeof(length), '\0');
    std::memcpy(bytes.data(), &length, sizeof(length));
    Write("model.safetensors", bytes + header + std::string(num_bytes, '\0'));
  }

  const fs::path folder_;
  json config_ = {{"architectures", {"LlamaForCausalLM"}},
                  {"hidden_size", 24},
                  {"intermediate_size", 40},
                  {"num_hidden_layers", 2},
                  {"num_attention_heads", 4},
                  {"num_key_value_heads", 2},
                  {"vocab_size", 50},
                  {"hidden_act", "silu"},
                  {"rms_norm_eps", 1e-6},
                  {"tie_word_embeddings", false}};
};

TEST_F(FolderTest, ReadsWhatConfigJsonSays) {
  const Result<ModelConfig> plain = Config();
  ASSERT_TRUE(plain.ok()) << plain.message();
  EXPECT_EQ(*plain, (ModelConfig{.layers = 2,
                                 .dim = 24,
                                 .heads = 4,
                                 .seq = 16,
                                 .kind = ModelKind::kLlama,
                                 .kv_heads = 2,
                                 .ffn = 40,
                                 .vocab = 50,
                                 .norm_epsilon = 1e-6}));
  config_["architectures"] = {"Qwen2ForCausalLM"};
  config_["head_dim"] = 8;
  config_["tie_word_embeddings"] = true;
  config_["rope_theta"] = 500000;
  config_["rope_scaling"] = {{"rope_type", "llama3"},
                             {"factor", 8},
                             {"low_freq_factor", 1},
                             {"high_freq_factor", 4},
                             {"original_max_position_embeddings", 32}};
  WriteConfig();
  const Result<ModelConfig> all = Config();
  ASSERT_TRUE(all.ok()) << all.message();
  EXPECT_TRUE(all->qkv_bias && all->tied);
  EXPECT_EQ(all->head_dim(), 8);
  EXPECT_EQ(all->rope_theta, 500000);
  EXPECT_EQ(all->rope_scaling, (RopeScaling{8, 1, 4, 32}));
  // The same as transformers 5 writes it.
  config_["rope_parameters"] = config_["rope_scaling"];
  config_["rope_parameters"]["rope_theta"] = config_["rope_theta"];
  config_.erase("rope_theta");
  config_.erase("rope_scaling");
  WriteConfig();
  EXPECT_EQ(*Config(), *all);
  EXPECT_EQ(all->most_positions, 0);
  config_["max_position_embeddings"] = 8192;
  WriteConfig();
  EXPECT_EQ(Config()->most_positions, 8192);
}

TEST_F(FolderTest, KeyValueHeadsThatAreNotNamedAreThoseOfTransformers) {
  config_["num_attention_heads"] = 64;
  config_["head_dim"] = 2;
  for (const auto& [architecture, heads] :
       {std::pair{"LlamaForCausalLM", 64}, {"MistralForCausalLM", 8}, {"Qwen2ForCausalLM", 32}}) {
    config_["architectures"] = json::array({architecture});
    config_.erase("num_key_value_heads");
    EXPECT_EQ(ConfigError(), "no error");
    EXPECT_EQ(Config()->kv_heads, heads) << architecture;
    config_["num_key_value_heads"] = nullptr;
    EXPECT_EQ(ConfigError(), "no error");
    EXPECT_EQ(Config()->kv_heads, 64) << architecture;
  }
}

TEST_F(FolderTest, WhatNoKeySaysHasTheNamesOfConfigJson) {
  const ModelConfig plain;
  EXPECT_EQ(FieldsBesideKeys(plain).at("rope_theta"), "10000");
  EXPECT_FALSE(FieldsBesideKeys(plain).contains("rope_scaling.factor"));
  const auto differs = [&](const char* field, const ModelConfig& other) {
    EXPECT_NE(FieldsBesideKeys(other), FieldsBesideKeys(plain)) << field;
    EXPECT_TRUE(FieldsBesideKeys(other).contains(field)) << field;
  };
  differs("rope_theta", {.rope_theta = 500000});
  differs("rms_norm_eps", {.norm_epsilon = 1e-6});
  differs("tie_word_embeddings", {.tied = true});
  differs("biases of q, k and v", {.qkv_bias = true});
  differs("head_dim", {.stated_head_dim = 64});
  differs("rope_scaling.factor", {.rope_scaling = RopeScaling{}});
}

TEST_F(FolderTest, FieldsThatCannotBeTrainedAreNamed) {
  const json good = config_;
  const std::tuple<const char*, json, const char*> cases[] = {
      {"architectures", {"GPT2LMHeadModel"}, "Qwen2ForCausalLM"},
      {"architectures", nullptr, "LlamaForCausalLM"},
      {"hidden_act", "gelu", "silu"},
      {"attention_bias", true, "Qwen2"},
      {"mlp_bias", true, "no biases"},
      {"attention_dropout", 0.1, "dropout"},
      {"quantization_config", {{"bits", 4}}, "BF16"},
      {"hidden_size", "24", "whole number"},
      {"hidden_size", -24, "whole number"},
      {"hidden_size", 1e30, "whole number"},
      {"vocab_size", int64_t{1} << 40, "whole number from 1 to 2147483647"},
      {"vocab_size", nullptr, "missing"},
      {"num_key_value_heads", 3, "num_attention_heads=4"},
      {"num_attention_heads", 5, "num_attention_heads"},
      {"head_dim", 3, "even"},
      {"tie_word_embeddings", "no", "true nor false"},
      {"rms_norm_eps", 0, "positive"},
      {"rope_scaling", 7, "object"},
      {"rope_scaling", {{"type", "yarn"}}, "llama3"},
      {"rope_scaling", {{"rope_type", "llama3"}}, "original_max_position_embeddings"}};
  for (const auto& [field, value, remedy] : cases) {
    config_ = good;
    config_[field] = value;
    const std::string error = ConfigError();
    EXPECT_THAT(error, HasSubstr("config.json: ")) << field;
    EXPECT_THAT(error, HasSubstr(remedy)) << field;
    if (!value.is_object()) {
      EXPECT_THAT(error, HasSubstr(field));
    }
  }
  config_ = good;
  config_["architectures"] = {"MistralForCausalLM"};
  config_["sliding_window"] = 16;
  EXPECT_EQ(ConfigError(), "no error");
  config_["sliding_window"] = 15;
  EXPECT_THAT(ConfigError(), HasSubstr("sliding_window=15 is shorter than model.seq=16"));
  config_["sliding_window"] = nullptr;
  EXPECT_EQ(ConfigError(), "no error");
  EXPECT_TRUE(Config(5000).ok());
  config_.erase("sliding_window");
  EXPECT_EQ(ConfigError(), "no error");
  EXPECT_THAT(Config(5000).message(), HasSubstr("sliding_window=4096 is shorter than model.seq"));
  Write("config.json", "{\"architectures\": [");
  EXPECT_THAT(Config().message(), HasSubstr("no JSON object"));
  Write("config.json", std::string(100000, '['));
  EXPECT_THAT(Config().message(), HasSubstr("no JSON object"));
  fs::remove(folder_ / "config.json");
  EXPECT_THAT(Config().message(), HasSubstr("Hugging Face"));
}

TEST_F(FolderTest, EveryElementIsReadAsTheTypeHasIt) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    WriteWeights("model.safetensors", type);
    const auto weights = Open();
    ASSERT_TRUE(weights.ok()) << weights.message();
    for (const plan::DType master :
         {plan::DType::kFp32, plan::DType::kFp64, plan::DType::kBf16, plan::DType::kFp16}) {
      const CountingSource source(*weights);
      int64_t elements = 0;
      const ParameterMap read = InitialParameters(*Config(), master, source);
      for (const auto& [name, tensor] : Drawn()) {
        const at::Tensor stored = tensor.to(type);
        EXPECT_TRUE(read.at(name).equal(stored.to(ScalarTypeOf(master)))) << name;
        elements += stored.numel();
      }
      EXPECT_EQ(source.elements_read(), elements);
    }
  }
}

TEST_F(FolderTest, AnyPartOfAParameterIsReadAloneAnnouncedOrNot) {
  config_["vocab_size"] = 60000;  // so that the embedding is read in several pieces
  WriteConfig();
  WriteWeights("model.safetensors", at::kBFloat16);
  const auto weights = Open();
  ASSERT_TRUE(weights.ok()) << weights.message();
  const at::Tensor whole = Drawn().at(kEmbeddingWeight).to(at::kBFloat16).to(at::kFloat).view({-1});
  ASSERT_GT(whole.numel(), 1 << 20);
  const plan::Parameter parameter{kEmbeddingWeight, {60000, 24}};
  for (const auto& [first, count] : {std::pair<int64_t, int64_t>{0, whole.numel()},
                                     {12'345, 1},
                                     {99, (1 << 20) + 7},
                                     {whole.numel() - 5, 5}}) {
    const at::Tensor part = at::empty({count}, at::kFloat);
    if (first % 2 != 0) (*weights)->WillRead(parameter, first, count);
    (*weights)->Read(parameter, first, part);
    EXPECT_TRUE(part.equal(whole.narrow(0, first, count))) << first;
  }
}

// Of a file, in the process's memory.
int64_t ResidentBytesOf(const std::string& path) {
  std::ifstream maps("/proc/self/smaps");
  int64_t bytes = 0;
  bool is_file = false;
  for (std::string line; std::getline(maps, line);) {
    const bool is_field = std::isupper(static_cast<unsigned char>(line.front())) != 0;
    if (!is_field) is_file = line.ends_with(path);
    if (is_file && line.starts_with("Rss:")) bytes += std::stoll(line.substr(4)) << 10;
  }
  return bytes;
}

TEST_F(FolderTest, WhatWasReadInPartsLeavesMemory) {
  config_["vocab_size"] = 60000;
  WriteConfig();
  WriteWeights("model.safetensors", at::kBFloat16);
  const auto weights = Open();
  ASSERT_TRUE(weights.ok()) << weights.message();
  const plan::Parameter parameter{kEmbeddingWeight, {60000, 24}};
  constexpr int64_t kElements = 60000 * 24;
  for (int64_t first = 0; first < kElements; first += 24) {  // half of each row
    (*weights)->Read(parameter, first, at::empty({12}, at::kFloat));
  }
  const std::string path = fs::canonical(folder_ / "model.safetensors").string();
  EXPECT_GT(ResidentBytesOf(path), kElements);  // of twice as many bytes
  (*weights)->HasRead(parameter, 0, kElements);
  EXPECT_LT(ResidentBytesOf(path), kElements / 4);
}

TEST_F(FolderTest, AnElementThatIsNoNumberIsCountedFromTheParametersBegin) {
  constexpr int64_t kBroken = 1'300'000, kFirst = 200'000;
  config_["vocab_size"] = 60000;
  WriteConfig();
  SafetensorsWriter writer;
  for (const auto& [name, tensor] : Drawn()) {
    const at::Tensor changed = tensor.clone();
    if (name == kEmbeddingWeight) changed.mutable_data_ptr<float>()[kBroken] = HUGE_VALF;
    writer.Add(HuggingFaceName(name), changed);
  }
  ASSERT_TRUE(writer.Write((folder_ / "model.safetensors").string()).ok());
  const auto weights = Open();
  ASSERT_TRUE(weights.ok()) << weights.message();
  const plan::Parameter parameter{kEmbeddingWeight, {60000, 24}};
  (*weights)->Read(parameter, kFirst, at::empty({kBroken - kFirst}, at::kHalf));
  std::string error;
  try {
    (*weights)->Read(parameter, kFirst, at::empty({kBroken - kFirst + 1}, at::kHalf));
  } catch (const std::exception& thrown) {
    error = thrown.what();
  }
  EXPECT_THAT(error, HasSubstr("has inf at element 1300000:"));
}

TEST_F(FolderTest, AnElementThatIsNoNumberIsNamedWhereItIsRead) {
  const auto is_norm = [](const std::string& name) { return name == "model.norm.weight"; };
  for (const auto& [value, text] : {std::pair(std::nan(""), "nan"), std::pair(HUGE_VAL, "inf")}) {
    SafetensorsWriter writer;
    for (const auto& [parameter, tensor] : Drawn()) {
      const at::Tensor changed = tensor.clone();
      const std::string theirs = HuggingFaceName(parameter);
      if (is_norm(theirs)) changed.mutable_data_ptr<float>()[5] = static_cast<float>(value);
      writer.Add(theirs, changed);
    }
    ASSERT_TRUE(writer.Write((folder_ / "model.safetensors").string()).ok());
    const auto weights = Open();
    ASSERT_TRUE(weights.ok()) << weights.message();
    std::string error;
    try {
      (void)InitialParameters(*Config(), plan::DType::kFp32, **weights);
    } catch (const std::exception& thrown) {
      error = thrown.what();
    }
    EXPECT_THAT(error, HasSubstr(std::string("model.safetensors: tensor model.norm.weight has ") +
                                 text + " at element 5"));
    EXPECT_TRUE(error.starts_with("model.path: ")) << error;
  }
}

TEST_F(FolderTest, SeveralFilesAreOneModel) {
  const auto is_first = [](const std::string& name) { return name.find("layers.0") != name.npos; };
  WriteWeights("a.safetensors", at::kFloat, is_first);
  WriteWeights("b.safetensors", at::kFloat, [&](const auto& name) { return !is_first(name); });
  json index = {{"metadata", {{"total_size", 1}}}};
  for (const auto& [name, tensor] : Drawn()) {
    const std::string theirs = HuggingFaceName(name);
    index["weight_map"][theirs] = is_first(theirs) ? "a.safetensors" : "b.safetensors";
  }
  const auto write_index = [&] { Write("model.safetensors.index.json", index.dump()); };
  write_index();
  EXPECT_EQ(OpenError(), "no error");
  const json good = index;
  index["weight_map"]["model.norm.weight"] = "a.safetensors";
  write_index();
  EXPECT_THAT(OpenError(), HasSubstr("a.safetensors has no tensor model.norm.weight"));
  index["weight_map"]["model.norm.weight"] = "c.safetensors";
  write_index();
  EXPECT_THAT(OpenError(), HasSubstr("c.safetensors: No such file"));
  index["weight_map"]["model.norm.weight"] = "../c.safetensors";
  write_index();
  EXPECT_THAT(OpenError(), HasSubstr("names no file of the folder for model.norm.weight"));
  index = good;
  write_index();
  WriteWeights("a.safetensors");
  EXPECT_THAT(OpenError(), HasSubstr("is in both"));
  Write("model.safetensors.index.json", "[]");
  EXPECT_THAT(OpenError(), HasSubstr("weight_map"));
}

TEST_F(FolderTest, TensorsThatDoNotFitTheConfigAreNamed) {
  EXPECT_THAT(OpenError(), HasSubstr("neither model.safetensors nor"));
  WriteWeights("model.safetensors", at::kFloat,
               [](const std::string& name) { return name != "lm_head.weight"; });
  EXPECT_THAT(OpenError(), HasSubstr("has no tensor lm_head.weight"));
  // A model whose head is tied needs none, and may have it all the same.
  config_["tie_word_embeddings"] = true;
  WriteConfig();
  EXPECT_EQ(OpenError(), "no error");
  config_["tie_word_embeddings"] = false;
  WriteConfig();
  WriteWeights("model.safetensors");
  config_["tie_word_embeddings"] = true;
  WriteConfig();
  EXPECT_EQ(OpenError(), "no error");
  config_["tie_word_embeddings"] = false;
  config_["intermediate_size"] = 44;
  WriteConfig();
  EXPECT_THAT(OpenError(),
              HasSubstr("mlp.gate_proj.weight is [40, 24], its config.json implies [44, 24]"));
  config_["intermediate_size"] = 40;
  config_["architectures"] = {"Qwen2ForCausalLM"};
  WriteConfig();
  EXPECT_THAT(OpenError(), HasSubstr("has no tensor model.layers.0.self_attn.q_proj.bias"));
  WriteWeights("model.safetensors");
  config_["architectures"] = {"LlamaForCausalLM"};
  WriteConfig();
  EXPECT_THAT(OpenError(), HasSubstr("k_proj.bias, which a model of its config.json does not"));
  WriteWeights("model.safetensors", at::kLong);
  EXPECT_THAT(OpenError(), HasSubstr("is I64: weights have to be F32, F16 or BF16"));
}

TEST_F(FolderTest, DamagedFilesAreNamedWithWhatIsWrong) {
  WriteWeights("model.safetensors");
  const std::string good = Bytes("model.safetensors");
  Write("model.safetensors", good.substr(0, good.size() - 1));
  EXPECT_THAT(OpenError(), HasSubstr("perhaps cut short"));
  Write("model.safetensors", good + "x");
  EXPECT_THAT(OpenError(), HasSubstr("1 bytes after the last tensor"));
  Write("model.safetensors", good.substr(0, 100));
  EXPECT_THAT(OpenError(), HasSubstr("it has 100 bytes and says that its header has"));
  Write("model.safetensors", "1234567");
  EXPECT_THAT(OpenError(), HasSubstr("shorter than 8 bytes"));
  fs::remove(folder_ / "model.safetensors");
  fs::create_directory(folder_ / "model.safetensors");
  EXPECT_THAT(OpenError(), HasSubstr("model.safetensors"));
  fs::remove(folder_ / "model.safetensors");
  const std::string a = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  const auto error = [&](const std::string& header, size_t num_bytes = 8) {
    WriteRaw(header, num_bytes);
    return OpenError();
  };
  WriteRaw("{}", 0, 10'000'000'000);
  EXPECT_THAT(OpenError(), HasSubstr("says that its header has 10000000000"));
  EXPECT_THAT(error("{\"a\":"), HasSubstr("no JSON"));
  EXPECT_THAT(error("[]"), HasSubstr("no JSON object"));
  EXPECT_THAT(error(std::string(1 << 20, '[')), HasSubstr("no JSON"));
  EXPECT_THAT(error("{" + a + "," + a + "}"), HasSubstr("has the tensor a twice"));
  EXPECT_THAT(error(R"({"a":7})"), HasSubstr("tensor a is no object"));
  EXPECT_THAT(error(R"({"a\nb":7})"), HasSubstr("tensor a b is no object"));
  EXPECT_THAT(error(R"({"a\nb":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})").find('\n'),
              std::string::npos);
  EXPECT_THAT(error(R"({"a":{"shape":[2],"data_offsets":[0,8]}})"), HasSubstr("has no dtype"));
  EXPECT_THAT(error(R"({"a":{"dtype":"F33","shape":[2],"data_offsets":[0,8]}})"),
              HasSubstr("unknown dtype F33"));
  EXPECT_THAT(error(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})"),
              HasSubstr("no shape of whole numbers"));
  EXPECT_THAT(error(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})"),
              HasSubstr("not what its shape and dtype F32 take"));
  EXPECT_THAT(
      error(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})"),
      HasSubstr("not what its shape"));
  for (const char* offsets : {"[0,16]", "[8,0]", "[0]", "[0,18446744073709551615]", "7"}) {
    EXPECT_THAT(
        error(std::string(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":)") + offsets + "}}"),
        HasSubstr("data_offsets outside of the file"))
        << offsets;
  }
  EXPECT_THAT(error("{" + a + R"(,"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 12),
              HasSubstr("tensor b overlaps another"));
  EXPECT_THAT(error("{" + a + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[12,16]}})", 16),
              HasSubstr("a gap before tensor b"));
}

}  // namespace
}  // namespace shardscope::model
