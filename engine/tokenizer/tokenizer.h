// Tokenizer: text as token ids and back, from a Hugging Face folder. Gives the ids that the package
// `tokenizers` gives.
//
// Note: Kinds. Byte-level BPE, as GPT-2, Llama 3 and Qwen2 have it: a pre-tokeniser of Split,
// Digits and ByteLevel, NFC or no normaliser, added tokens, a TemplateProcessing that puts tokens
// before and behind a text. Any other kind is an error that names it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/bpe.h"
#include "engine/tokenizer/text_steps.h"
#include "engine/tokenizer/vocabulary.h"
#include "trace/base/status.h"

namespace shardscope::tokenizer {

// A folder's files, as text. Only the first has to be there.
struct TokenizerFiles {
  std::string tokenizer;  // tokenizer.json
  std::string config;     // tokenizer_config.json: which token ends a document, the chat template
  std::string chat_template;  // chat_template.jinja, which comes before that of the config
  std::string folder = "";    // where they are, for errors
};

// Immutable. Threads: any; each encodes with an Encoder of its own.
class Tokenizer {
 public:
  // `path`: a folder with tokenizer.json, or that file. Errors name the file and what is wrong with
  // it.
  static Result<std::shared_ptr<const Tokenizer>> Load(const std::string& path);
  static Result<std::shared_ptr<const Tokenizer>> Parse(const TokenizerFiles& files);

  // The largest id and one.
  int32_t num_ids() const { return vocabulary_.num_ids(); }
  std::optional<TokenId> IdOf(std::string_view token) const {
    return vocabulary_.IdOfWritten(token);
  }

  // Ids that no token has are left out, and special ones if `skip_special`; bytes that are no UTF-8
  // become U+FFFD.
  std::string Decode(std::span<const TokenId> ids, bool skip_special) const;
  // What a token stands for.
  std::string_view BytesOf(TokenId id) const { return vocabulary_.BytesOf(id); }

  // Of tokenizer_config.json; nothing where it says none.
  std::optional<TokenId> eos() const { return eos_; }
  const std::string& bos_text() const { return bos_text_; }
  const std::string& eos_text() const { return eos_text_; }
  const std::string& chat_template() const { return chat_template_; }
  // For errors: where eos() and chat_template() are read from, there or not.
  std::string config_path() const { return PathOf("tokenizer_config.json"); }
  std::string chat_template_path() const {
    return is_own_file_ ? PathOf("chat_template.jinja") : config_path();
  }
  bool has_config() const { return has_config_; }

  // A checksum of everything that decides about ids: two that are equal encode alike.
  uint64_t fingerprint() const { return fingerprint_; }
  // The same of what tokenizer.json says of text and ids alone: however that file is laid out, and
  // whatever end of text and chat template stand beside it.
  uint64_t ids_fingerprint() const { return ids_fingerprint_; }

 private:
  std::string PathOf(const char* name) const {
    return folder_.empty() ? name : folder_ + "/" + name;
  }

  friend class Encoder;
  friend class TokenizerParser;

  Vocabulary vocabulary_;
  BpeSettings bpe_;
  Normalizer normalizer_ = Normalizer::kNone;
  AddedTokens raw_tokens_;         // looked for in the text as it is
  AddedTokens normalized_tokens_;  // and after it is normalised
  std::vector<bool> special_;      // by id
  std::vector<SplitStep> steps_;
  std::vector<TokenId> prefix_;  // of TemplateProcessing
  std::vector<TokenId> suffix_;
  std::optional<TokenId> eos_;
  std::string bos_text_;
  std::string eos_text_;
  std::string chat_template_;
  std::string folder_;
  bool has_config_ = false;
  bool is_own_file_ = false;  // the chat template: of chat_template.jinja
  uint64_t fingerprint_ = 0;
  uint64_t ids_fingerprint_ = 0;
};

// One thread at a time; keeps what frequent words became.
class Encoder {
 public:
  explicit Encoder(std::shared_ptr<const Tokenizer> tokenizer);

  // Appends the ids of `text`. Error: it is no UTF-8 (with the place), or an expression that gave
  // up.
  Status Encode(std::string_view text, std::vector<TokenId>* ids);
  // The same, and of each token the bytes of `text` that it is of, appended to `extents`, which is
  // as long as `ids`: white space that an added token takes with it, too; characters that become
  // one when the text is normalised are all of its token. A space that the pre-tokeniser adds is of
  // no byte.
  Status EncodeWithExtents(std::string_view text, std::vector<TokenId>* ids,
                           std::vector<Extent>* extents);
  // As Encode(), between the tokens that the post-processor puts before and behind a text.
  Status EncodeWhole(std::string_view text, std::vector<TokenId>* ids);
  // The same of a text that goes on: without the tokens behind it.
  Status EncodeBeginning(std::string_view text, std::vector<TokenId>* ids);

  // From now on called every few thousand words with how many bytes of the text that is encoded
  // are tokens by now, about, as its normal form may be longer or shorter.
  using Progress = std::function<void(size_t bytes)>;
  void OnProgress(Progress on_progress) { on_progress_ = std::move(on_progress); }

 private:
  Status EncodeNormalized(std::string_view text, std::vector<TokenId>* ids);
  // What becomes of `piece`, which is at byte `start` of the normal form, by step `step` and those
  // behind it.
  Status EncodePiece(std::string_view piece, size_t start, size_t step, std::vector<TokenId>* ids);
  Status CutPiece(std::string_view piece, size_t start, size_t step, std::vector<TokenId>* ids);
  // Of the last of `ids`, which `word` became.
  void AppendExtents(std::string_view word, size_t start, const std::vector<TokenId>& ids);

  std::shared_ptr<const Tokenizer> tokenizer_;
  Bpe bpe_;
  Matcher matcher_;
  std::string normal_form_;
  std::vector<Extent>* extents_ = nullptr;  // while they are asked for
  Progress on_progress_;                    // may be null
  int64_t num_words_ = 0;                   // of all texts, counted for it
  size_t piece_start_ = 0;                  // in the text, of what lies between added tokens
};

// Bytes as UTF-8, each that begins no well-formed character replaced by U+FFFD as Unicode
// recommends: one for the longest beginning of a character that is cut short, one for every other
// byte.
std::string LossyUtf8(std::string_view bytes);

}  // namespace shardscope::tokenizer
