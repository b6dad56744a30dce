// Names in a trace that one layer writes and another asks for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace shardscope::trace_keys {

// capability.source of the row that says why the file of a killed run stays as it was left.
inline constexpr std::string_view kFinisher = "finisher";
// Of what memory held, in table memory_event (trace/schema/tables.py has it, too).
inline constexpr std::string_view kMemorySource = "memory";
// Of CUPTI's records.
inline constexpr std::string_view kCuptiSource = "cupti";

// track.name of what the tracer itself does.
inline constexpr std::string_view kOverheadTrack = "tracer overhead";

// counter.name, in bytes: what allocators hold of a GPU's memory, and what anybody does.
inline constexpr std::string_view kReservedBytes = "reserved_bytes";
inline constexpr std::string_view kDeviceUsedBytes = "device_used_bytes";

// meta.key: ranks of the run, cores of the machine (0: not known), and whether ranks share what
// they compute on ("true" or "false").
inline constexpr std::string_view kRunId = "run_id";
inline constexpr std::string_view kNumRanks = "num_ranks";
inline constexpr std::string_view kNumCores = "num_cores";
inline constexpr std::string_view kContended = "contended";
// meta.key, in decimal: bytes that CUPTI takes at least of the memory of each GPU in each context.
inline constexpr std::string_view kCuptiDeviceBytes = "cupti_device_bytes";
// meta.key where parameters are frozen: how many there are, how many of them are trained, and what
// that spares the rank that spares most.
inline constexpr std::string_view kParameters = "parameters";
inline constexpr std::string_view kTrainedParameters = "trained_parameters";
inline constexpr std::string_view kSparedGradientBytes = "spared_gradient_bytes";
inline constexpr std::string_view kSparedOptimizerBytes = "spared_optimizer_bytes";
// meta.key of a run that goes on from a checkpoint: whose, of which step, and its folder.
inline constexpr std::string_view kResumedRun = "resumed_run";
inline constexpr std::string_view kResumedStep = "resumed_step";
inline constexpr std::string_view kResumedFrom = "resumed_from";

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
inline constexpr std::string_view kCutFile = "cut_file";                 // if it is not whole
// "imported.rank3.base_ns" of 3 and kBaseNs.
inline std::string ImportedKey(int64_t rank, std::string_view key) {
  return std::string(kImportedRankPrefix) + std::to_string(rank) + "." + std::string(key);
}

}  // namespace shardscope::trace_keys
