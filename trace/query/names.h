// The words of text columns as enums, and back. Unknown words give nullopt.
#pragma once

#include <optional>
#include <string_view>

#include "trace/query/snapshot.h"

namespace shardscope::query {

std::optional<Category> ParseCategory(std::string_view text);
std::optional<TrackRole> ParseTrackRole(std::string_view text);
std::optional<Truth> ParseTruth(std::string_view text);
std::optional<BlockingKind> ParseBlockingKind(std::string_view text);
std::optional<MemoryCategory> ParseMemoryCategory(std::string_view text);
std::optional<PauseCause> ParsePauseCause(std::string_view text);

std::optional<SpanCategory> ParseSpanCategory(std::string_view text);
std::optional<GpuWorkKind> ParseGpuWorkKind(std::string_view text);
std::optional<GpuTimes> ParseGpuTimes(std::string_view text);
std::optional<ChannelKind> ParseChannelKind(std::string_view text);

// What an op of this kind and category is drawn as.
OpClass OpClassOf(std::string_view kind, Category category);

// "all_gather", "communication", ...: as in the trace.
std::string_view Name(Category category);
std::string_view Name(TrackRole role);
std::string_view Name(Truth truth);
std::string_view Name(BlockingKind kind);
std::string_view Name(MemoryCategory category);
std::string_view Name(PauseCause cause);
std::string_view Name(OpClass op_class);
std::string_view Name(ClockMethod method);
std::string_view Name(GpuWorkKind kind);

}  // namespace shardscope::query
