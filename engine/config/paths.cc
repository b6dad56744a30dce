// Keys that name files and folders.
#include <filesystem>
#include <string>
#include <system_error>

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

}  // namespace

void MakePathsAbsolute(Config* config) {
  for (const KeyInfo& key : AllKeys()) {
    const std::string& path = config->Get(key.name);
    if (!key.is_path || path.empty() || path.front() == '/') continue;
    if (key.name == "data.tokenizer" && path == "bytes") continue;
    const std::string absolute = AbsoluteText(path);
    // An error: the folder's name is none that a value can have, and what was given stays.
    if (!absolute.empty()) (void)config->Set(key.name, absolute);
  }
}

}  // namespace shardscope::config
