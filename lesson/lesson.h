// Lesson: one file of assets/lessons/ as it is written: a text, a mini-run, one thing to do and a
// quiz. docs/lessons.md says what each word of the file means. No LibTorch.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/config.h"
#include "trace/base/status.h"

namespace shardscope::lesson {

// Most of the text of a lesson.
inline constexpr size_t kMostWords = 120;
inline constexpr size_t kMostChineseCharacters = 300;

// Both languages of one text. "{name}" in it stands for a number of the lesson, with its unit.
struct Words {
  std::string en;
  std::string zh;

  const std::string& In(std::string_view language) const { return language == "zh" ? zh : en; }
};

using Keys = std::map<std::string, std::string>;  // of shardscope-train

// What a number of a lesson is found in.
enum class Source : uint8_t {
  kRun,    // a SELECT over the learner's run
  kPlan,   // a SELECT over the Schedule that the keys of `plan` give (plan_tables.h)
  kAlone,  // an expression over other numbers
};

// A figure that texts and checks name. SQL, in which "{other}" stands for the value of another one.
struct Number {
  std::string name;
  Source source = Source::kAlone;
  std::string sql;
  std::string plan;  // kPlan: name of its keys
  std::string unit;  // of units.h
  int64_t line = 0;
};

enum class QuestionKind : uint8_t {
  kNumber,  // the answer is a number, with or without its unit
  kChoice,  // the answer is the name of a choice
  kOp,      // the answer is an op of the run, by its id or name
  kKnob,    // there is no answer: a knob of the run is turned
};

struct Choice {
  std::string name;
  Words words;
  Words why;  // it is wrong; empty: the question's
};

// What `lesson --check` does where a learner turns a knob.
struct Turn {
  config::Change change;
  int64_t steps = 0;  // of its run
};

// `right` is SQL over the run; in a quiz an expression over numbers that need no run. It gives: the
// number, the name of the right choice, the ids of all op runs that are right, or whether the run
// shows what the knob should do (NULL: the run has not come so far).
struct Question {
  QuestionKind kind = QuestionKind::kNumber;
  Words ask;
  std::string right;
  std::string unit;             // kNumber, of `right` and of an answer without one
  double tolerance = 0.02;      // kNumber: share of the right one
  std::vector<Choice> choices;  // kChoice
  std::optional<Turn> turn;     // kKnob
  std::string place;  // SELECT of op_run, or of rank and step: where a wrong answer is shown why
  Words wrong;        // why it is
  Words explain;      // what is said of the right one
  int64_t line = 0;
};

struct Lesson {
  int order = 0;   // from the file's name: 07-prefetch.toml
  std::string id;  // prefetch
  std::string path;
  Words title;
  Words text;
  Keys run;  // of the mini-run
  std::map<std::string, Keys> plans;
  std::vector<Number> numbers;
  Question task;
  Words eight;  // what it means on eight GPUs
  Question quiz;

  const Number* FindNumber(std::string_view name) const;
};

// Errors name the file, the line, what is wrong and the remedy. Everything is checked that needs no
// run: words, keys, names of numbers, lengths.
Result<Lesson> ReadLesson(const std::string& path);

// By order. Errors: those of ReadLesson(), no lesson, two of one id or order.
Result<std::vector<Lesson>> ReadLessons(const std::vector<std::string>& paths);

// In what is said of an answer: that one, and the right one.
inline constexpr std::string_view kAnswerName = "{answer}";
inline constexpr std::string_view kRightName = "{right}";

// The names in braces in `text`, in their order.
std::vector<std::string> NamesIn(std::string_view text);

// Whether finding the number needs the learner's run. The name is known.
bool NeedsRun(const Lesson& lesson, std::string_view number);

// What mini-runs are set to, over the defaults.
Result<config::Config> ConfigOf(const Keys& keys);

}  // namespace shardscope::lesson
