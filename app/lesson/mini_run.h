// Trains the mini-runs of lessons: starts shardscope-train and waits for it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lesson/lesson.h"
#include "trace/base/status.h"

namespace shardscope::app {

// "--out", folder, "--set", ...: what a learner types behind shardscope-train.
std::vector<std::string> MiniRunArguments(const lesson::Lesson& lesson, const std::string& folder);

// Trains it in the foreground, its progress on this terminal; `on_start` is called once its run is
// there to be watched. False: it failed, and has said why there.
Result<bool> TrainMiniRun(const lesson::Lesson& lesson, const std::string& folder,
                          const std::function<void()>& on_start);

// The same without a word, and only as long as checking needs; `turned`: with the knob turned at
// its step. `folder` is ours. Errors: the end of what it said.
enum class Knob : uint8_t { kAsItIs, kTurned };
Status TrainForCheck(const lesson::Lesson& lesson, const std::string& folder, Knob knob);

}  // namespace shardscope::app
