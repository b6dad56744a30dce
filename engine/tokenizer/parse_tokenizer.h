// TokenizerParser: a Tokenizer from the text of tokenizer.json and tokenizer_config.json.
#pragma once

#include <memory>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "engine/tokenizer/tokenizer.h"
#include "trace/base/status.h"

namespace shardscope::tokenizer {

// For one Tokenizer. Errors say which part of which file, and what is wrong with it.
class TokenizerParser {
 public:
  TokenizerParser() : tokenizer_(std::make_shared<Tokenizer>()) {}

  Status Parse(const TokenizerFiles& files);
  // After Parse() was right.
  std::shared_ptr<const Tokenizer> Take() { return std::move(tokenizer_); }

 private:
  using Json = nlohmann::json;

  Status ReadModel(const Json& model);
  Status ReadMerges(const Json& merges);
  Status ReadNormalizer(const Json& normalizer);
  Status ReadAddedTokens(const Json& tokens);
  Status ReadPreTokenizer(const Json& part);
  Status ReadSplit(const Json& part);
  Status ReadByteLevel(const Json& part);
  Status ReadPostProcessor(const Json& part);
  Status ReadTemplate(const Json& part);
  Status ReadConfig(const Json& config);

  std::shared_ptr<Tokenizer> tokenizer_;
  bool has_byte_level_ = false;  // the last step of the pre-tokeniser
};

}  // namespace shardscope::tokenizer
