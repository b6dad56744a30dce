#include "trace/analysis/config_at.h"

#include <algorithm>
#include <vector>

namespace shardscope::analysis {

std::map<std::string, std::string> ConfigAt(const query::Snapshot& snapshot, int32_t step) {
  std::map<std::string, std::string> config = snapshot.config;
  std::vector<const query::Marker*> changes;
  for (const query::Marker& marker : snapshot.markers) {
    if (marker.kind == Name(query::MarkerKind::kChange) && !marker.key.empty() &&
        marker.step <= step) {
      changes.push_back(&marker);
    }
  }
  std::stable_sort(
      changes.begin(), changes.end(),
      [](const query::Marker* a, const query::Marker* b) { return a->time_ns < b->time_ns; });
  for (const query::Marker* marker : changes) config[marker->key] = marker->new_value;
  return config;
}

}  // namespace shardscope::analysis
