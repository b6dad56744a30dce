#include "engine/transport/left_out.h"

#include "trace/base/number_list.h"

namespace shardscope::transport {

CallPlace PlaceOf(const Call& call, words::OpKind kind) {
  return {call.rank, std::string(Name(kind)), std::string(call.op_name), call.op, call.step};
}

std::string DescribeLeftOut(const CallPlace& at, const std::vector<int>& waiting,
                            std::span<const CallPlace> ahead) {
  std::vector<int> missing;
  std::string instead;
  for (const CallPlace& place : ahead) {
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
