#include "engine/transport/left_out.h"

#include "trace/base/text.h"

namespace shardscope::transport {
namespace {

// "rank 1", "ranks 0, 2".
std::string Named(const std::vector<std::string>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + Join(ranks, ", ");
}

}  // namespace

std::string DescribeLeftOut(const Place& at, const std::vector<int>& waiting,
                            std::span<const Place> ahead) {
  std::vector<std::string> there;
  for (const int rank : waiting) there.push_back(std::to_string(rank));
  std::vector<std::string> missing;
  std::string instead;
  for (const Place& place : ahead) {
    missing.push_back(std::to_string(place.rank));
    instead +=
        "; rank " + missing.back() + " called " + place.kind + " for '" + place.op_name + "'";
    if (place.op != plan::kNone) instead += " (op " + std::to_string(place.op) + ")";
  }
  return Named(missing) + " left out " + at.kind + " '" + at.op_name + "' (op " +
         std::to_string(at.op) + ", step " + std::to_string(at.step) + "), in which " +
         Named(there) + (there.size() == 1 ? " waits" : " wait") + " for " +
         (missing.size() == 1 ? "it" : "them") + instead;
}

}  // namespace shardscope::transport
