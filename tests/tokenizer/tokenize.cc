// tokenize FOLDER encode|decode|chat|time FILE [TIMES]: engine/tokenizer for its tests and its
// benchmark.
//
// encode: FILE is a JSON list of texts; prints a list of token ids for each, those of the
// post-processor included. decode: FILE is a JSON list of lists of ids; prints the text of each,
// special tokens left out, and then all with them. time: seconds that encoding all texts of FILE
// takes, TIMES times, each with a new Encoder; then decoding what came out.
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/tokenizer/chat_template.h"
#include "engine/tokenizer/tokenizer.h"
#include "trace/base/input_file.h"

namespace shardscope::tokenizer {
namespace {

using Json = nlohmann::json;
using Ids = std::vector<TokenId>;

Result<std::vector<Ids>> EncodeAll(const std::shared_ptr<const Tokenizer>& tokenizer,
                                   const std::vector<std::string>& texts) {
  Encoder encoder(tokenizer);
  std::vector<Ids> all;
  for (const std::string& text : texts) {
    SHARDSCOPE_RETURN_IF_ERROR(encoder.EncodeWhole(text, &all.emplace_back()));
  }
  return all;
}

Json DecodeAll(const Tokenizer& tokenizer, const std::vector<Ids>& all, bool skip_special) {
  Json texts = Json::array();
  for (const Ids& ids : all) texts.push_back(tokenizer.Decode(ids, skip_special));
  return texts;
}

Result<Json> SpansOfAll(const Tokenizer& tokenizer, const Json& conversations) {
  SHARDSCOPE_ASSIGN_OR_RETURN(
      const ChatTemplate chat,
      ChatTemplate::Parse(tokenizer.chat_template(), {tokenizer.bos_text(), tokenizer.eos_text()}));
  Json all = Json::array();
  for (const Json& conversation : conversations) {
    std::vector<Message> messages;
    for (const Json& message : conversation) {
      messages.push_back({{"role", message.at("role").get<std::string>()},
                          {"content", message.at("content").get<std::string>()}});
    }
    SHARDSCOPE_ASSIGN_OR_RETURN(const std::vector<Span> spans, chat.Spans(messages));
    Json& result = all.emplace_back(Json::array());
    for (const Span& span : spans) result.push_back(Json::array({span.text, span.is_answer}));
  }
  return all;
}

template <typename Work>
double Seconds(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Status Run(const std::vector<std::string>& arguments) {
  if (arguments.size() < 3) {
    return Status::Error("usage: tokenize FOLDER encode|decode|chat|time FILE [TIMES]");
  }
  SHARDSCOPE_ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Load(arguments[0]));
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::string file, ReadFile(arguments[2], size_t{1} << 30));
  const Json input = Json::parse(file, nullptr, false);
  if (!input.is_array()) return Status::Error(arguments[2] + " is no list of JSON");
  if (arguments[1] == "decode") {
    const auto all = input.get<std::vector<Ids>>();
    std::cout << Json{DecodeAll(*tokenizer, all, true), DecodeAll(*tokenizer, all, false)} << "\n";
    return Status::Ok();
  }
  if (arguments[1] == "chat") {
    SHARDSCOPE_ASSIGN_OR_RETURN(const Json spans, SpansOfAll(*tokenizer, input));
    std::cout << spans << "\n";
    return Status::Ok();
  }
  const auto texts = input.get<std::vector<std::string>>();
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::vector<Ids> ids, EncodeAll(tokenizer, texts));
  if (arguments[1] == "encode") {
    std::cout << Json(ids) << "\n";
    return Status::Ok();
  }
  Json encode = Json::array();
  Json decode = Json::array();
  for (int i = 0; i < std::stoi(arguments.size() > 3 ? arguments[3] : "1"); ++i) {
    encode.push_back(Seconds([&] { SHARDSCOPE_CHECK(EncodeAll(tokenizer, texts).ok()); }));
    decode.push_back(Seconds([&] { DecodeAll(*tokenizer, ids, true); }));
  }
  std::cout << Json{{"encode", encode}, {"decode", decode}} << "\n";
  return Status::Ok();
}

}  // namespace
}  // namespace shardscope::tokenizer

int main(int count, char** values) {
  const auto status = shardscope::tokenizer::Run({values + 1, values + count});
  if (!status.ok()) std::cerr << status.message() << "\n";
  return status.ok() ? 0 : 1;
}
