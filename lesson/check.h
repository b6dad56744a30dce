// Judges answers: what is right is found in the run itself, or, of a quiz, in Schedules and
// formulas. Any thread; milliseconds to seconds, as long as the SELECTs of the lesson take.
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>

#include "lesson/lesson.h"
#include "lesson/values.h"
#include "trace/base/status.h"

namespace shardscope::lesson {

enum class Outcome : uint8_t {
  kRight,
  kWrong,
  kNotYet,    // the run has not come so far
  kNoAnswer,  // what was said is no number, or none of the choices
};

// Where the timeline shows it.
struct Place {
  int64_t op_run = -1;  // -1: a step as a whole
  int32_t rank = 0;
  int32_t step = -1;
};

struct Verdict {
  Outcome outcome = Outcome::kNotYet;
  Words reason;
  std::optional<Place> place;  // of a task, where there is one
};

enum class Exercise : uint8_t { kTask, kQuiz };
const Question& QuestionOf(const Lesson& lesson, Exercise part);

struct Attempt {
  Exercise part = Exercise::kTask;
  std::string run;     // folder or trace file; of a task
  std::string answer;  // empty of kKnob
};

// Errors: no such run, an answer that names no op of it, SQL of the lesson that fails.
Result<Verdict> CheckAnswer(const Lesson& lesson, const Attempt& attempt,
                            const std::stop_token& stop = {});

// An answer that is accepted, and one that is refused: for `lesson --check` and for teachers. Both
// empty of kKnob.
struct ModelAnswers {
  std::string right;
  std::string wrong;
};
// `run`: of a task. Errors: as CheckAnswer(); the run does not show which is right.
Result<ModelAnswers> AnswersOf(const Lesson& lesson, Exercise part, const std::string& run);

}  // namespace shardscope::lesson
