// Keys that name files and folders.
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "engine/config/config.h"

namespace shardscope::config {
namespace {

// Empty where the current folder is not there any more.
std::string AbsoluteText(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path whole = fs::absolute(path, error);
  if (error) return "";
  const fs::path normal = whole.lexically_normal();
  // Behind a link `..` is not the folder that the text says.
  const bool differs = fs::exists(whole, error) && !fs::equivalent(whole, normal, error);
  return (differs ? whole : normal).string();
}

// Empty where the value stays as it is: it names no file or folder, is absolute, or cannot become
// so.
std::string AbsoluteValue(const KeyInfo& key, const std::string& value) {
  if (!key.is_path || value.empty() || value.front() == '/') return "";
  if (key.name == "data.tokenizer" && value == "bytes") return "";
  // An error: the folder's name is none that a value can have.
  const Result<std::string> absolute = Canonical(key, AbsoluteText(value));
  return absolute.ok() ? *absolute : "";
}

}  // namespace

void MakePathsAbsolute(Config* config) {
  for (const KeyInfo& key : AllKeys()) {
    const std::string absolute = AbsoluteValue(key, config->Get(key.name));
    if (!absolute.empty()) (void)config->Set(key.name, absolute);
  }
  const std::vector<Change> changes = config->changes();
  config->ClearChanges();
  for (Change change : changes) {
    for (auto& [name, value] : change.set) {
      const std::string absolute = AbsoluteValue(*FindKey(name), value);
      if (!absolute.empty()) value = absolute;
    }
    config->AddChange(std::move(change));
  }
}

}  // namespace shardscope::config
