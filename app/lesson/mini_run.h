// Trains the mini-runs of lessons: starts shardscope-train and waits for it.
#pragma once

#include <string>
#include <vector>

#include "lesson/lesson.h"
#include "trace/base/status.h"

namespace shardscope::app {

// "--out", folder, "--set", ...: what a learner types behind shardscope-train.
std::vector<std::string> MiniRunArguments(const lesson::Lesson& lesson, const std::string& folder);

// Trains it in the foreground, its progress on this terminal.
Status TrainMiniRun(const lesson::Lesson& lesson, const std::string& folder);

// The same without a word, and only as long as checking needs; `turned`: with the knob turned at
// its step. `folder` is ours. Errors: the end of what it said.
enum class Knob : uint8_t { kAsItIs, kTurned };
Status TrainForCheck(const lesson::Lesson& lesson, const std::string& folder, Knob knob);

}  // namespace shardscope::app
