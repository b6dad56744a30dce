// Memory change: what is live at one moment and was not at another, and what was and is no longer.
// Pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "trace/analysis/memory/memory.h"
#include "trace/analysis/moment/moment.h"

namespace shardscope::analysis {

// Of one rank, execution ledger; negative: less than before.
struct MemoryChange {
  int32_t rank = 0;
  int64_t bytes = 0;  // the host's memory left out
  CategoryBytes categories{};
  // By category and unit or segment ("": of none), without those that are the same.
  std::map<std::pair<query::MemoryCategory, std::string>, int64_t> units;
};

// Of the ranks that have rows of memory at both moments, ascending.
std::vector<MemoryChange> MemoryChanges(const Moment& since, const Moment& at);

}  // namespace shardscope::analysis
