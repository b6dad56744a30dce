// run.toml: writing.
#include <fmt/format.h>

#include "engine/config/config.h"

namespace shardscope::config {
namespace {

std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

// Numbers and booleans bare, the rest quoted. 1 is written as it is for a float key too: it is read
// back as text.
std::string TomlValue(const KeyInfo& key, std::string_view text) {
  const bool is_bare =
      key.type == KeyType::kInt || key.type == KeyType::kFloat || key.type == KeyType::kBool;
  return is_bare ? std::string(text) : Quoted(text);
}

std::string PrintKey(const KeyInfo& key, std::string_view name, const Config& config) {
  std::string facts = Allowed(key);
  if (!key.unit.empty()) facts += ", in " + key.unit;
  if (key.live) facts += "; live";
  return fmt::format("# {}\n# {}\n{} = {}\n", key.help, facts, name,
                     TomlValue(key, config.Get(key.name)));
}

std::string PrintChosen(const Config& config) {
  std::string list;
  for (const KeyInfo& key : AllKeys())
    if (config.IsExplicit(key.name)) list += fmt::format("  {},\n", Quoted(key.name));
  return "# The keys that were set; all others have their defaults.\nchosen = [\n" + list + "]\n";
}

std::string PrintChange(const Change& change) {
  std::string set;
  for (const auto& [name, value] : change.set) {
    if (!set.empty()) set += ", ";
    set += fmt::format("{} = {}", Quoted(name), TomlValue(*FindKey(name), value));
  }
  const std::string step =
      change.share.empty() ? std::to_string(change.step) : Quoted(change.share);
  return fmt::format("\n[[change]]\nstep = {}\nset = {{ {} }}\n", step, set);
}

}  // namespace

std::string PrintToml(const Config& config) {
  std::string top;
  std::vector<std::string> order;  // of the tables, as in --help
  std::map<std::string, std::string> tables;
  for (const KeyInfo& key : AllKeys()) {
    const size_t dot = key.name.find('.');
    if (dot == std::string::npos) {
      top += "\n" + PrintKey(key, key.name, config);
      continue;
    }
    const std::string group = key.name.substr(0, dot);
    if (!tables.contains(group)) order.push_back(group);
    tables[group] += PrintKey(key, key.name.substr(dot + 1), config);
  }
  std::string text = "# The configuration of a Shardscope run, every default written out.\n" +
                     PrintChosen(config) + top;
  for (const std::string& group : order) text += fmt::format("\n[{}]\n", group) + tables[group];
  for (const Change& change : config.changes()) text += PrintChange(change);
  return text;
}

}  // namespace shardscope::config
