// ChatTemplate: a conversation as text, by the Jinja template of a model's folder, and which parts
// of it are the assistant's.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trace/base/status.h"

namespace shardscope::tokenizer {

// The fields of a message: "role", "content", and what else a template asks for.
using Message = std::vector<std::pair<std::string, std::string>>;

struct Span {
  std::string text;
  bool is_answer = false;  // what the assistant says, with what closes it
};

// Threads: one at a time. A template may nest deeply, so each call does its work on a thread with a
// stack of its own; it is an error of each if there is none.
class ChatTemplate {
 public:
  struct Tokens {
    std::string bos;
    std::string eos;
  };
  // Error: what the evaluator (minja) does not understand of it.
  static Result<ChatTemplate> Parse(const std::string& source, const Tokens& tokens);

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // As transformers' apply_chat_template. Error: also what the template itself raises.
  Result<std::string> Render(const std::vector<Message>& messages,
                             bool add_generation_prompt) const;

  // The conversation cut where answers begin and end: what the template writes of the messages
  // before an answer, with the prompt for one, and what it adds with it; white space behind an
  // answer is not part of it. Together they are what Render() gives of all messages. Errors: no
  // message of the assistant, or a template that writes the beginning of a conversation differently
  // when more follows.
  Result<std::vector<Span>> Spans(const std::vector<Message>& messages) const;

 private:
  struct Program;
  explicit ChatTemplate(std::unique_ptr<Program> program);

  std::unique_ptr<Program> program_;
};

}  // namespace shardscope::tokenizer
