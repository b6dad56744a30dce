// A lesson as text: on a terminal, and as Markdown or HTML for a class.
#pragma once

#include <string>
#include <vector>

#include "lesson/lesson.h"
#include "trace/base/status.h"

namespace shardscope::app {

// A piece of a printed text.
struct TextBlock {
  enum class Kind : uint8_t { kTitle, kLesson, kPart, kParagraph, kItem, kCommand };
  Kind kind = Kind::kParagraph;
  std::string text;
};
using TextBlocks = std::vector<TextBlock>;

// What a learner reads; `language`: en or zh. Errors: a number cannot be found.
Result<TextBlocks> BlocksOf(const lesson::Lesson& lesson, const std::string& language);

// All of them for a class, and the answers to the quizzes at the end.
Result<TextBlocks> BlocksOfClass(const std::vector<lesson::Lesson>& lessons,
                                 const std::string& language);

std::string PrintMarkdown(const TextBlocks& blocks);
std::string PrintHtml(const TextBlocks& blocks, const std::string& language);

}  // namespace shardscope::app
