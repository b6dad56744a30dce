#include "trace/query/names.h"

#include <array>

namespace shardscope::query {

OpClass OpClassOf(std::string_view kind, Category category) {
  if (kind == "reshard" || kind == "release" || kind == "control") return OpClass::kBookkeeping;
  switch (category) {
    case Category::kCompute:
      return kind == "backward" ? OpClass::kBackward : OpClass::kForward;
    case Category::kCommunication:
      if (kind == "reduce_scatter") return OpClass::kReduceScatter;
      return kind == "all_gather" ? OpClass::kAllGather : OpClass::kAllReduce;
    case Category::kCopy:
      return OpClass::kCopy;
    case Category::kOptimizer:
      return OpClass::kOptimizer;
    case Category::kHost:
      break;
  }
  return OpClass::kHost;
}

std::string_view Name(OpClass op_class) {
  static constexpr std::array<std::string_view, 9> kNames = {
      "forward",   "backward", "all_gather", "reduce_scatter", "all_reduce",
      "optimizer", "copy",     "host",       "bookkeeping"};
  return kNames[static_cast<size_t>(op_class)];
}

}  // namespace shardscope::query
