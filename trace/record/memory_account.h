// MemoryAccount: what memory events are added up by.
#pragma once

#include <compare>
#include <cstdint>

#include "trace/schema/columns.h"

namespace shardscope::record {

struct MemoryAccount {
  int64_t rank = 0;
  schema::ShortText device, category, unit;

  static MemoryAccount Of(const schema::MemoryEventRow& row);
  std::weak_ordering operator<=>(const MemoryAccount& other) const;

  // A row without an id, of no op and no step.
  schema::MemoryEventRow Event(int64_t issued_ns, int64_t executed_ns, int64_t bytes) const;
};

}  // namespace shardscope::record
