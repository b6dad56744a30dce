#include "engine/model/documents.h"

#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "trace/base/text.h"

namespace shardscope::model {
namespace {

using Json = nlohmann::json;

Result<std::vector<tokenizer::Message>> MessagesOf(const Json& list) {
  std::vector<tokenizer::Message> messages;
  for (const Json& fields : list) {
    if (!fields.is_object() || !fields.contains("role") || !fields.contains("content")) {
      return Status::Error("a message is an object with \"role\" and \"content\"");
    }
    if (fields["content"].is_null()) {
      return Status::Error(fmt::format(
          "\"content\" of message {} is null: give it a text, or leave the conversation out "
          "(calls of tools are not supported)",
          messages.size() + 1));
    }
    tokenizer::Message& message = messages.emplace_back();
    for (const auto& [name, value] : fields.items()) {
      if (value.is_null()) continue;
      if (!value.is_string()) {
        return Status::Error("\"" + Printable(name) +
                             "\" of a message is no text: calls of tools, images and the like are "
                             "not supported");
      }
      message.emplace_back(name, value.get<std::string>());
    }
  }
  return messages;
}

// With the file that the template is in.
Status OfTemplate(const Status& status, const tokenizer::Tokenizer& tokenizer) {
  constexpr std::string_view kWhat = "the chat template";
  if (!status.message().starts_with(kWhat)) return status;
  return Status::Error(fmt::format("{} in {}{}", kWhat, tokenizer.chat_template_path(),
                                   status.message().substr(kWhat.size())));
}

// `needs`: the beginning of the error where there is none.
Result<tokenizer::ChatTemplate> ChatTemplateOf(const tokenizer::Tokenizer& tokenizer,
                                               const std::string& needs) {
  if (tokenizer.chat_template().empty()) {
    return Status::Error(needs + " a chat template, and " + tokenizer.config_path() +
                         " has none: add it (chat_template)");
  }
  Result<tokenizer::ChatTemplate> chat = tokenizer::ChatTemplate::Parse(
      tokenizer.chat_template(), {tokenizer.bos_text(), tokenizer.eos_text()});
  if (!chat.ok()) return OfTemplate(chat.status(), tokenizer);
  return chat;
}

}  // namespace

Result<std::string> ChatPrompt(const tokenizer::Tokenizer& tokenizer, const std::string& said) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const tokenizer::ChatTemplate chat,
                              ChatTemplateOf(tokenizer, "--chat needs"));
  const tokenizer::Message message = {{"role", "user"}, {"content", said}};
  const Result<std::string> text = chat.Render({message}, /*add_generation_prompt=*/true);
  if (!text.ok()) return OfTemplate(text.status(), tokenizer);
  return text;
}

Result<Documents> Documents::Make(std::shared_ptr<const tokenizer::Tokenizer> tokenizer) {
  if (!tokenizer->eos()) {
    const std::string what = tokenizer->has_config() ? " names no eos_token" : " is not there";
    return Status::Error("data.tokenizer: " + tokenizer->config_path() + what +
                         ": documents would run into one another; add " +
                         (tokenizer->has_config() ? "one" : "it, with the eos_token"));
  }
  return Documents(std::move(tokenizer));
}

Status Documents::Append(const std::string& name, std::string_view bytes, bool is_json_lines,
                         std::vector<uint32_t>* tokens, const Progress& on_progress) {
  if (!on_progress) return AppendAll(name, bytes, is_json_lines, tokens);
  // For this call alone: it refers to this object and the callback.
  encoder_.OnProgress([this, &on_progress](size_t encoded) {
    on_progress(appended_bytes_ + static_cast<int64_t>(encoded));
  });
  Status status = AppendAll(name, bytes, is_json_lines, tokens);
  encoder_.OnProgress({});
  return status;
}

Status Documents::AppendAll(const std::string& name, std::string_view bytes, bool is_json_lines,
                            std::vector<uint32_t>* tokens) {
  const int64_t end = appended_bytes_ + std::ssize(bytes);
  if (!is_json_lines) {
    if (bytes.empty()) return Status::Ok();
    const Status status = AppendText(bytes, tokens);
    appended_bytes_ = end;
    return status.ok() ? status : Status::Error(name + ": " + status.message());
  }
  for (int64_t number = 1; !bytes.empty(); ++number) {
    appended_bytes_ = end - std::ssize(bytes);
    const std::string_view line = Trim(TakeField(&bytes, '\n'));
    if (line.empty()) continue;
    const Status status = AppendLine(line, tokens);
    if (!status.ok()) {
      return Status::Error(name + ", line " + std::to_string(number) + ": " + status.message());
    }
  }
  appended_bytes_ = end;
  return Status::Ok();
}

Status Documents::AppendLine(std::string_view line, std::vector<uint32_t>* tokens) {
  const Json json = Json::parse(line, nullptr, false);
  if (json.is_discarded()) return Status::Error("it is no JSON; mend or remove the line");
  if (json.is_object() && json.contains("messages") && json["messages"].is_array()) {
    SHARDSCOPE_ASSIGN_OR_RETURN(const auto messages, MessagesOf(json["messages"]));
    return AppendMessages(messages, tokens);
  }
  if (!json.is_object() || !json.contains("text") || !json["text"].is_string()) {
    return Status::Error("an object with \"text\" or \"messages\" is expected");
  }
  return AppendText(json["text"].get_ref<const std::string&>(), tokens);
}

Status Documents::AppendText(std::string_view text, std::vector<uint32_t>* tokens) {
  ids_.clear();
  SHARDSCOPE_RETURN_IF_ERROR(encoder_.EncodeWhole(text, &ids_));
  tokens->insert(tokens->end(), ids_.begin(), ids_.end());
  End(0, tokens);
  return Status::Ok();
}

Status Documents::AppendMessages(const std::vector<tokenizer::Message>& messages,
                                 std::vector<uint32_t>* tokens) {
  if (!chat_) {
    SHARDSCOPE_ASSIGN_OR_RETURN(chat_, ChatTemplateOf(*tokenizer_, "\"messages\" need"));
  }
  const Result<std::vector<tokenizer::Span>> spans = chat_->Spans(messages);
  if (!spans.ok()) return OfTemplate(spans.status(), *tokenizer_);
  std::string text;
  std::vector<tokenizer::Extent> answers;
  for (const tokenizer::Span& span : *spans) {
    if (span.is_answer) answers.push_back({text.size(), text.size() + span.text.size()});
    text += span.text;
  }
  ids_.clear();
  extents_.clear();
  // As a whole: a word may reach over the border of an answer, and so may a token.
  SHARDSCOPE_RETURN_IF_ERROR(encoder_.EncodeWithExtents(text, &ids_, &extents_));
  size_t next = 0;  // the first answer that does not end before the token
  for (size_t i = 0; i < ids_.size(); ++i) {
    const tokenizer::Extent& extent = extents_[i];
    while (next < answers.size() && answers[next].end <= extent.start) ++next;
    const bool is_answer = next < answers.size() && answers[next].start < extent.end;
    tokens->push_back(static_cast<uint32_t>(ids_[i]) | (is_answer ? 0 : kNotCounted));
  }
  is_masked_ = true;
  End(kNotCounted, tokens);
  return Status::Ok();
}

void Documents::End(uint32_t flags, std::vector<uint32_t>* tokens) {
  const auto eos = static_cast<uint32_t>(*tokenizer_->eos());
  if (tokens->empty() || (tokens->back() & ~kNotCounted) != eos) tokens->push_back(eos | flags);
  ++count_;
}

}  // namespace shardscope::model
