#include "trace/analysis/memory/memory_change.h"

#include <algorithm>

namespace shardscope::analysis {

std::vector<MemoryChange> MemoryChanges(const Moment& since, const Moment& at) {
  std::vector<MemoryChange> changes;
  for (const RankMoment& after : at.ranks) {
    const auto before = std::ranges::find(since.ranks, after.rank, &RankMoment::rank);
    if (before == since.ranks.end() || !before->has_memory || !after.has_memory) continue;
    MemoryChange& change = changes.emplace_back();
    change.rank = after.rank;
    change.bytes = after.live_bytes - before->live_bytes;
    change.units = after.live_of_units;
    for (const auto& [key, bytes] : before->live_of_units) change.units[key] -= bytes;
    std::erase_if(change.units, [](const auto& entry) { return entry.second == 0; });
    for (size_t category = 0; category < change.categories.size(); ++category) {
      change.categories[category] = after.live[category] - before->live[category];
    }
  }
  return changes;
}

}  // namespace shardscope::analysis
