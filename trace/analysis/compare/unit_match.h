// Which units of one run are which of another. Pure functions.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace shardscope::analysis {

struct UnitMatch {
  bool by_order = false;                                   // no name is in both: by place and role
  std::vector<std::pair<std::string, std::string>> pairs;  // names in A and B, in the order of A
  std::map<std::string, std::string> name_in_a;            // by the name in B, of those in `pairs`
};

// `a` and `b`: names in the order of their forward, each once. Units with one name are one unit. If
// no name is in both, but there are as many: by order. Else the units whose names differ in a
// number only ("block0", "block1"; "layers.0") are the repeated ones, matched by order, and so are
// those before them and, from the last one on, those after them.
UnitMatch MatchUnits(const std::vector<std::string>& a, const std::vector<std::string>& b);

}  // namespace shardscope::analysis
