// A tokenizer of bytes for tests, with a chat template.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/vocabulary.h"

namespace shardscope::model {

// Ids 0 to 255 are the bytes; then <e>, which ends a text, <u> and <a>, which begin what a user and
// what the assistant says.
inline tokenizer::TokenizerFiles ByteTokenizer() {
  using Json = nlohmann::json;
  Json vocabulary;
  for (uint32_t point = 0x21; point < 0x144; ++point) {
    std::string written(1, static_cast<char>(point));
    if (point >= 0x80) {
      written = {static_cast<char>(0xc0 | point >> 6), static_cast<char>(0x80 | (point & 0x3f))};
    }
    const auto bytes = tokenizer::BytesOfWritten(written);
    if (bytes) vocabulary[written] = static_cast<unsigned char>(bytes->front());
  }
  Json added = Json::array();
  for (const char* text : {"<e>", "<u>", "<a>"}) {
    added.push_back({{"id", 256 + added.size()}, {"content", text}, {"special", true}});
  }
  const Json json = {
      {"added_tokens", added},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", Json::array()}}}};
  const Json config = {
      {"eos_token", "<e>"},
      {"chat_template",
       "{% for m in messages %}{{ ('<a>' if m.role == 'assistant' else '<u>') + m.content + '\n' }}"
       "{% endfor %}{% if add_generation_prompt %}<a>{% endif %}"}};
  return {.tokenizer = json.dump(), .config = config.dump(), .chat_template = ""};
}

}  // namespace shardscope::model
