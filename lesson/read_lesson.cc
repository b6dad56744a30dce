// One file of a lesson: its words, and what can be checked without a run.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <initializer_list>
#include <set>
#include <system_error>
#include <utility>

#include "engine/config/toml_file.h"
#include "lesson/lesson.h"
#include "lesson/units.h"
#include "trace/base/parse_number.h"
#include "trace/base/text.h"

namespace shardscope::lesson {
namespace {

using config::ErrorAt;
using config::LineOf;

constexpr const char* kRunPlan = "run";  // the Schedule of the mini-run

// `what` names the table in errors.
Status CheckWords(const toml::table& table, const std::string& what,
                  std::initializer_list<std::string> allowed) {
  const std::vector<std::string> words(allowed);
  for (const auto& [key, node] : table) {
    const std::string word(key.str());
    if (std::ranges::find(words, word) != words.end()) continue;
    const std::optional<std::string> near = NearestName(word, words);
    return ErrorAt(LineOf(node), fmt::format("{} has no '{}'; {}", what, word,
                                             near ? "did you mean " + *near + "?"
                                                  : "it has " + Join(words, ", ")));
  }
  return Status::Ok();
}

Result<const toml::table*> TableOf(const toml::table& in, const std::string& name) {
  const toml::node* node = in.get(name);
  if (node == nullptr) {
    return ErrorAt(LineOf(in), fmt::format("{} is missing: add a table [{}]", name, name));
  }
  const toml::table* table = node->as_table();
  if (table == nullptr) return ErrorAt(LineOf(*node), fmt::format("{} must be a table", name));
  return table;
}

// Empty if it is not there.
Result<std::string> TextOf(const toml::table& in, const std::string& name) {
  const toml::node* node = in.get(name);
  if (node == nullptr) return std::string();
  if (const auto* text = node->as_string()) return std::string(Trim(text->get()));
  return ErrorAt(LineOf(*node), fmt::format("{} must be a text in quotes", name));
}

Result<std::string> NeededText(const toml::table& in, const std::string& name) {
  SHARDSCOPE_ASSIGN_OR_RETURN(std::string text, TextOf(in, name));
  if (text.empty()) return ErrorAt(LineOf(in), fmt::format("{} is missing: add a text", name));
  return text;
}

// Lines of a file as one paragraph: Chinese has no spaces where a line ends.
std::string Unwrapped(const std::string& text, std::string_view between) {
  std::vector<std::string> lines;
  for (const std::string_view line : Split(text, '\n')) lines.emplace_back(Trim(line));
  return Join(lines, between);
}

Result<Words> WordsIn(const toml::table& table, const std::string& what) {
  Words words;
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::string en, TextOf(table, "en"));
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::string zh, TextOf(table, "zh"));
  words = {Unwrapped(en, " "), Unwrapped(zh, "")};
  if (words.en.empty() || words.zh.empty()) {
    return ErrorAt(LineOf(table), fmt::format("{} needs both en and zh", what));
  }
  return words;
}

Result<Words> WordsOf(const toml::table& in, const std::string& name) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const toml::table* table, TableOf(in, name));
  SHARDSCOPE_RETURN_IF_ERROR(CheckWords(*table, name, {"en", "zh"}));
  return WordsIn(*table, name);
}

Result<Keys> KeysOf(const toml::table& table) {
  Keys keys;
  config::Config scratch;
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    std::string value;
    if (const auto* text = node.as_string()) value = text->get();
    if (const auto* number = node.as_integer()) value = std::to_string(number->get());
    if (const auto* number = node.as_floating_point()) value = fmt::format("{}", number->get());
    if (const auto* flag = node.as_boolean()) value = flag->get() ? "true" : "false";
    if (node.is_table() || node.is_array()) {
      return ErrorAt(LineOf(node), fmt::format("{}: write the whole key in quotes, as in "
                                               "\"run.ranks\" = 2",
                                               name));
    }
    const Status status = scratch.Set(name, value);
    if (!status.ok()) return ErrorAt(LineOf(node), status.message());
    keys[name] = value;
  }
  const Result<config::Config> all = ConfigOf(keys);
  return all.ok() ? Result<Keys>(keys) : ErrorAt(LineOf(table), all.message());
}

Status ReadPlans(const toml::table& root, Lesson* lesson) {
  lesson->plans[kRunPlan] = lesson->run;
  if (!root.contains("plans")) return Status::Ok();
  SHARDSCOPE_ASSIGN_OR_RETURN(const toml::table* plans, TableOf(root, "plans"));
  for (const auto& [key, node] : *plans) {
    const toml::table* table = node.as_table();
    if (table == nullptr) return ErrorAt(LineOf(node), "a plan is a table of keys");
    SHARDSCOPE_ASSIGN_OR_RETURN(lesson->plans[std::string(key.str())], KeysOf(*table));
  }
  return Status::Ok();
}

Result<Number> NumberOf(const toml::table& table, const std::string& name) {
  const std::string what = "numbers." + name;
  SHARDSCOPE_RETURN_IF_ERROR(CheckWords(table, what, {"run", "plan", "is", "of", "unit"}));
  Number number{.name = name, .line = LineOf(table)};
  constexpr std::array<std::pair<const char*, Source>, 3> kSources = {
      {{"run", Source::kRun}, {"plan", Source::kPlan}, {"is", Source::kAlone}}};
  for (const auto& [word, source] : kSources) {
    if (!table.contains(word)) continue;
    if (!number.sql.empty()) return ErrorAt(number.line, what + " has one of run, plan and is");
    SHARDSCOPE_ASSIGN_OR_RETURN(number.sql, NeededText(table, word));
    number.source = source;
  }
  if (number.sql.empty()) return ErrorAt(number.line, what + " needs one of run, plan and is");
  SHARDSCOPE_ASSIGN_OR_RETURN(number.plan, TextOf(table, "of"));
  SHARDSCOPE_ASSIGN_OR_RETURN(number.unit, TextOf(table, "unit"));
  if (!IsUnit(number.unit)) {
    return ErrorAt(number.line, fmt::format("{}: there is no unit '{}'; there are {}", what,
                                            number.unit, UnitNames()));
  }
  return number;
}

Status ReadNumbers(const toml::table& root, Lesson* lesson) {
  if (!root.contains("numbers")) return Status::Ok();
  SHARDSCOPE_ASSIGN_OR_RETURN(const toml::table* numbers, TableOf(root, "numbers"));
  for (const auto& [key, node] : *numbers) {
    const std::string name(key.str());
    const toml::table* table = node.as_table();
    if (table == nullptr) return ErrorAt(LineOf(node), "a number is a table: { is = \"...\" }");
    SHARDSCOPE_ASSIGN_OR_RETURN(Number number, NumberOf(*table, name));
    const bool is_plan = number.source == Source::kPlan;
    if (is_plan != !number.plan.empty() || (is_plan && !lesson->plans.contains(number.plan))) {
      return ErrorAt(number.line,
                     fmt::format("numbers.{}: 'of' names the plan that 'plan' asks: run, or a "
                                 "table [plans.NAME]",
                                 name));
    }
    lesson->numbers.push_back(std::move(number));
  }
  return Status::Ok();
}

Status ReadChoices(const toml::table& table, Question* question) {
  const toml::node* node = table.get("choices");
  const toml::array* list = node == nullptr ? nullptr : node->as_array();
  if (list == nullptr || list->size() < 2) {
    return ErrorAt(question->line, "a choice needs choices = [{ name, en, zh }, ...], two or more");
  }
  for (const toml::node& item : *list) {
    const toml::table* choice = item.as_table();
    if (choice == nullptr) return ErrorAt(LineOf(item), "a choice is { name, en, zh }");
    SHARDSCOPE_RETURN_IF_ERROR(CheckWords(*choice, "a choice", {"name", "en", "zh", "why"}));
    Choice read;
    SHARDSCOPE_ASSIGN_OR_RETURN(read.name, NeededText(*choice, "name"));
    SHARDSCOPE_ASSIGN_OR_RETURN(read.words, WordsIn(*choice, "a choice"));
    if (choice->contains("why")) {
      SHARDSCOPE_ASSIGN_OR_RETURN(read.why, WordsOf(*choice, "why"));
    }
    question->choices.push_back(std::move(read));
  }
  return Status::Ok();
}

Status ReadTurn(const toml::table& table, Question* question) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const toml::table* turn, TableOf(table, "turn"));
  SHARDSCOPE_RETURN_IF_ERROR(CheckWords(*turn, "turn", {"step", "steps", "set"}));
  SHARDSCOPE_ASSIGN_OR_RETURN(const toml::table* set, TableOf(*turn, "set"));
  Turn read;
  SHARDSCOPE_ASSIGN_OR_RETURN(read.change.set, KeysOf(*set));
  for (const auto& [key, value] : read.change.set) {
    if (config::FindKey(key)->live) continue;
    return ErrorAt(LineOf(*set), key + " cannot change while the run trains: choose a live key");
  }
  read.change.step = (*turn)["step"].value_or(int64_t{-1});
  read.steps = (*turn)["steps"].value_or(int64_t{-1});
  if (read.change.step < 1 || read.steps <= read.change.step) {
    return ErrorAt(LineOf(*turn), "turn needs step, 1 or more, and steps, above it");
  }
  question->turn = std::move(read);
  return Status::Ok();
}

Status ReadKind(const toml::table& table, Question* question) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::string kind, NeededText(table, "kind"));
  SHARDSCOPE_ASSIGN_OR_RETURN(question->unit, TextOf(table, "unit"));
  if (kind == "number") {
    question->kind = QuestionKind::kNumber;
    question->tolerance = table["tolerance"].value_or(question->tolerance);
    if (!IsUnit(question->unit)) {
      return ErrorAt(question->line, fmt::format("there is no unit '{}'; there are {}",
                                                 question->unit, UnitNames()));
    }
    if (question->tolerance > 0 && question->tolerance < 1) return Status::Ok();
    return ErrorAt(question->line, "tolerance must be a share above 0 and below 1");
  }
  if (kind == "choice") {
    question->kind = QuestionKind::kChoice;
    return ReadChoices(table, question);
  }
  if (kind == "op") {
    question->kind = QuestionKind::kOp;
    return Status::Ok();
  }
  if (kind == "knob") {
    question->kind = QuestionKind::kKnob;
    return ReadTurn(table, question);
  }
  return ErrorAt(question->line,
                 fmt::format("there is no kind '{}'; there are number, choice, op, knob", kind));
}

Result<Question> QuestionOf(const toml::table& root, const std::string& name) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const toml::table* table, TableOf(root, name));
  SHARDSCOPE_RETURN_IF_ERROR(CheckWords(*table, name,
                                        {"kind", "ask", "right", "unit", "tolerance", "choices",
                                         "turn", "place", "wrong", "explain"}));
  Question question{.line = LineOf(*table)};
  SHARDSCOPE_RETURN_IF_ERROR(ReadKind(*table, &question));
  SHARDSCOPE_ASSIGN_OR_RETURN(question.ask, WordsOf(*table, "ask"));
  SHARDSCOPE_ASSIGN_OR_RETURN(question.right, NeededText(*table, "right"));
  SHARDSCOPE_ASSIGN_OR_RETURN(question.place, TextOf(*table, "place"));
  SHARDSCOPE_ASSIGN_OR_RETURN(question.wrong, WordsOf(*table, "wrong"));
  SHARDSCOPE_ASSIGN_OR_RETURN(question.explain, WordsOf(*table, "explain"));
  return question;
}

// 07-prefetch.toml
Status ReadName(const std::filesystem::path& path, Lesson* lesson) {
  const std::string stem = path.stem().string();
  const size_t dash = stem.find('-');
  const auto order = ParseInteger<int>(stem.substr(0, dash), 1);
  if (dash == std::string::npos || dash + 1 == stem.size() || !order) {
    return Status::Error(path.string() +
                         " is no name of a lesson: call it NUMBER-ID.toml, as in "
                         "07-prefetch.toml");
  }
  lesson->order = *order;
  lesson->id = stem.substr(dash + 1);
  return Status::Ok();
}

size_t NumWords(std::string_view text) {
  size_t count = 0;
  bool inside = false;
  for (const char c : text) {
    const bool is_space = c == ' ' || c == '\n' || c == '\t';
    count += !is_space && !inside ? 1 : 0;
    inside = !is_space;
  }
  return count;
}

size_t NumCharacters(std::string_view text) {
  size_t count = 0;
  while (TakeCodePoint(&text)) ++count;
  return count;
}

// Of texts that are read before there is a run, and of numbers that are not there.
class NameCheck {
 public:
  explicit NameCheck(const Lesson& lesson) : lesson_(lesson) {}

  Status Check(std::string_view text, int64_t line, bool without_run) const {
    for (const std::string& name : NamesIn(text)) {
      if (lesson_.FindNumber(name) == nullptr) {
        return ErrorAt(
            line, fmt::format("{{{}}} is no number of this lesson: add [numbers.{}]", name, name));
      }
      if (without_run && NeedsRun(lesson_, name)) {
        return ErrorAt(line,
                       fmt::format("{{{}}} needs a run, which there is none of here: only the "
                                   "task may use it",
                                   name));
      }
    }
    return Status::Ok();
  }
  Status Check(const Words& words, int64_t line, bool without_run) const {
    SHARDSCOPE_RETURN_IF_ERROR(Check(words.en, line, without_run));
    return Check(words.zh, line, without_run);
  }
  // Where an answer is judged, {answer} and {right} are numbers too.
  Status CheckJudged(Words words, int64_t line, bool without_run) const {
    for (std::string* text : {&words.en, &words.zh}) {
      for (const std::string_view name : {kAnswerName, kRightName}) {
        for (size_t at = text->find(name); at != std::string::npos; at = text->find(name)) {
          text->erase(at, name.size());
        }
      }
    }
    return Check(words, line, without_run);
  }
  Status Check(const Question& question, bool is_quiz) const {
    const int64_t line = question.line;
    SHARDSCOPE_RETURN_IF_ERROR(Check(question.ask, line, true));
    SHARDSCOPE_RETURN_IF_ERROR(Check(question.right, line, is_quiz));
    SHARDSCOPE_RETURN_IF_ERROR(Check(question.place, line, is_quiz));
    SHARDSCOPE_RETURN_IF_ERROR(CheckJudged(question.wrong, line, is_quiz));
    for (const Choice& choice : question.choices) {
      SHARDSCOPE_RETURN_IF_ERROR(Check(choice.words, line, true));
      SHARDSCOPE_RETURN_IF_ERROR(CheckJudged(choice.why, line, is_quiz));
    }
    return CheckJudged(question.explain, line, is_quiz);
  }

 private:
  const Lesson& lesson_;
};

// A number stands for others that do not stand for it.
Status CheckNumbers(const Lesson& lesson) {
  const NameCheck names(lesson);
  std::set<std::string> known;
  for (size_t round = 0; round <= lesson.numbers.size(); ++round) {
    for (const Number& number : lesson.numbers) {
      SHARDSCOPE_RETURN_IF_ERROR(names.Check(number.sql, number.line, false));
      const std::vector<std::string> used = NamesIn(number.sql);
      if (std::ranges::all_of(used, [&](const auto& name) { return known.contains(name); })) {
        known.insert(number.name);
      }
    }
  }
  for (const Number& number : lesson.numbers) {
    if (known.contains(number.name)) continue;
    return ErrorAt(number.line, fmt::format("numbers.{} is made of itself", number.name));
  }
  return Status::Ok();
}

Status CheckLesson(const Lesson& lesson, int64_t text_line) {
  SHARDSCOPE_RETURN_IF_ERROR(CheckNumbers(lesson));
  const NameCheck names(lesson);
  SHARDSCOPE_RETURN_IF_ERROR(names.Check(lesson.text, text_line, true));
  SHARDSCOPE_RETURN_IF_ERROR(names.Check(lesson.eight, text_line, true));
  SHARDSCOPE_RETURN_IF_ERROR(names.Check(lesson.task, false));
  SHARDSCOPE_RETURN_IF_ERROR(names.Check(lesson.quiz, true));
  if (lesson.quiz.kind == QuestionKind::kOp || lesson.quiz.kind == QuestionKind::kKnob ||
      !lesson.quiz.place.empty()) {
    return ErrorAt(lesson.quiz.line,
                   "a quiz has no run: its kind is number or choice, and it has no place");
  }
  if (lesson.task.place.empty()) {
    return ErrorAt(lesson.task.line, "task needs a place: a SELECT of op_run, or of rank, step");
  }
  const size_t words = NumWords(lesson.text.en);
  if (words > kMostWords) {
    return ErrorAt(text_line, fmt::format("text.en has {} words: {} at most", words, kMostWords));
  }
  const size_t characters = NumCharacters(lesson.text.zh);
  if (characters > kMostChineseCharacters) {
    return ErrorAt(text_line, fmt::format("text.zh has {} characters: {} at most", characters,
                                          kMostChineseCharacters));
  }
  return Status::Ok();
}

Status ReadTables(const toml::table& root, Lesson* lesson) {
  SHARDSCOPE_RETURN_IF_ERROR(CheckWords(
      root, "a lesson", {"title", "text", "run", "plans", "numbers", "task", "eight", "quiz"}));
  SHARDSCOPE_ASSIGN_OR_RETURN(lesson->title, WordsOf(root, "title"));
  SHARDSCOPE_ASSIGN_OR_RETURN(lesson->text, WordsOf(root, "text"));
  SHARDSCOPE_ASSIGN_OR_RETURN(lesson->eight, WordsOf(root, "eight"));
  SHARDSCOPE_ASSIGN_OR_RETURN(const toml::table* run, TableOf(root, "run"));
  SHARDSCOPE_ASSIGN_OR_RETURN(lesson->run, KeysOf(*run));
  SHARDSCOPE_RETURN_IF_ERROR(ReadPlans(root, lesson));
  SHARDSCOPE_RETURN_IF_ERROR(ReadNumbers(root, lesson));
  SHARDSCOPE_ASSIGN_OR_RETURN(lesson->task, QuestionOf(root, "task"));
  SHARDSCOPE_ASSIGN_OR_RETURN(lesson->quiz, QuestionOf(root, "quiz"));
  return CheckLesson(*lesson, LineOf(*root.get("text")));
}

}  // namespace

Result<Lesson> ReadLesson(const std::string& path) {
  Lesson lesson{.path = path};
  SHARDSCOPE_RETURN_IF_ERROR(ReadName(path, &lesson));
  SHARDSCOPE_ASSIGN_OR_RETURN(const toml::table root, config::ParseTomlFile(path));
  const Status status = ReadTables(root, &lesson);
  if (!status.ok()) return Status::Error(fmt::format("{}:{}", path, status.message()));
  return lesson;
}

}  // namespace shardscope::lesson
