#include "lesson/values.h"

#include <fmt/format.h>

#include <utility>

#include "lesson/plan_tables.h"
#include "lesson/units.h"
#include "trace/base/letter_case.h"
#include "trace/base/text.h"

namespace shardscope::lesson {
namespace {

constexpr size_t kMostRows = 100'000;  // of which ops are right

std::string AsSelect(const std::string& sql) {
  return Lower(std::string_view(sql).substr(0, 6)) == "select" ||
                 Lower(std::string_view(sql).substr(0, 4)) == "with"
             ? sql
             : "SELECT " + sql;
}

Result<query::SelectedRows> RowsOf(store::Database* database, const std::string& sql) {
  SHARDSCOPE_ASSIGN_OR_RETURN(store::Statement select, database->Prepare(AsSelect(sql)));
  query::SelectedRows rows;
  while (rows.rows.size() < kMostRows) {
    SHARDSCOPE_ASSIGN_OR_RETURN(const bool is_row, select.Step());
    if (!is_row) break;
    std::vector<query::Cell>& cells = rows.rows.emplace_back();
    for (int i = 0; i < select.NumColumns(); ++i) cells.push_back(query::CellOf(select, i));
  }
  return rows;
}

// A real number, so that a quotient of two is one.
std::string Literal(const std::optional<double>& value) {
  return value ? fmt::format("({:#.17g})", *value) : "NULL";
}

}  // namespace

Values::Values(const Lesson& lesson, std::string run, std::stop_token stop)
    : lesson_(lesson), run_(std::move(run)), stop_(std::move(stop)) {}

Result<std::string> Values::WithValues(const std::string& sql) {
  std::string filled;
  size_t at = 0;
  for (const std::string& name : NamesIn(sql)) {
    const size_t open = sql.find("{" + name + "}", at);
    SHARDSCOPE_ASSIGN_OR_RETURN(const std::optional<double> value, Of(name));
    filled += sql.substr(at, open - at) + Literal(value);
    at = open + name.size() + 2;
  }
  return filled + sql.substr(at);
}

Result<query::SelectedRows> Values::AskPlan(const std::string& plan, const std::string& sql) {
  auto found = plans_.find(plan);
  if (found == plans_.end()) {
    SHARDSCOPE_ASSIGN_OR_RETURN(const config::Config config, ConfigOf(lesson_.plans.at(plan)));
    SHARDSCOPE_ASSIGN_OR_RETURN(store::Database tables, PlanTables(config));
    found = plans_.emplace(plan, std::move(tables)).first;
  }
  return RowsOf(&found->second, sql);
}

Result<query::SelectedRows> Values::AskAlone(const std::string& sql) {
  SHARDSCOPE_ASSIGN_OR_RETURN(store::Database nothing, store::Database::OpenInMemory());
  nothing.Seal();
  return RowsOf(&nothing, sql);
}

Result<query::SelectedRows> Values::Ask(const std::string& sql) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::string filled, WithValues(sql));
  if (run_.empty()) return AskAlone(filled);
  return query::Select(run_, AsSelect(filled), kMostRows, stop_);
}

Result<std::optional<double>> Values::Of(const std::string& name) {
  const auto found = known_.find(name);
  if (found != known_.end()) return found->second;
  const Number& number = *lesson_.FindNumber(name);
  const auto ask = [&]() -> Result<query::SelectedRows> {
    if (number.source == Source::kRun) {
      if (run_.empty()) return Status::Error("it needs a run");
      return Ask(number.sql);
    }
    SHARDSCOPE_ASSIGN_OR_RETURN(const std::string sql, WithValues(number.sql));
    return number.source == Source::kPlan ? AskPlan(number.plan, sql) : AskAlone(sql);
  };
  const Result<query::SelectedRows> rows = ask();
  if (!rows.ok()) {
    return Status::Error(
        fmt::format("{}:{}: numbers.{}: {}", lesson_.path, number.line, name, rows.message()));
  }
  std::optional<double> value;
  if (!rows->rows.empty() && !rows->rows.front().empty()) {
    const query::Cell& cell = rows->rows.front().front();
    if (const auto* integer = std::get_if<int64_t>(&cell)) value = static_cast<double>(*integer);
    if (const auto* real = std::get_if<double>(&cell)) value = *real;
  }
  known_[name] = value;
  return value;
}

Result<std::string> Values::Filled(const std::string& text,
                                   const std::map<std::string, std::string>& also) {
  std::string filled;
  size_t at = 0;
  for (const std::string& name : NamesIn(text)) {
    const std::string braced = "{" + name + "}";
    const size_t open = text.find(braced, at);
    filled += text.substr(at, open - at);
    at = open + braced.size();
    if (const auto found = also.find(braced); found != also.end()) {
      filled += found->second;
      continue;
    }
    SHARDSCOPE_ASSIGN_OR_RETURN(const std::optional<double> value, Of(name));
    filled += value ? NumberText(*value, lesson_.FindNumber(name)->unit) : "?";
  }
  return filled + text.substr(at);
}

Result<Words> Values::Fill(const Words& words, const std::map<std::string, std::string>& also) {
  Words filled;
  SHARDSCOPE_ASSIGN_OR_RETURN(filled.en, Filled(words.en, also));
  SHARDSCOPE_ASSIGN_OR_RETURN(filled.zh, Filled(words.zh, also));
  return filled;
}

Result<Lesson> Filled(Lesson lesson) {
  const Lesson written = lesson;
  Values values(written, "");
  std::vector<Words*> texts = {&lesson.text, &lesson.eight, &lesson.task.ask, &lesson.quiz.ask};
  for (Question* question : {&lesson.task, &lesson.quiz}) {
    for (Choice& choice : question->choices) texts.push_back(&choice.words);
  }
  for (Words* text : texts) {
    SHARDSCOPE_ASSIGN_OR_RETURN(*text, values.Fill(*text));
  }
  return lesson;
}

}  // namespace shardscope::lesson
