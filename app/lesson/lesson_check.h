// `shardscope lesson --check`: does each lesson as a learner would, right and wrong.
#pragma once

#include "lesson/lesson.h"
#include "trace/base/status.h"

namespace shardscope::app {

// Fills all texts, judges the right and a wrong answer to the quiz, trains the mini-run, does the
// thing to do, and has it judged; once more without, or wrong. Errors: what a learner would meet.
Status CheckLesson(const lesson::Lesson& lesson);

}  // namespace shardscope::app
