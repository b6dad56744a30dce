#include "app/lesson/lesson_text.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "app/lesson/mini_run.h"
#include "lesson/check.h"
#include "lesson/values.h"
#include "trace/base/text.h"

namespace shardscope::app {
namespace {

using lesson::Exercise;
using lesson::Lesson;
using lesson::Question;
using lesson::QuestionKind;
using lesson::Words;
using Kind = TextBlock::Kind;

const Words kLessons = {"Lessons", "课程"};
const Words kStart = {"Start the run", "开始运行"};
const Words kDo = {"To do", "动手做"};
const Words kEight = {"On eight GPUs", "在 8 块 GPU 上"};
const Words kQuiz = {"Quiz", "小测验"};
const Words kAnswers = {"Answers to the quizzes", "小测验答案"};

// How an answer is given on the command line.
std::string AnswerHint(const Question& question, std::string_view language) {
  if (question.kind == QuestionKind::kOp) {
    return language == "zh" ? "答案是该 op 在时间线里的名字，或它在 v_op_run 里的 id。"
                            : "The answer is the op's name in the timeline, or its id in v_op_run.";
  }
  return "";
}

void AddQuestion(const Lesson& lesson, Exercise part, std::string_view language,
                 TextBlocks* blocks) {
  const Question& question = QuestionOf(lesson, part);
  blocks->push_back({Kind::kParagraph, question.ask.In(language)});
  for (const lesson::Choice& choice : question.choices) {
    blocks->push_back({Kind::kItem, choice.name + ": " + choice.words.In(language)});
  }
  const std::string hint = AnswerHint(question, language);
  if (!hint.empty()) blocks->push_back({Kind::kParagraph, hint});
  const bool is_task = part == Exercise::kTask;
  std::string command =
      fmt::format("shardscope lesson {} {}", lesson.id, is_task ? "--answer" : "--quiz");
  if (question.kind == QuestionKind::kKnob) {
    command += " done";
  } else if (question.kind == QuestionKind::kNumber) {
    command += fmt::format(" \"... {}\"", question.unit);
  } else {
    command += " ...";
  }
  blocks->push_back({Kind::kCommand, std::move(command)});
}

std::string StartCommand(const Lesson& lesson) {
  return fmt::format("shardscope lesson {} --start", lesson.id);
}

}  // namespace

Result<TextBlocks> BlocksOf(const Lesson& lesson, const std::string& language) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const Lesson filled, lesson::Filled(lesson));
  TextBlocks blocks;
  const auto add = [&](Kind kind, const Words& words) {
    blocks.push_back({kind, words.In(language)});
  };
  blocks.push_back({Kind::kLesson, fmt::format("{}. {}", lesson.order, lesson.title.In(language))});
  add(Kind::kParagraph, filled.text);
  add(Kind::kPart, kStart);
  blocks.push_back({Kind::kCommand, StartCommand(lesson)});
  add(Kind::kPart, kDo);
  AddQuestion(filled, Exercise::kTask, language, &blocks);
  add(Kind::kPart, kEight);
  add(Kind::kParagraph, filled.eight);
  add(Kind::kPart, kQuiz);
  AddQuestion(filled, Exercise::kQuiz, language, &blocks);
  return blocks;
}

Result<TextBlocks> BlocksOfClass(const std::vector<Lesson>& lessons, const std::string& language) {
  TextBlocks blocks = {{Kind::kTitle, kLessons.In(language)}};
  TextBlocks answers = {{Kind::kLesson, kAnswers.In(language)}};
  for (const Lesson& lesson : lessons) {
    SHARDSCOPE_ASSIGN_OR_RETURN(const TextBlocks all, BlocksOf(lesson, language));
    blocks.insert(blocks.end(), all.begin(), all.end());
    SHARDSCOPE_ASSIGN_OR_RETURN(const lesson::ModelAnswers answer,
                                AnswersOf(lesson, Exercise::kQuiz, ""));
    SHARDSCOPE_ASSIGN_OR_RETURN(const lesson::Verdict verdict,
                                CheckAnswer(lesson, {Exercise::kQuiz, "", answer.right}));
    answers.push_back({Kind::kItem, fmt::format("{}. {}: {}", lesson.order, answer.right,
                                                verdict.reason.In(language))});
  }
  blocks.insert(blocks.end(), answers.begin(), answers.end());
  return blocks;
}

std::string PrintMarkdown(const TextBlocks& blocks) {
  std::string text;
  bool in_list = false;
  for (const TextBlock& block : blocks) {
    const bool is_item = block.kind == Kind::kItem;
    if (!text.empty() && !(is_item && in_list)) text += "\n";
    in_list = is_item;
    switch (block.kind) {
      case Kind::kTitle:
        text += "# " + block.text + "\n";
        break;
      case Kind::kLesson:
        text += "## " + block.text + "\n";
        break;
      case Kind::kPart:
        text += "### " + block.text + "\n";
        break;
      case Kind::kParagraph:
        text += block.text + "\n";
        break;
      case Kind::kItem:
        text += "- " + block.text + "\n";
        break;
      case Kind::kCommand:
        text += "```\n" + block.text + "\n```\n";
        break;
    }
  }
  return text;
}

std::string PrintHtml(const TextBlocks& blocks, const std::string& language) {
  std::string body;
  for (size_t at = 0; at < blocks.size(); ++at) {
    const TextBlock& block = blocks[at];
    const auto in_tag = [&](std::string_view tag) {
      return fmt::format("<{}>{}</{}>\n", tag, EscapedMarkup(block.text), tag);
    };
    const auto is_item = [&](size_t index) {
      return index < blocks.size() && blocks[index].kind == Kind::kItem;
    };
    switch (block.kind) {
      case Kind::kTitle:
        body += in_tag("h1");
        break;
      case Kind::kLesson:
        body += in_tag("h2");
        break;
      case Kind::kPart:
        body += in_tag("h3");
        break;
      case Kind::kParagraph:
        body += in_tag("p");
        break;
      case Kind::kItem:
        body += (at == 0 || !is_item(at - 1) ? "<ul>\n" : "") + in_tag("li") +
                (is_item(at + 1) ? "" : "</ul>\n");
        break;
      case Kind::kCommand:
        body += in_tag("pre");
        break;
    }
  }
  return fmt::format(
      "<!doctype html>\n<html lang=\"{}\"><head><meta charset=\"utf-8\"><title>{}</title>\n"
      "<style>\n"
      "body {{ font: 16px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 46em; padding: 0 "
      "1em; }}\n"
      "h2 {{ border-top: 1px solid #bbb; break-before: page; padding-top: 1em; }}\n"
      "pre {{ background: #f2f3f5; padding: .5em .8em; white-space: pre-wrap; }}\n"
      "</style></head><body>\n{}</body></html>\n",
      language == "zh" ? "zh" : "en", EscapedMarkup(blocks.empty() ? "" : blocks.front().text),
      body);
}

}  // namespace shardscope::app
