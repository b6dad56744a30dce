// Names in a trace that one layer writes and another asks for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace shardscope::trace_keys {

// capability.source of the row that says why the file of a killed run stays as it was left.
inline constexpr std::string_view kFinisher = "finisher";

// track.name of what the tracer itself does.
inline constexpr std::string_view kOverheadTrack = "tracer overhead";

// meta.key of an imported run: "0" if the file marks no steps.
inline constexpr std::string_view kStepsMarked = "steps_marked";
// Before a communicator: meta.key of which parallelism its group shows.
inline constexpr std::string_view kRecognisedPrefix = "recognised.";

// config.key of what other tools take from the file of an imported rank: the part behind the
// prefix.
inline constexpr const char* kBaseNs = "base_ns";  // what was added to its times
inline constexpr const char* kFirstEventNs = "first_event_ns";
inline constexpr const char* kFirstEventIsWork = "first_event_is_work";
inline constexpr const char* kStreamOfHostWaits = "stream_of_host_waits";
inline constexpr const char* kStreamsOfNames = "streams_of_names";  // lines: a stream, a name
// "imported.rank3."
inline std::string ImportedPrefix(int64_t rank) {
  return "imported.rank" + std::to_string(rank) + ".";
}

}  // namespace shardscope::trace_keys
