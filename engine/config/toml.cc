// run.toml: reading and writing.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include "engine/config/config.h"
#include "engine/config/toml_file.h"
#include "trace/base/parse_number.h"
#include "trace/base/text.h"

namespace shardscope::config {
namespace {

constexpr int64_t kMaxShareBottom = 1'000'000;

struct Entry {
  std::string key;
  std::string value;
  int64_t line = 0;
};

struct ReadChange {
  Change change;
  int64_t line = 0;
};

struct Document {
  std::vector<Entry> entries;
  std::vector<ReadChange> changes;
  std::optional<std::set<std::string, std::less<>>> chosen;
};

std::optional<std::string> ScalarText(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  if (const auto* flag = node.as_boolean()) return std::string(flag->get() ? "true" : "false");
  return std::nullopt;
}

// Tables nested in any way, and dotted keys in quotes, all become dotted keys.
Status Flatten(const toml::table& table, const std::string& prefix, std::vector<Entry>* entries) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix + std::string(key.str());
    if (const toml::table* inner = node.as_table()) {
      SHARDSCOPE_RETURN_IF_ERROR(Flatten(*inner, name + ".", entries));
    } else if (auto text = ScalarText(node)) {
      entries->push_back({name, std::move(*text), LineOf(node)});
    } else {
      const KeyInfo* known = FindKey(name);
      return ErrorAt(
          LineOf(node),
          fmt::format("{}: must be {}", name,
                      known != nullptr ? Allowed(*known) : "one text, number, true or false"));
    }
  }
  return Status::Ok();
}

// A step number, or a share of train.steps as "1/3".
Status ReadStep(const toml::node* node, int64_t line, Change* change) {
  const std::string wanted =
      "a change needs step = a step number from 0, or a share of train.steps as \"1/3\"";
  if (node == nullptr) return ErrorAt(line, wanted);
  if (const auto* number = node->as_integer()) {
    change->step = number->get();
    return change->step >= 0 ? Status::Ok() : ErrorAt(LineOf(*node), wanted);
  }
  const auto* text = node->as_string();
  const auto parts = text != nullptr ? Split(text->get(), '/') : std::vector<std::string_view>();
  if (parts.size() != 2) return ErrorAt(LineOf(*node), wanted);
  const auto top = ParseInteger<int64_t>(parts[0], 0);
  const auto bottom = ParseInteger<int64_t>(parts[1], 1);
  if (!top || !bottom || *top > *bottom || *bottom > kMaxShareBottom)
    return ErrorAt(LineOf(*node), wanted);
  change->share = text->get();
  return Status::Ok();
}

Status ReadChangeTable(const toml::table& table, std::vector<ReadChange>* changes) {
  ReadChange read{.line = LineOf(table)};
  for (const auto& [key, node] : table) {
    if (key.str() != "step" && key.str() != "set")
      return ErrorAt(LineOf(node), fmt::format("a change has step and set, not {}", key.str()));
  }
  SHARDSCOPE_RETURN_IF_ERROR(ReadStep(table.get("step"), read.line, &read.change));
  const toml::table* set = table.get("set") != nullptr ? table.get("set")->as_table() : nullptr;
  if (set == nullptr || set->empty())
    return ErrorAt(read.line, "a change needs set = { \"key\" = value }");
  std::vector<Entry> entries;
  SHARDSCOPE_RETURN_IF_ERROR(Flatten(*set, "", &entries));
  Config scratch;
  for (const Entry& entry : entries) {
    const Status status = scratch.Set(entry.key, entry.value);
    if (!status.ok()) return ErrorAt(entry.line, status.message());
    if (!FindKey(entry.key)->live)
      return ErrorAt(entry.line, fmt::format("{} cannot change while the run trains", entry.key));
    read.change.set[entry.key] = scratch.Get(entry.key);
  }
  changes->push_back(std::move(read));
  return Status::Ok();
}

Status ReadChanges(const toml::node& node, std::vector<ReadChange>* changes) {
  const toml::array* list = node.as_array();
  if (list == nullptr) return ErrorAt(LineOf(node), "change: must be a list, written [[change]]");
  for (const toml::node& item : *list) {
    const toml::table* table = item.as_table();
    if (table == nullptr)
      return ErrorAt(LineOf(item), "change: must be a list of tables, written [[change]]");
    SHARDSCOPE_RETURN_IF_ERROR(ReadChangeTable(*table, changes));
  }
  return Status::Ok();
}

Status ReadChosen(const toml::node& node, Document* document) {
  document->chosen.emplace();
  const toml::array* list = node.as_array();
  if (list == nullptr) return ErrorAt(LineOf(node), "chosen: must be a list of keys");
  for (const toml::node& item : *list) {
    const auto* name = item.as_string();
    if (name == nullptr || FindKey(name->get()) == nullptr)
      return ErrorAt(LineOf(item), "chosen: must be a list of keys");
    document->chosen->insert(name->get());
  }
  return Status::Ok();
}

// Takes what is no key out of `table`: a copy of it would not have its lines any more.
Status ReadDocument(toml::table* table, Document* document) {
  if (const toml::node* node = table->get("change")) {
    SHARDSCOPE_RETURN_IF_ERROR(ReadChanges(*node, &document->changes));
    table->erase("change");
  }
  if (const toml::node* node = table->get("chosen")) {
    SHARDSCOPE_RETURN_IF_ERROR(ReadChosen(*node, document));
    table->erase("chosen");
  }
  return Flatten(*table, "", &document->entries);
}

Status SetEntry(const Entry& entry, Config* config) {
  const KeyInfo* key = FindKey(entry.key);
  if (key != nullptr && key->name == "run.control_socket") {
    config->SetControlSocket(entry.value);
    return Status::Ok();
  }
  const Status status = config->Set(entry.key, entry.value);
  return status.ok() ? status : ErrorAt(entry.line, status.message());
}

// With a list of chosen keys, those first: they decide the defaults that the others are compared
// with.
Status Apply(const Document& document, Config* config) {
  std::map<std::string, const Entry*> rest;
  for (const Entry& entry : document.entries) {
    if (document.chosen && !document.chosen->contains(entry.key) && FindKey(entry.key) != nullptr)
      rest[entry.key] = &entry;
    else
      SHARDSCOPE_RETURN_IF_ERROR(SetEntry(entry, config));
  }
  // In table order: preset, strategy and the like come before the keys whose defaults they give.
  for (const KeyInfo& key : AllKeys()) {
    const auto found = rest.find(key.name);
    if (found == rest.end()) continue;
    const auto canonical = Canonical(key, found->second->value);
    if (canonical.ok() && *canonical == config->Get(key.name)) continue;
    SHARDSCOPE_RETURN_IF_ERROR(SetEntry(*found->second, config));
  }
  if (!document.changes.empty()) config->ClearChanges();
  for (const ReadChange& read : document.changes) config->AddChange(read.change);
  return Status::Ok();
}

// In one line: the path of a socket comes from the environment, and no rule for values is asked.
std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      quoted += fmt::format("\\u{:04x}", byte);
      continue;
    }
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

Status ApplyToml(const std::string& path, Config* config) {
  auto table = ParseTomlFile(path);
  if (!table.ok()) return table.status();
  Document document;
  Config candidate = *config;
  Status status = ReadDocument(&*table, &document);
  if (status.ok()) status = Apply(document, &candidate);
  if (!status.ok()) return Status::Error(fmt::format("{}:{}", path, status.message()));
  *config = std::move(candidate);
  return Status::Ok();
}

Result<Config> LoadToml(const std::string& path) {
  Config config;
  SHARDSCOPE_RETURN_IF_ERROR(ApplyToml(path, &config));
  return config;
}

Result<std::string> ReadControlSocket(const std::string& path) {
  const auto table = ParseTomlFile(path);
  if (!table.ok()) return table.status();
  if (const auto socket = table->at_path("run.control_socket").value<std::string>();
      socket && !socket->empty())
    return *socket;
  return Status::Error(fmt::format("{} names no control socket (run.control_socket)", path));
}

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
