#include "trace/base/assets.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace shardscope {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxParents = 4;  // build/<preset>/bin lies three below the checkout

}  // namespace

std::string ProgramFolder() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path().string();
}

std::vector<std::string> TomlFilesIn(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().extension() == ".toml") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::string> FindAssets(const std::string& program_folder, const std::string& name) {
  std::vector<fs::path> candidates = {fs::path(program_folder) / "../share/shardscope" / name};
  fs::path folder = program_folder;
  for (int i = 0; i < kMaxParents; ++i, folder = folder.parent_path()) {
    candidates.push_back(folder / "assets" / name);
  }
  for (const fs::path& candidate : candidates) {
    std::vector<std::string> files = TomlFilesIn(candidate.string());
    if (!files.empty()) return files;
  }
  return {};
}

}  // namespace shardscope
