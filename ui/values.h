// What panels show of a run besides its rows: state, what its keys are set to, durations.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ui/context.h"
#include "ui/text.h"

namespace shardscope::ui {

// What the keys and the menu make text larger and smaller by.
inline constexpr float kScaleStep = 1.1f;

// The state of the open run in one word: LIVE, PAUSED, FINISHED, FAILED, ...
Text StateWord(const Context& context);

// The newest step of the open run that has begun, as the top bar names it; -1: none has.
int64_t NewestStep(const Context& context);

// The value in force: what the training reports, else the run's start with its markers applied,
// else the default.
std::string ValueInForce(const Context& context, std::string_view key);

// Whether panels show the step in focus rather than of what is in force now: a run that has
// ended, and one that goes on while it is not followed.
bool ShowsThePast(const Context& context);

// The value that a knob shows: in force, or, where the past is shown, at the step in focus.
std::string ShownValue(const Context& context, std::string_view key);

// The value asked for and not yet in force; nullopt if there is none.
std::optional<std::string> PendingValue(const Context& context, std::string_view key);

// Of `shardscope record`: spans of a program without steps, keys and knobs.
bool IsRecordedProgram(const Context& context);
// Likewise, one that has no steps, and none will come.
bool IsRecordedWithoutSteps(const Context& context);

// Whether a training answers, so that knobs can be turned.
bool CanSteer(const Context& context);

// Whether a training answers, and a step of it waits.
bool IsPaused(const Context& context);

// Of all sources: what was to be recorded and is lost.
int64_t DroppedRecords(const query::Snapshot& snapshot);

// How far the newest row of the open run is behind now. nullopt of one that does not go on or is
// paused: there are no rows that could be late. And in pictures, which stay the same from run to
// run.
std::optional<int64_t> LagNs(const Context& context);

// Names of the runs that train, but for that whose folder `run` names.
std::vector<std::string> OtherLiveRuns(const std::vector<RunEntry>& runs, const std::string& run);

// "412", "41.2", "4.12": milliseconds with three significant digits, without the unit.
std::string FormatMs(double duration_ns);

// When something is, from the start of the run, in a unit that fits it: "12.259 s", "630.000 ms",
// "29.0 µs".
std::string FormatMoment(int64_t from_start_ns);
std::string FormatMoment(const query::Snapshot& snapshot, int64_t time_ns);

// As shardscope::FormatDuration(), with "µs": "12.3 ms", "456 µs".
std::string FormatDuration(int64_t duration_ns);
// Of a mean or a percentile, likewise.
template <std::same_as<double> Double>
std::string FormatDuration(Double duration_ns) {
  return FormatDuration(static_cast<int64_t>(std::llround(duration_ns)));
}

}  // namespace shardscope::ui
