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

// config.key of what other tools take from the file of an imported rank: ImportedKey() of these.
inline constexpr std::string_view kImportedRankPrefix = "imported.rank";  // of any rank
inline constexpr std::string_view kBaseNs = "base_ns";  // what was added to its times
inline constexpr std::string_view kFirstEventNs = "first_event_ns";
inline constexpr std::string_view kFirstEventIsWork = "first_event_is_work";
inline constexpr std::string_view kStreamOfHostWaits = "stream_of_host_waits";
inline constexpr std::string_view kStreamsOfNames = "streams_of_names";  // lines: a stream, a name
// "imported.rank3.base_ns" of 3 and kBaseNs.
inline std::string ImportedKey(int64_t rank, std::string_view key) {
  return std::string(kImportedRankPrefix) + std::to_string(rank) + "." + std::string(key);
}

}  // namespace shardscope::trace_keys
