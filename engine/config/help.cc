// The list of all keys for --help.
#include <fmt/format.h>

#include "engine/config/config.h"
#include "trace/base/text.h"

namespace shardscope::config {
namespace {

constexpr size_t kWidth = 100;

std::string_view TypeName(KeyType type) {
  switch (type) {
    case KeyType::kInt:
      return "int";
    case KeyType::kFloat:
      return "float";
    case KeyType::kBool:
      return "bool";
    case KeyType::kChoice:
      return "choice";
    case KeyType::kString:
      return "text";
    case KeyType::kDuration:
      return "duration";
    case KeyType::kBandwidth:
      return "bandwidth";
    case KeyType::kBytes:
      return "size";
  }
  return "";
}

// Breaks `text` at spaces into lines of kWidth with `indent` spaces in front.
std::string Wrapped(std::string_view text, size_t indent) {
  std::string lines;
  std::string line(indent, ' ');
  for (const std::string_view word : Split(text, ' ')) {
    if (line.size() > indent && line.size() + 1 + word.size() > kWidth) {
      lines += line + "\n";
      line.assign(indent, ' ');
    }
    if (line.size() > indent) line += ' ';
    line += word;
  }
  return lines + line + "\n";
}

}  // namespace

std::string KeyHelp() {
  std::string help =
      "Keys (--set key=value, run.toml, and those marked live in the control socket):\n";
  for (const KeyInfo& key : AllKeys()) {
    std::string facts = fmt::format("{}, default {}", TypeName(key.type),
                                    key.default_value.empty() ? "empty" : key.default_value);
    if (!key.unit.empty()) facts += ", unit " + key.unit;
    facts += key.live ? ", live" : ", not live";
    if (!key.settable) facts += ", written by the trainer";
    help += fmt::format("  {:<24} {}\n", key.name, facts);
    help += Wrapped(fmt::format("{} ({})", key.help, Allowed(key)), 6);
  }
  return help;
}

}  // namespace shardscope::config
