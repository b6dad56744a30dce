// Whether the end of a range was seen (trace/base/not_ended.h).
#pragma once

#include "trace/base/not_ended.h"
#include "trace/query/snapshot.h"

namespace shardscope::query {

inline bool HasEnded(const Snapshot& snapshot, const Span& span) {
  const bool is_named = span.name >= 0 && static_cast<size_t>(span.name) < snapshot.names.size();
  return !is_named || !IsNotEnded(snapshot.names[static_cast<size_t>(span.name)]);
}

}  // namespace shardscope::query
