#include "trace/query/rows.h"

namespace shardscope::query {

OpClass OpClassOf(std::string_view kind, Category category) {
  if (const auto known = words::ParseOpKind(kind)) return words::TraitsOf(*known).op_class;
  switch (category) {
    case Category::kCompute:
      return OpClass::kForward;
    case Category::kCommunication:
      return OpClass::kAllReduce;
    case Category::kCopy:
      return OpClass::kCopy;
    case Category::kOptimizer:
      return OpClass::kOptimizer;
    case Category::kHost:
      break;
  }
  return OpClass::kHost;
}

std::string ChangeText(const Marker& marker) {
  return marker.key + " " + marker.old_value + " -> " + marker.new_value;
}

}  // namespace shardscope::query
