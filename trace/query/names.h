// The words of text columns as enums, and back (trace/base/words.h), and what ops are drawn as.
#pragma once

#include <string_view>

#include "trace/query/snapshot.h"

namespace shardscope::query {

using words::Name;
using words::ParseBlockingKind;
using words::ParseCategory;
using words::ParseChannelKind;
using words::ParseGpuTimes;
using words::ParseGpuWorkKind;
using words::ParseMemoryCategory;
using words::ParsePauseCause;
using words::ParseSpanCategory;
using words::ParseTrackRole;
using words::ParseTruth;

// What an op of this kind is drawn as; a kind that is not known here, by its category.
OpClass OpClassOf(std::string_view kind, Category category);

}  // namespace shardscope::query
