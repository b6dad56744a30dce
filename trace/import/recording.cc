#include "trace/import/recording.h"

namespace shardscope::imports {

Names::Index Names::Add(std::string_view text) {
  const auto known = index_of_.find(text);
  if (known != index_of_.end()) return known->second;
  const auto index = static_cast<Index>(texts_.size());
  index_of_.emplace(texts_.emplace_back(text), index);
  return index;
}

}  // namespace shardscope::imports
