// What is fuzzed: every way by which bytes that nobody vouches for come in. A target ends normally
// or with an error of ours; anything else (crash, hang, sanitizer report) is a finding.
#pragma once

#include <cstdint>
#include <span>

namespace shardscope::fuzz {

using Input = std::span<const uint8_t>;

// A run folder with a damaged trace, from opening to the printed report. The input is a list of
// edits of a good trace (see trace_target.cc), so that short inputs reach deep.
void FuzzTrace(Input input);

// The text form of a Schedule; what parses must print to what parses to the same.
void FuzzSchedule(Input input);

// run.toml.
void FuzzToml(Input input);

// A line on the control socket, as trainer and as app.
void FuzzControl(Input input);

// A buffer of CUPTI of another version, or a damaged one, from the decoder to the rows. The first
// bytes say how its records are walked.
void FuzzCupti(Input input);

// A file that `shardscope import` takes, from its first bytes to the report of the run.
void FuzzImport(Input input);

// A line of `shardscope tail`.
void FuzzTail(Input input);

}  // namespace shardscope::fuzz
