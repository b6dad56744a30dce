#include "engine/tokenizer/parse_tokenizer.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "trace/base/hash.h"
#include "trace/base/input_file.h"
#include "trace/base/text.h"

namespace shardscope::tokenizer {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxFileBytes = 256 << 20;
// GPT-2's, which ByteLevel cuts by where it is not told otherwise.
constexpr std::string_view kGpt2Expression =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

bool IsNull(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null();
}

const Json& At(const Json& object, const char* key) {
  static const Json kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(key);
  return found == object.end() ? kNull : *found;
}

std::string TextAt(const Json& object, const char* key) {
  const Json& value = At(object, key);
  return value.is_string() ? value.get<std::string>() : std::string();
}

bool FlagAt(const Json& object, const char* key, bool otherwise) {
  const Json& value = At(object, key);
  return value.is_boolean() ? value.get<bool>() : otherwise;
}

std::string KindOf(const Json& part) {
  const std::string kind = TextAt(part, "type");
  return kind.empty() ? "one without a type" : Printable(kind);
}

Status Unsupported(std::string_view what, std::string_view kind) {
  return Status::Error("its " + std::string(what) + " is " + std::string(kind) +
                       ", which is not supported: only byte-level BPE is (GPT-2, Llama 3, Qwen2)");
}

// Of everything but the merges, which come first, as `merges` is of them.
uint64_t IdsFingerprint(const Json& json, uint64_t merges) {
  const Json& model = At(json, "model");
  uint64_t sum = merges;
  const auto add = [&sum](const Json& part) {
    // Keys are sorted: two files that say the same are the same.
    sum = Fnv1a(part.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n', sum);
  };
  for (const char* part : {"vocab", "ignore_merges", "fuse_unk", "unk_token"}) add(At(model, part));
  for (const char* part : {"normalizer", "added_tokens", "pre_tokenizer", "post_processor"}) {
    add(At(json, part));
  }
  return sum;
}

// The token that tokenizer_config.json names: a text, or an object with it.
std::string NamedToken(const Json& config, const char* key) {
  const Json& value = At(config, key);
  return value.is_object() ? TextAt(value, "content") : TextAt(config, key);
}

}  // namespace

Status TokenizerParser::Parse(const TokenizerFiles& files) {
  const Json json = Json::parse(files.tokenizer, nullptr, false);
  if (!json.is_object() || !At(json, "model").is_object()) {
    return Status::Error("it is no tokenizer.json: an object of JSON with a 'model' is expected");
  }
  SHARDSCOPE_RETURN_IF_ERROR(ReadModel(At(json, "model")));
  SHARDSCOPE_RETURN_IF_ERROR(ReadNormalizer(At(json, "normalizer")));
  SHARDSCOPE_RETURN_IF_ERROR(ReadAddedTokens(At(json, "added_tokens")));
  SHARDSCOPE_RETURN_IF_ERROR(ReadPreTokenizer(At(json, "pre_tokenizer")));
  if (!has_byte_level_) return Unsupported("pre-tokeniser", "without ByteLevel");
  if (KindOf(At(json, "decoder")) != "ByteLevel") {
    return Unsupported("decoder", KindOf(At(json, "decoder")));
  }
  SHARDSCOPE_RETURN_IF_ERROR(ReadPostProcessor(At(json, "post_processor")));
  if (!files.config.empty()) {
    const Json config = Json::parse(files.config, nullptr, false);
    if (!config.is_object()) return Status::Error("tokenizer_config.json is no object of JSON");
    SHARDSCOPE_RETURN_IF_ERROR(ReadConfig(config));
  }
  tokenizer_->folder_ = files.folder;
  tokenizer_->has_config_ = !files.config.empty();
  tokenizer_->is_own_file_ = !files.chat_template.empty();
  if (!files.chat_template.empty()) tokenizer_->chat_template_ = files.chat_template;
  tokenizer_->ids_fingerprint_ = IdsFingerprint(json, tokenizer_->ids_fingerprint_);
  tokenizer_->fingerprint_ = kFnvBasis;
  for (const std::string* text : {&files.tokenizer, &files.config, &files.chat_template}) {
    tokenizer_->fingerprint_ = Fnv1a(*text + '\n', tokenizer_->fingerprint_);
  }
  return Status::Ok();
}

Status TokenizerParser::ReadModel(const Json& model) {
  // Files from before models had a type are of BPE if they have merges.
  const std::string kind =
      IsNull(model, "type") && !IsNull(model, "merges") ? "BPE" : KindOf(model);
  if (kind != "BPE") return Unsupported("model", kind);
  if (FlagAt(model, "byte_fallback", false)) {
    return Unsupported("model", "a SentencePiece BPE (byte_fallback)");
  }
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!TextAt(model, affix).empty())
      return Unsupported("model", std::string("a BPE with ") + affix);
  }
  const Json& vocabulary = At(model, "vocab");
  if (!vocabulary.is_object() || vocabulary.empty()) {
    return Status::Error("its model has no vocabulary ('vocab': tokens with their ids)");
  }
  for (const auto& [written, id] : vocabulary.items()) {
    if (!id.is_number_integer()) {
      return Status::Error("the token '" + Printable(written) + "' has no id that is an integer");
    }
    const bool too_large = id.is_number_unsigned() && id.get<uint64_t>() > uint64_t{kMaxTokenId};
    SHARDSCOPE_RETURN_IF_ERROR(tokenizer_->vocabulary_.Add(
        written, too_large ? int64_t{kMaxTokenId} + 1 : id.get<int64_t>()));
  }
  BpeSettings& settings = tokenizer_->bpe_;
  settings.ignore_merges = FlagAt(model, "ignore_merges", false);
  settings.fuse_unknown = FlagAt(model, "fuse_unk", false);
  if (const std::string unknown = TextAt(model, "unk_token"); !unknown.empty()) {
    settings.unknown = tokenizer_->vocabulary_.IdOfWritten(unknown).value_or(-1);
  }
  const int missing = tokenizer_->vocabulary_.NumMissingBytes();
  if (missing > 0 && settings.unknown < 0) {
    return Status::Error("its vocabulary lacks " + Counted(missing, "token") +
                         " of the 256 single bytes and has no unk_token: text would be lost; train "
                         "it with the alphabet of ByteLevel");
  }
  return ReadMerges(At(model, "merges"));
}

Status TokenizerParser::ReadMerges(const Json& merges) {
  if (!merges.is_array()) return Status::Error("its model has no list of merges");
  std::vector<std::pair<std::string, std::string>> pairs;
  pairs.reserve(merges.size());
  for (const Json& merge : merges) {
    const std::string where = "merge " + std::to_string(pairs.size());
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      pairs.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
    } else if (merge.is_string()) {  // as older files have it
      const auto& text = merge.get_ref<const std::string&>();
      const std::vector<std::string_view> parts = Split(text, ' ');
      if (parts.size() != 2) {
        return Status::Error(where + " is '" + Printable(text) + "', not two tokens and a space");
      }
      pairs.emplace_back(parts[0], parts[1]);
    } else {
      return Status::Error(where + " is neither two tokens nor a text");
    }
  }
  uint64_t& sum = tokenizer_->ids_fingerprint_;
  sum = kFnvBasis;
  for (const auto& [left, right] : pairs)
    sum = Fnv1a("\n", Fnv1a(right, Fnv1a(" ", Fnv1a(left, sum))));
  return tokenizer_->vocabulary_.AddMerges(pairs);
}

Status TokenizerParser::ReadNormalizer(const Json& normalizer) {
  if (normalizer.is_null()) return Status::Ok();
  const std::string kind = KindOf(normalizer);
  if (kind == "NFC") {
    tokenizer_->normalizer_ = Normalizer::kNfc;
  } else if (kind == "Sequence" && At(normalizer, "normalizers").is_array()) {
    for (const Json& part : At(normalizer, "normalizers")) {
      if (KindOf(part) != "NFC") return Unsupported("normaliser", KindOf(part));
      tokenizer_->normalizer_ = Normalizer::kNfc;
    }
  } else {
    return Unsupported("normaliser", kind);
  }
  return Status::Ok();
}

Status TokenizerParser::ReadAddedTokens(const Json& tokens) {
  Tokenizer& result = *tokenizer_;
  if (!tokens.is_null() && !tokens.is_array()) return Status::Error("added_tokens is no list");
  std::vector<AddedToken> read;
  for (const Json& json : tokens) {
    AddedToken token;
    if (!At(json, "content").is_string()) {
      return Status::Error("added_tokens has an entry without a text ('content'): " +
                           Shortened(json.dump(-1, ' ', true, Json::error_handler_t::replace), 80));
    }
    token.text = TextAt(json, "content");
    if (token.text.empty()) continue;
    const Json& id = At(json, "id");
    if (!id.is_number_integer() || (id.is_number_unsigned() && id.get<uint64_t>() > kMaxTokenId)) {
      return Status::Error("the added token '" + Printable(token.text) + "' has no id from 0 to " +
                           std::to_string(kMaxTokenId));
    }
    SHARDSCOPE_RETURN_IF_ERROR(result.vocabulary_.AddText(token.text, id.get<int64_t>()));
    token.id = static_cast<TokenId>(id.get<int64_t>());
    token.special = FlagAt(json, "special", false);
    token.normalized = FlagAt(json, "normalized", !token.special);
    token.lstrip = FlagAt(json, "lstrip", false);
    token.rstrip = FlagAt(json, "rstrip", false);
    token.single_word = FlagAt(json, "single_word", false);
    read.push_back(std::move(token));
  }
  result.special_.resize(static_cast<size_t>(result.num_ids()));
  std::string storage;
  for (const AddedToken& token : read) {
    if (token.special) result.special_[static_cast<size_t>(token.id)] = true;
    if (token.normalized) {
      const std::string_view text = Normalize(result.normalizer_, token.text, &storage);
      if (!text.empty()) result.normalized_tokens_.Insert(text, token);
    } else {
      result.raw_tokens_.Insert(token.text, token);
    }
  }
  return Status::Ok();
}

Status TokenizerParser::ReadPreTokenizer(const Json& part) {
  const std::string kind = part.is_null() ? "none" : KindOf(part);
  if (has_byte_level_) return Status::Error("its pre-tokeniser has " + kind + " behind ByteLevel");
  if (kind == "Sequence" && At(part, "pretokenizers").is_array()) {
    for (const Json& inner : At(part, "pretokenizers")) {
      if (KindOf(inner) == "Sequence")
        return Unsupported("pre-tokeniser", "a Sequence in a Sequence");
      SHARDSCOPE_RETURN_IF_ERROR(ReadPreTokenizer(inner));
    }
    return Status::Ok();
  }
  if (kind == "Split") return ReadSplit(part);
  if (kind == "ByteLevel") return ReadByteLevel(part);
  if (kind == "Digits") {
    SHARDSCOPE_ASSIGN_OR_RETURN(
        Expression digits,
        Expression::Compile(FlagAt(part, "individual_digits", false) ? "\\p{N}" : "\\p{N}+"));
    tokenizer_->steps_.push_back({.expression = std::move(digits)});
    return Status::Ok();
  }
  return Unsupported("pre-tokeniser", kind);
}

Status TokenizerParser::ReadSplit(const Json& part) {
  const Json& pattern = At(part, "pattern");
  const bool is_literal = pattern.is_object() && At(pattern, "String").is_string();
  if (!is_literal && !At(pattern, "Regex").is_string()) {
    return Status::Error("its pre-tokeniser has a Split without a pattern");
  }
  SHARDSCOPE_ASSIGN_OR_RETURN(Expression expression,
                              is_literal ? Expression::Literal(TextAt(pattern, "String"))
                                         : Expression::Compile(TextAt(pattern, "Regex")));
  SplitStep step{.expression = std::move(expression)};
  const std::string behavior = TextAt(part, "behavior");
  if (behavior == "Removed") {
    // Inverted: what matches stays.
    step.keeps_matches = FlagAt(part, "invert", false);
    step.keeps_gaps = !step.keeps_matches;
  } else if (behavior != "Isolated") {
    return Unsupported("pre-tokeniser", "a Split with the behavior '" + Printable(behavior) + "'");
  }
  tokenizer_->steps_.push_back(std::move(step));
  return Status::Ok();
}

Status TokenizerParser::ReadByteLevel(const Json& part) {
  has_byte_level_ = true;
  SplitStep step{.adds_space = FlagAt(part, "add_prefix_space", true)};
  if (FlagAt(part, "use_regex", true)) {
    SHARDSCOPE_ASSIGN_OR_RETURN(Expression expression, Expression::Compile(kGpt2Expression));
    step.expression = std::move(expression);
  }
  if (step.expression || step.adds_space) tokenizer_->steps_.push_back(std::move(step));
  return Status::Ok();
}

Status TokenizerParser::ReadPostProcessor(const Json& part) {
  if (part.is_null()) return Status::Ok();
  const std::string kind = KindOf(part);
  if (kind == "ByteLevel") return Status::Ok();  // moves offsets alone
  if (kind == "TemplateProcessing") return ReadTemplate(part);
  if (kind == "Sequence" && At(part, "processors").is_array()) {
    for (const Json& inner : At(part, "processors")) {
      if (KindOf(inner) == "Sequence")
        return Unsupported("post-processor", "a Sequence in a Sequence");
      SHARDSCOPE_RETURN_IF_ERROR(ReadPostProcessor(inner));
    }
    return Status::Ok();
  }
  return Unsupported("post-processor", kind);
}

Status TokenizerParser::ReadTemplate(const Json& part) {
  const Json& single = At(part, "single");
  std::vector<TokenId> before;
  std::vector<TokenId> behind;
  bool has_text = false;
  if (single.is_array()) {
    for (const Json& piece : single) {
      if (const Json& special = At(piece, "SpecialToken"); special.is_object()) {
        const std::string name = TextAt(special, "id");
        const Json& ids = At(At(At(part, "special_tokens"), name.c_str()), "ids");
        if (!ids.is_array())
          return Status::Error("its template has no ids for '" + Printable(name) + "'");
        for (const Json& id : ids) {
          if (!id.is_number_integer() || id < 0 || id >= tokenizer_->num_ids()) {
            return Status::Error("its template has an id for '" + Printable(name) +
                                 "' that is no token's");
          }
          (has_text ? behind : before).push_back(id.get<TokenId>());
        }
      } else if (TextAt(At(piece, "Sequence"), "id") == "A" && !has_text) {
        has_text = true;
      } else {
        return Status::Error("its template of a single text is not understood");
      }
    }
  }
  if (!has_text) return Status::Error("its template of a single text has no text in it");
  // Several templates in a row: each puts its tokens around what the one before it made.
  Tokenizer& result = *tokenizer_;
  result.prefix_.insert(result.prefix_.begin(), before.begin(), before.end());
  result.suffix_.insert(result.suffix_.end(), behind.begin(), behind.end());
  return Status::Ok();
}

Status TokenizerParser::ReadConfig(const Json& config) {
  Tokenizer& result = *tokenizer_;
  result.bos_text_ = NamedToken(config, "bos_token");
  result.eos_text_ = NamedToken(config, "eos_token");
  if (!result.eos_text_.empty()) {
    result.eos_ = result.vocabulary_.IdOfWritten(result.eos_text_);
    if (!result.eos_) {
      return Status::Error("tokenizer_config.json: eos_token '" + Printable(result.eos_text_) +
                           "' is not in the vocabulary");
    }
  }
  const Json& chat = At(config, "chat_template");
  if (chat.is_string()) {
    result.chat_template_ = chat.get<std::string>();
  } else if (chat.is_array()) {  // several, with names
    for (const Json& named : chat) {
      if (TextAt(named, "name") == "default") result.chat_template_ = TextAt(named, "template");
    }
  }
  return Status::Ok();
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::Parse(const TokenizerFiles& files) {
  TokenizerParser parser;
  SHARDSCOPE_RETURN_IF_ERROR(parser.Parse(files));
  return parser.Take();
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::Load(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code unreachable;
  const fs::path file =
      fs::is_directory(path, unreachable) ? fs::path(path) / "tokenizer.json" : fs::path(path);
  TokenizerFiles files{.folder = file.parent_path().string()};
  SHARDSCOPE_ASSIGN_OR_RETURN(files.tokenizer, ReadFile(file.string(), kMaxFileBytes));
  const auto read_if_there = [&](const char* name, std::string* text) -> Status {
    const fs::path beside = file.parent_path() / name;
    std::error_code error;
    if (!fs::exists(beside, error)) return Status::Ok();
    SHARDSCOPE_ASSIGN_OR_RETURN(*text, ReadFile(beside.string(), kMaxFileBytes));
    return Status::Ok();
  };
  SHARDSCOPE_RETURN_IF_ERROR(read_if_there("tokenizer_config.json", &files.config));
  SHARDSCOPE_RETURN_IF_ERROR(read_if_there("chat_template.jinja", &files.chat_template));
  Result<std::shared_ptr<const Tokenizer>> tokenizer = Parse(files);
  if (!tokenizer.ok()) return Status::Error(file.string() + ": " + tokenizer.message());
  return tokenizer;
}

}  // namespace shardscope::tokenizer
