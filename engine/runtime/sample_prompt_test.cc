// What of a prompt a model sees.
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/model/byte_tokenizer_test_util.h"
#include "engine/runtime/sample.h"

namespace shardscope::runtime {
namespace {

constexpr int64_t kTokensOfBytes = 259;

TextSampler SamplerWith(const tokenizer::TokenizerFiles& files, int64_t vocab = kTokensOfBytes) {
  const model::ModelConfig config{.layers = 1, .dim = 16, .heads = 2, .seq = 24, .vocab = vocab};
  const auto parsed = tokenizer::Tokenizer::Parse(files);
  EXPECT_TRUE(parsed.ok()) << parsed.message();
  return {config, model::InitialParameters(config, plan::DType::kFp32, 3), *parsed};
}

TEST(PromptTest, NothingComesBetweenItAndWhatFollows) {
  tokenizer::TokenizerFiles files = model::ByteTokenizer();
  auto json = nlohmann::json::parse(files.tokenizer);
  json["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", {{{"Sequence", {{"id", "A"}}}}, {{"SpecialToken", {{"id", "<a>"}}}}}},
      {"special_tokens", {{"<a>", {{"ids", {kTokensOfBytes - 1}}}}}}};
  const Result<std::string> plain =
      SamplerWith(files, kTokensOfBytes - 1).Continue("the ", {.tokens = 8});
  files.tokenizer = json.dump();
  // The model does not have what the tokenizer puts behind a whole text.
  const Result<std::string> text =
      SamplerWith(files, kTokensOfBytes - 1).Continue("the ", {.tokens = 8});
  ASSERT_TRUE(text.ok()) << text.message();
  EXPECT_EQ(*text, *plain);
}

TEST(PromptTest, WhatAUserSaysGoesThroughTheChatTemplate) {
  tokenizer::TokenizerFiles files = model::ByteTokenizer();
  const TextSampler sampler = SamplerWith(files);
  const Result<std::string> answer = sampler.Continue("hi", {.tokens = 8, .is_chat = true});
  ASSERT_TRUE(answer.ok()) << answer.message();
  EXPECT_EQ(*answer, *sampler.Continue("<u>hi\n<a>", {.tokens = 8}));

  const auto error_of = [](const TextSampler& from) {
    return from.Continue("hi", {.is_chat = true}).message();
  };
  files.config = R"({"eos_token": "<e>"})";
  EXPECT_NE(error_of(SamplerWith(files)).find("--chat needs a chat template, and"),
            std::string::npos);
  files.chat_template = "{{ raise_exception('no users') }}";
  EXPECT_NE(error_of(SamplerWith(files)).find("no users"), std::string::npos);
  const model::ModelConfig bytes{.layers = 1, .dim = 16, .heads = 2, .seq = 24};
  const TextSampler of_bytes(bytes, model::InitialParameters(bytes, plan::DType::kFp32, 3),
                             nullptr);
  EXPECT_NE(error_of(of_bytes).find("--chat: the model's tokens are bytes"), std::string::npos);
}

}  // namespace
}  // namespace shardscope::runtime
