#include "engine/transport/left_out.h"

#include "trace/base/number_list.h"

namespace shardscope::transport {

std::string DescribeLeftOut(const Place& at, const std::vector<int>& waiting,
                            std::span<const Place> ahead) {
  std::vector<int> missing;
  std::string instead;
  for (const Place& place : ahead) {
    missing.push_back(place.rank);
    instead += "; rank " + std::to_string(place.rank) + " called " + place.kind + " for '" +
               place.op_name + "'";
    if (place.op != plan::kNone) instead += " (op " + std::to_string(place.op) + ")";
  }
  return RanksText(missing) + " left out " + at.kind + " '" + at.op_name + "' (op " +
         std::to_string(at.op) + ", step " + std::to_string(at.step) + "), in which " +
         RanksText(waiting) + (waiting.size() == 1 ? " waits" : " wait") + " for " +
         (missing.size() == 1 ? "it" : "them") + instead;
}

}  // namespace shardscope::transport
