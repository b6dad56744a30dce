#include "trace/analysis/compare/unit_match.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <set>

namespace shardscope::analysis {
namespace {

using UnitNames = std::vector<std::string>;

// "layers.#" of "layers.12": the last number left out.
std::string StemOf(const std::string& name) {
  const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  const auto last = std::find_if(name.rbegin(), name.rend(), is_digit);
  if (last == name.rend()) return name;
  const auto first = std::find_if_not(last, name.rend(), is_digit);
  return std::string(name.begin(), first.base()) + "#" + std::string(last.base(), name.end());
}

// Where the repeated units stand; empty if nothing is repeated.
struct Repeated {
  std::vector<size_t> places;

  size_t before() const { return places.empty() ? 0 : places.front(); }
  size_t end() const { return places.empty() ? 0 : places.back() + 1; }
};

Repeated RepeatedOf(const UnitNames& names) {
  std::map<std::string, Repeated> by_stem;
  for (size_t at = 0; at < names.size(); ++at) by_stem[StemOf(names[at])].places.push_back(at);
  Repeated largest;
  for (const auto& [stem, repeated] : by_stem) {
    if (repeated.places.size() > std::max<size_t>(largest.places.size(), 1)) largest = repeated;
  }
  return largest;
}

void MatchByOrder(const UnitNames& a, const UnitNames& b, UnitMatch* match) {
  if (a.size() == b.size()) {
    for (size_t at = 0; at < a.size(); ++at) match->pairs.emplace_back(a[at], b[at]);
    return;
  }
  const Repeated in_a = RepeatedOf(a);
  const Repeated in_b = RepeatedOf(b);
  if (in_a.places.empty() || in_b.places.empty()) return;
  for (size_t at = 0; at < std::min(in_a.before(), in_b.before()); ++at) {
    match->pairs.emplace_back(a[at], b[at]);
  }
  for (size_t at = 0; at < std::min(in_a.places.size(), in_b.places.size()); ++at) {
    match->pairs.emplace_back(a[in_a.places[at]], b[in_b.places[at]]);
  }
  const size_t after = std::min(a.size() - in_a.end(), b.size() - in_b.end());
  for (size_t at = after; at > 0; --at) {
    match->pairs.emplace_back(a[a.size() - at], b[b.size() - at]);
  }
}

}  // namespace

UnitMatch MatchUnits(const UnitNames& a, const UnitNames& b) {
  UnitMatch match;
  const std::set<std::string> names_of_b(b.begin(), b.end());
  for (const std::string& name : a) {
    if (names_of_b.contains(name)) match.pairs.emplace_back(name, name);
  }
  if (match.pairs.empty() && !a.empty() && !b.empty()) {
    match.by_order = true;
    MatchByOrder(a, b, &match);
  }
  for (const auto& [name_a, name_b] : match.pairs) match.name_in_a[name_b] = name_a;
  return match;
}

}  // namespace shardscope::analysis
