// TokenFile: the token ids of all documents, one after the other, in a file of the cache that all
// processes of a machine map.
//
// Note: Token data. A run needs all ids before its first step, as every epoch is a shuffle of all
// samples; so text is tokenised once, before training, and the file serves every later run and
// every rank. Its name is a checksum of what it was made from (tokenizer, format, every byte of the
// data), so it can neither be taken for that of other data nor grow old.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/tokenizer/tokenizer.h"
#include "trace/base/mapped_file.h"
#include "trace/base/status.h"

namespace shardscope::model {

// A token as it lies in the file: the id, and in the highest bit whether the loss leaves it out.
inline constexpr uint32_t kNotCounted = uint32_t{1} << 31;

enum class DataFormat {
  kByName,  // *.jsonl is JSON lines, all else text
  kText,    // a file is a document
  kJsonLines,
};

// As kByName takes it.
bool HasNameOfJsonLines(std::string_view file);

// Of all files together. Called with no bytes when text begins to be tokenised (not where its
// tokens are known) and every few thousand words, on the thread that does it.
using TokenizeProgress = std::function<void(int64_t done_bytes, int64_t all_bytes)>;

struct TokenizeOptions {
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer;
  DataFormat format = DataFormat::kByName;
  std::string cache;              // a folder, made if need be
  int64_t max_cache_bytes = 0;    // older files go when a new one is written
  std::string key = "data.path";  // that named the files: errors begin with it
  TokenizeProgress on_progress = nullptr;
};

// Immutable. Threads: any.
class TokenFile {
 public:
  // Of these files in this order: from the cache, else tokenised into it first; another process
  // that does so already is waited for. Documents end with the tokenizer's end-of-text token.
  //
  // JSON lines: an object a line with "text", or with "messages" (objects with "role", "content"
  // and what else the chat template asks for), of which the loss counts what the assistant says;
  // empty lines are skipped. Errors name file and line: no JSON, neither of the two, a conversation
  // without an answer, what the template says.
  static Result<std::shared_ptr<const TokenFile>> Open(const std::vector<std::string>& files,
                                                       const TokenizeOptions& options);

  std::span<const uint32_t> tokens() const { return tokens_; }
  int64_t num_documents() const { return num_documents_; }
  // Of the tokens, with what the loss leaves out.
  uint64_t checksum() const { return checksum_; }
  // Whether the loss leaves any token out.
  bool is_masked() const { return is_masked_; }

 private:
  struct Footer;
  struct Inputs;
  explicit TokenFile(MappedFile file) : file_(std::move(file)) {}
  static Result<std::shared_ptr<const TokenFile>> Map(const std::string& path, uint64_t key);
  static Status Write(const std::string& path, const Inputs& inputs,
                      const TokenizeOptions& options);

  MappedFile file_;
  std::span<const uint32_t> tokens_;
  int64_t num_documents_ = 0;
  uint64_t checksum_ = 0;
  bool is_masked_ = false;
};

}  // namespace shardscope::model
