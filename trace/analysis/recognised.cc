#include "trace/analysis/recognised.h"

#include <fmt/format.h>

#include <charconv>

#include "trace/base/text.h"
#include "trace/base/trace_keys.h"

namespace shardscope::analysis {

std::vector<Recognised> RecognisedIn(const query::Snapshot& snapshot) {
  using trace_keys::kRecognisedPrefix;
  std::vector<Recognised> groups;
  for (auto entry = snapshot.meta.lower_bound(std::string(kRecognisedPrefix));
       entry != snapshot.meta.end() && entry->first.starts_with(kRecognisedPrefix); ++entry) {
    const std::string& value = entry->second;
    const size_t first = value.find(';');
    const size_t second = first == std::string::npos ? first : value.find(';', first + 1);
    if (second == std::string::npos) continue;
    Recognised group{.communicator = entry->first.substr(kRecognisedPrefix.size()),
                     .parallelism = value.substr(0, first),
                     .evidence = value.substr(first + 1, second - first - 1)};
    std::from_chars(value.data() + second + 1, value.data() + value.size(), group.num_units);
    groups.push_back(std::move(group));
  }
  return groups;
}

std::string PrintRecognised(const std::vector<Recognised>& groups) {
  if (groups.empty()) return "";
  std::vector<std::string> texts;
  for (const Recognised& group : groups) {
    const std::string units = group.num_units > 0 ? fmt::format(", {} units", group.num_units) : "";
    texts.push_back(fmt::format("{} over {}{} (by its {})", group.parallelism, group.communicator,
                                units, group.evidence));
  }
  return fmt::format("Recognised: {}\n", Join(texts, "; "));
}

}  // namespace shardscope::analysis
