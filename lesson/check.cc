#include "lesson/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "lesson/units.h"
#include "trace/base/text.h"

namespace shardscope::lesson {
namespace {

using query::Cell;
using Rows = std::vector<std::vector<Cell>>;

std::optional<double> NumberIn(const Cell& cell) {
  if (const auto* integer = std::get_if<int64_t>(&cell)) return static_cast<double>(*integer);
  if (const auto* real = std::get_if<double>(&cell)) return *real;
  return std::nullopt;
}

// What the run says is right: empty where it has not come so far.
Result<Rows> RightRows(const Lesson& lesson, const Question& question, Values* values) {
  Result<query::SelectedRows> rows = values->Ask(question.right);
  if (!rows.ok()) {
    return Status::Error(
        fmt::format("{}:{}: right: {}", lesson.path, question.line, rows.message()));
  }
  std::erase_if(rows->rows, [](const std::vector<Cell>& row) {
    return row.empty() || std::holds_alternative<std::monostate>(row.front());
  });
  return std::move(rows->rows);
}

std::string RightText(const Question& question, const Rows& rows) {
  const Cell& first = rows.front().front();
  if (question.kind == QuestionKind::kNumber) {
    return NumberText(NumberIn(first).value_or(0), question.unit);
  }
  return query::ExactText(first);
}

bool IsNear(double answer, double right, double tolerance) {
  return std::abs(answer - right) <= tolerance * std::abs(right);
}

// Of the run, "B m0 block3 all_gather" of any step counts.
Result<bool> IsOp(const std::string& answer, const Rows& right, Values* values) {
  for (const std::vector<Cell>& row : right) {
    if (query::ExactText(row.front()) == answer) return true;
  }
  std::string quoted;
  for (const char c : answer) quoted += c == '\'' ? "''" : std::string(1, c);
  // A brace would be taken for a number's name.
  if (quoted.find_first_of("{}") != std::string::npos) return false;
  SHARDSCOPE_ASSIGN_OR_RETURN(
      const query::SelectedRows named,
      values->Ask(fmt::format("SELECT id FROM v_op_run WHERE op = '{}'", quoted)));
  if (named.rows.empty() && answer.find_first_not_of("0123456789") != std::string::npos) {
    return Status::Error(fmt::format(
        "'{}' is no op of this run: give its name as the timeline has it, or its id", answer));
  }
  for (const std::vector<Cell>& row : named.rows) {
    for (const std::vector<Cell>& other : right) {
      if (query::ExactText(row.front()) == query::ExactText(other.front())) return true;
    }
  }
  return false;
}

// What may stand there instead of `answer`; nullopt: it can be judged.
std::optional<Words> WhyNoAnswer(const Question& question, const std::string& answer) {
  if (question.kind == QuestionKind::kNumber && !ParseNumber(answer, question.unit)) {
    const std::string example = NumberText(1.5, question.unit);
    return Words{fmt::format("'{}' is no number: answer as in {}", answer, example),
                 fmt::format("“{}”不是数字：请像 {} 这样回答", answer, example)};
  }
  if (question.kind != QuestionKind::kChoice) return std::nullopt;
  std::vector<std::string> names;
  for (const Choice& choice : question.choices) names.push_back(choice.name);
  if (std::ranges::find(names, answer) != names.end()) return std::nullopt;
  return Words{fmt::format("'{}' is no choice: answer {}", answer, Join(names, ", or ")),
               fmt::format("“{}”不在选项中：请回答 {}", answer, Join(names, " 或 "))};
}

// `answer` can be judged.
Result<bool> IsRight(const Question& question, const std::string& answer, const Rows& right,
                     Values* values) {
  if (question.kind == QuestionKind::kKnob) return NumberIn(right.front().front()).value_or(0) != 0;
  if (question.kind == QuestionKind::kOp) return IsOp(answer, right, values);
  if (question.kind == QuestionKind::kChoice) {
    return answer == query::ExactText(right.front().front());
  }
  const double wanted = NumberIn(right.front().front()).value_or(0);
  return IsNear(ParseNumber(answer, question.unit).value(), wanted, question.tolerance);
}

Result<std::optional<Place>> PlaceOf(const Lesson& lesson, const Question& question,
                                     Values* values) {
  if (question.place.empty()) return std::optional<Place>();
  const Result<query::SelectedRows> rows = values->Ask(question.place);
  if (!rows.ok()) {
    return Status::Error(
        fmt::format("{}:{}: place: {}", lesson.path, question.line, rows.message()));
  }
  if (rows->rows.empty()) return std::optional<Place>();
  Place place;
  for (size_t i = 0; i < rows->names.size(); ++i) {
    const std::optional<double> value = NumberIn(rows->rows.front()[i]);
    if (!value) continue;
    if (rows->names[i] == "op_run") place.op_run = static_cast<int64_t>(*value);
    if (rows->names[i] == "rank") place.rank = static_cast<int32_t>(*value);
    if (rows->names[i] == "step") place.step = static_cast<int32_t>(*value);
  }
  return std::optional<Place>(place);
}

Verdict NotYet(const Question& question) {
  if (question.kind == QuestionKind::kKnob) {
    return {
        .reason = {
            "The run does not show it yet: turn the knob while it trains (start it again if it "
            "has ended), wait for some steps, and check again.",
            "运行里还看不到结果：请在训练时调整旋钮（若已结束，请重新开始），等几步之后再检查。"}};
  }
  return {.reason = {"The run has not come so far yet: wait for some steps, and check again.",
                     "运行还没有进行到这里：请等几步之后再检查。"}};
}

// Of the wrong answer, if the file has one for it.
const Words& ReasonOf(const Question& question, bool right, const std::string& answer) {
  if (right) return question.explain;
  const auto choice = std::ranges::find(question.choices, answer, &Choice::name);
  const bool has_why = choice != question.choices.end() && !choice->why.en.empty();
  return has_why ? choice->why : question.wrong;
}

}  // namespace

const Question& QuestionOf(const Lesson& lesson, Exercise part) {
  return part == Exercise::kTask ? lesson.task : lesson.quiz;
}

Result<Verdict> CheckAnswer(const Lesson& lesson, const Attempt& attempt,
                            const std::stop_token& stop) {
  const Question& question = QuestionOf(lesson, attempt.part);
  const std::string answer(Trim(attempt.answer));
  // What fails with the run itself is no fault of the lesson's SQL, whose errors name its lines.
  if (attempt.part == Exercise::kTask && !attempt.run.empty()) {
    SHARDSCOPE_RETURN_IF_ERROR(query::Select(attempt.run, "SELECT 1", 1, stop).status());
  }
  Values values(lesson, attempt.part == Exercise::kTask ? attempt.run : "", stop);
  SHARDSCOPE_ASSIGN_OR_RETURN(const Rows rows, RightRows(lesson, question, &values));
  if (rows.empty()) return NotYet(question);
  if (auto why = WhyNoAnswer(question, answer)) {
    return Verdict{.outcome = Outcome::kNoAnswer, .reason = *std::move(why)};
  }
  SHARDSCOPE_ASSIGN_OR_RETURN(const bool right, IsRight(question, answer, rows, &values));
  Verdict verdict{.outcome = right ? Outcome::kRight : Outcome::kWrong};
  std::string said = answer;
  if (question.kind == QuestionKind::kNumber) {
    said = NumberText(*ParseNumber(answer, question.unit), question.unit);
  }
  SHARDSCOPE_ASSIGN_OR_RETURN(verdict.reason,
                              values.Fill(ReasonOf(question, right, answer),
                                          {{std::string(kAnswerName), said},
                                           {std::string(kRightName), RightText(question, rows)}}));
  SHARDSCOPE_ASSIGN_OR_RETURN(verdict.place, PlaceOf(lesson, question, &values));
  return verdict;
}

Result<ModelAnswers> AnswersOf(const Lesson& lesson, Exercise part, const std::string& run) {
  const Question& question = QuestionOf(lesson, part);
  if (question.kind == QuestionKind::kKnob) return ModelAnswers();
  Values values(lesson, part == Exercise::kTask ? run : "");
  SHARDSCOPE_ASSIGN_OR_RETURN(const Rows rows, RightRows(lesson, question, &values));
  if (rows.empty()) {
    return Status::Error(fmt::format("{}:{}: the run does not show which answer is right",
                                     lesson.path, question.line));
  }
  ModelAnswers answers{.right = RightText(question, rows)};
  if (question.kind == QuestionKind::kNumber) {
    const double right = NumberIn(rows.front().front()).value_or(0);
    const double wrong = right == 0 ? 1 : right * (1 + 4 * question.tolerance);
    answers.wrong = fmt::format("{}", wrong);
    return answers;
  }
  if (question.kind == QuestionKind::kChoice) {
    for (const Choice& choice : question.choices) {
      if (choice.name != answers.right) answers.wrong = choice.name;
    }
    return answers;
  }
  std::vector<std::string> ids;
  for (const std::vector<Cell>& row : rows) ids.push_back(query::ExactText(row.front()));
  SHARDSCOPE_ASSIGN_OR_RETURN(const query::SelectedRows others,
                              values.Ask(fmt::format("SELECT id FROM op_run WHERE id NOT IN ({}) "
                                                     "ORDER BY id LIMIT 1",
                                                     Join(ids, ", "))));
  if (!others.rows.empty()) answers.wrong = query::ExactText(others.rows.front().front());
  return answers;
}

}  // namespace shardscope::lesson
