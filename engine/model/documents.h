// Documents: text files and JSON lines as token ids.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/token_file.h"
#include "engine/tokenizer/chat_template.h"
#include "engine/tokenizer/tokenizer.h"
#include "trace/base/status.h"

namespace shardscope::model {

// What a user says, as the chat template has it with the prompt for an answer; a text without the
// tokens that go around one. Errors: there is no template, or it cannot be evaluated.
Result<std::string> ChatPrompt(const tokenizer::Tokenizer& tokenizer, const std::string& said);

// One thread.
class Documents {
 public:
  // Error: the tokenizer has no end of text.
  static Result<Documents> Make(std::shared_ptr<const tokenizer::Tokenizer> tokenizer);

  // How many bytes of all that was appended are documents by now, about.
  using Progress = std::function<void(int64_t bytes)>;
  // Appends the documents in `bytes`; meanwhile calls `on_progress` every few thousand words,
  // unless it is empty. Errors begin with `name`.
  Status Append(const std::string& name, std::string_view bytes, bool is_json_lines,
                std::vector<uint32_t>* tokens, const Progress& on_progress = {});

  int64_t count() const { return count_; }
  bool is_masked() const { return is_masked_; }

 private:
  explicit Documents(std::shared_ptr<const tokenizer::Tokenizer> tokenizer)
      : tokenizer_(tokenizer), encoder_(std::move(tokenizer)) {}
  Status AppendAll(const std::string& name, std::string_view bytes, bool is_json_lines,
                   std::vector<uint32_t>* tokens);
  Status AppendText(std::string_view text, std::vector<uint32_t>* tokens);
  Status AppendLine(std::string_view line, std::vector<uint32_t>* tokens);
  Status AppendMessages(const std::vector<tokenizer::Message>& messages,
                        std::vector<uint32_t>* tokens);
  // The end of text, unless the document ends with it.
  void End(uint32_t flags, std::vector<uint32_t>* tokens);

  std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
  tokenizer::Encoder encoder_;
  std::optional<tokenizer::ChatTemplate> chat_;  // once a conversation has come
  std::vector<tokenizer::TokenId> ids_;
  std::vector<tokenizer::Extent> extents_;  // of ids_, of a conversation
  int64_t appended_bytes_ = 0;              // before the document that is encoded
  int64_t count_ = 0;
  bool is_masked_ = false;
};

}  // namespace shardscope::model
